"""Dynamics and kinematics of robots, as functions of arrays to be used with `jax.jit`, `jax.vmap` and `jax.grad`.

q are coordinates, dq velocities and ddq accelerations in the order of `robot.coordinate_names` and
`robot.velocity_names`; tau are generalized forces on the velocities. Twists and wrenches are [angular; linear].
Velocities of floating bodies are [ω; v] seen from the body; derivatives by q are by its local coordinates
(right tangents). Forces of joints (friction, springs, rotor inertia) are part of the dynamics.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fgmbs.arguments import Numbers, nearest, of_type
from fgmbs.errors import ArgumentError
from fgmbs.mechanisms.tree.base_parameters import BaseParameters, base_parameters_of
from fgmbs.mechanisms.tree.kernels import closures, compiled, inverse, motion
from fgmbs.mechanisms.tree.kernels.inverse import Jacobians
from fgmbs.mechanisms.tree.kernels.motion import Moving
from fgmbs.mechanisms.tree.kernels.vectors import cross, dot, times
from fgmbs.mechanisms.tree.robot import Robot
from fgmbs.typing import Scalar, Velocities


def inverse_dynamics(
    robot: Robot, q: Numbers, dq: Numbers, ddq: Numbers, wrenches: Numbers | None = None
) -> Velocities:
    """Generalized forces τ = M q̈ + h of a motion, by recursive Newton–Euler sums [N m, N].

    Args:
        wrenches: From outside, on each body of `robot.joint_names` about its origin, seen from it [N m, N].
    """
    topology, numbers, q, dq, ddq, wrenches = _given(robot, q, dq, ddq, wrenches)
    return compiled.inverse_dynamics(topology, numbers, q, dq, ddq, wrenches)


def forward_dynamics(
    robot: Robot, q: Numbers, dq: Numbers, tau: Numbers, wrenches: Numbers | None = None
) -> Velocities:
    """Accelerations of the tree under generalized forces; loops, if there are any, are taken as open [rad/s², m/s²].

    Args:
        wrenches: As in `inverse_dynamics`.
    """
    topology, numbers, q, dq, tau, wrenches = _given(robot, q, dq, tau, wrenches)
    return compiled.forward_dynamics(topology, numbers, q, dq, tau, wrenches)


def mass_matrix(robot: Robot, q: Numbers) -> Float[Array, "nv nv"]:
    """M(q), with rotor inertias, by composite rigid bodies [kg m², kg m, kg]."""
    topology, numbers, q, *_ = _given(robot, q)
    return compiled.mass_matrix(topology, numbers, q)


def bias(robot: Robot, q: Numbers, dq: Numbers, wrenches: Numbers | None = None) -> Velocities:
    """h = τ − M q̈: gravity, gyroscopic and joint forces [N m, N]."""
    return inverse_dynamics(robot, q, dq, jnp.zeros_like(jnp.asarray(dq, float)), wrenches)


def inverse_dynamics_jacobians(
    robot: Robot, q: Numbers, dq: Numbers, ddq: Numbers, wrenches: Numbers | None = None
) -> Jacobians:
    """(∂τ/∂q, ∂τ/∂q̇, ∂τ/∂q̈) in closed form."""
    topology, numbers, q, dq, ddq, wrenches = _given(robot, q, dq, ddq, wrenches)
    return compiled.jacobians(topology, numbers, q, dq, ddq, wrenches)


def forward_dynamics_jacobians(
    robot: Robot, q: Numbers, dq: Numbers, tau: Numbers, wrenches: Numbers | None = None
) -> Jacobians:
    """(∂q̈/∂q, ∂q̈/∂q̇, ∂q̈/∂τ), from those of inverse dynamics."""
    topology, numbers, q, dq, tau, wrenches = _given(robot, q, dq, tau, wrenches)
    return compiled.forward_jacobians(topology, numbers, q, dq, tau, wrenches)


def frame(robot: Robot, q: Numbers, name: str) -> tuple[Float[Array, "3 3"], Float[Array, "3"]]:
    """(rotation, origin) of a link or a named frame, seen from the ground [m]."""
    return robot.body_frame(name, _vector(robot, q, "q", robot.coordinate_names), 0.0)


def frame_jacobian(robot: Robot, q: Numbers, name: str) -> Float[Array, "6 nv"]:
    """J with [ω; v] = J q̇ of a link or a named frame, v of its origin, along the axes of the ground."""
    topology, numbers, q, *_ = _given(robot, q)
    if name not in topology.frames:
        raise ArgumentError(f"name: there is no frame {name!r}{nearest(name, topology.frames, 'links and frames')}")
    k = topology.frames.index(name)
    at = motion.placed(topology, numbers, q)
    S = motion.columns(topology, numbers, at)
    body = topology.frame_bodies[k]
    moved = topology.supports[:, body] if body >= 0 else np.zeros(len(topology.columns))
    _, origin = closures.on_body(at, body, numbers.frame_turn[..., k], numbers.frame_place[:, k])
    rows = jnp.concatenate([S.w, S.v - cross(jnp.broadcast_to(origin[:, None], S.w.shape), S.w)])
    return motion.gathered(topology, numbers, rows * moved)


def center_of_mass(robot: Robot, q: Numbers) -> Float[Array, "3"]:
    """Of all bodies that move, seen from the ground [m]."""
    topology, numbers, q, *_ = _given(robot, q)
    at = motion.placed(topology, numbers, q)
    mass = numbers.mass * topology.moving
    return (at.p + times(at.R, numbers.centre)) @ mass / jnp.sum(mass)


def momentum(robot: Robot, q: Numbers, dq: Numbers) -> Float[Array, "6"]:
    """[angular about the centre of mass; linear] momentum of all bodies that move, along the axes of the ground."""
    topology, numbers, q, dq, *_ = _given(robot, q, dq)
    at = motion.placed(topology, numbers, q, relative=True)
    V = motion.twists(topology, motion.columns(topology, numbers, at), motion.column_rates(topology, numbers, dq))
    c = at.p + times(at.R, numbers.centre)
    v = V.v + cross(V.w, c)
    w = inverse.transposed_times(at.R, V.w)
    mass = numbers.mass * topology.moving
    total, centre = mass @ v.T, c @ mass / jnp.sum(mass)
    spin = jnp.sum(times(at.R, times(numbers.inertia, w)) + cross(c, mass * v), axis=1)
    return jnp.concatenate([spin - jnp.cross(centre, total), total])


def energies(robot: Robot, q: Numbers, dq: Numbers) -> tuple[Scalar, Scalar]:
    """(kinetic, potential) energy, that of rotors and springs included [J]."""
    topology, numbers, q, dq, *_ = _given(robot, q, dq)
    at = motion.placed(topology, numbers, q, relative=True)
    rates = motion.column_rates(topology, numbers, dq)
    V = motion.twists(topology, motion.columns(topology, numbers, at), rates)
    v = V.v + cross(V.w, at.p + times(at.R, numbers.centre))
    w = inverse.transposed_times(at.R, V.w)
    kinetic = numbers.mass @ dot(v, v) + jnp.sum(dot(w, times(numbers.inertia, w))) + numbers.rotor @ rates**2
    return kinetic / 2, robot.potential(q)


def regressor(robot: Robot, q: Numbers, dq: Numbers, ddq: Numbers) -> Float[Array, "nv bodies 10"]:
    """Y with τ = Σ Y[:, b] π_b + forces of the joints, linear in the numbers π_b of each body.

    π = (m, m c, inertia xx, yy, zz, xy, xz, yz about the origin of the body), seen from it.
    """
    topology, numbers, q, dq, ddq, _ = _given(robot, q, dq, ddq)
    return compiled.regressor(topology, numbers, q, dq, ddq)


def base_parameters(robot: Robot) -> BaseParameters:
    """The combinations of inertial numbers that the torques of any motion depend on, by numerical rank.

    Raises:
        ArgumentError: No robot.
    """
    of_type("robot", robot, Robot, "a robot, as fgmbs.load makes one of a URDF file")
    return base_parameters_of(robot)


def velocity(robot: Robot, q: Numbers, dq: Numbers, name: str) -> Moving:
    """(ω, v) of a link or a named frame, v of its origin, along the axes of the ground [rad/s, m/s]."""
    topology, numbers, q, dq, *_ = _given(robot, q, dq)
    J = frame_jacobian(robot, q, name)
    return Moving(J[:3] @ dq, J[3:] @ dq)


def _vector(robot: Robot, x: object, argument: str, names: tuple[str, ...]) -> Array:
    found = jnp.asarray(x, dtype=float)
    if found.shape != (len(names),):
        listed = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
        advice = "; use jax.vmap for many" if found.ndim == 2 and found.shape[-1] == len(names) else ""
        raise ArgumentError(f"{argument}: expected {len(names)} numbers ({listed}); found shape {found.shape}{advice}")
    return found


def _given(robot: Robot, q, dq=None, third=None, wrenches=None):
    of_type("robot", robot, Robot, "a robot, as fgmbs.load makes one of a URDF file")
    q = _vector(robot, q, "q", robot.coordinate_names)
    names = robot.velocity_names
    dq, third = (None if x is None else _vector(robot, x, key, names) for x, key in ((dq, "dq"), (third, "ddq or tau")))
    if wrenches is not None:
        wrenches = jnp.asarray(wrenches, dtype=float)
        if wrenches.shape != (robot.topology.count, 6):
            raise ArgumentError(
                f"wrenches: expected {robot.topology.count} rows of 6, one for each joint; found {wrenches.shape}"
            )
    return *robot.of, q, dq, third, wrenches
