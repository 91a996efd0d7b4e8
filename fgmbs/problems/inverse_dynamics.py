"""Inverse dynamics: which forces make a mechanism move so."""

from collections.abc import Mapping, Sequence

from jaxtyping import ArrayLike

from fgmbs.errors import ArgumentError
from fgmbs.kinematics.names import listed
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.problems.desired import Desired, desired_motion
from fgmbs.problems.determined_motion import determined_motion
from fgmbs.problems.driven import Actuated
from fgmbs.problems.driven_motion import DrivenMotion
from fgmbs.problems.first_pose import freedom_left
from fgmbs.problems.motors import chosen_motors, efforts


def inverse_dynamics(
    mechanism: AbstractMechanism,
    t: ArrayLike,
    desired: Mapping[str, Desired],
    actuators: Sequence[str] | None = None,
    *,
    effort: Mapping[str, float] | None = None,
    sigma: Mapping[str, float | tuple[float, float, float]] | None = None,
    start: Mapping[str, float] | None = None,
    covariance: bool = False,
    throw: bool = True,
) -> DrivenMotion:
    """The forces with which the motors make a mechanism follow a desired motion. [Blanco21] sections 5.3, 7.2

    The graph of Fig. 4 with exact tracking falls apart into stages, each of which is solved once:

    1. where the desired motion is given by samples, velocities and accelerations of a smooth signal through them, a
       linear time graph (`problems.sampled_motion`);
    2. positions of all coordinates, followed along the branch of the first sample (`kinematics.tracking`);
    3. velocities and accelerations, 4. forces: linear at each sample.

    With more motors than the motion needs, the forces of least Σ (u/effort)² are taken at each sample. Derivatives,
    forward or reverse, and `jax.vmap` pass through it; there nothing is raised, see `DrivenMotion.status`.

    Args:
        mechanism: The mechanism.
        t: Times of the samples, increasing; uniform where samples come without derivatives [s].
        desired: By coordinate name, or "point:NAME" for x and y of a point: samples (steps,) or (steps, 2), a tuple
            (values, velocities, accelerations), or a function of time. Together with the constraints they determine the
            motion; where they leave freedom, see `hybrid_dynamics` [m, rad].
        actuators: Names of the motors: actuators of the mechanism or coordinates that a force acts on; all actuators of
            the mechanism by default.
        effort: Scale of the force of each motor; 1 by default [N, N·m].
        sigma: Standard deviations of the desired motion; those of samples are found from them by default.
        start: Coordinates near which the first sample is assembled, by name; as drawn by default [m, rad].
        covariance: Also compute the covariance of the forces for the noise of the desired motion.
        throw: Raise an error if the motion cannot be made; otherwise leave it to `status`.

    Raises:
        ArgumentError: An argument cannot be meant.
        AssemblyError: The mechanism cannot be assembled with the first sample.
        SolveError: The motion is out of reach, or impossible with these motors; its `result` holds what was reached.
    """
    motors = chosen_motors(mechanism, actuators)
    scale = efforts(motors, effort)
    wanted = desired_motion(mechanism, t, desired, sigma, covariance)
    if left := freedom_left(mechanism, wanted.followed, wanted.t[0]):
        raise ArgumentError(
            f"desired: {listed(mechanism.coordinate_names[i] for i in wanted.followed)} leave {left} degree"
            f"{'s' * (left > 1)} of freedom to the mechanism; give more coordinates, or use hybrid_dynamics, where the "
            "others move as dynamics says"
        )
    return determined_motion(Actuated(mechanism, motors), motors, wanted, scale, start, covariance, throw)
