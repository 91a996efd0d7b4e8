"""What `simulate` accepts: its arguments, checked before anything is compiled."""

from collections.abc import Mapping
from typing import Literal, get_args

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from fgmbs.arguments import finite_number
from fgmbs.dynamics.chart import MotionChart
from fgmbs.dynamics.transitions import TRANSITIONS, AbstractTransition
from fgmbs.errors import ArgumentError, AssemblyError
from fgmbs.kinematics.names import coordinate_index, listed
from fgmbs.linear import METHODS
from fgmbs.mechanisms.base import AbstractMechanism, checked_mechanism
from fgmbs.problems.driven.first_pose import GivenStart
from fgmbs.problems.trajectory import Form
from fgmbs.typing import Scalar

Integrator = Literal["euler", "trapezoidal", "hermite_simpson"] | AbstractTransition
"""An integration rule, by name or one of one's own."""
_MOST_STEPS = 1_000_000_000
"""Of a simulation."""


class Plan(eqx.Module):
    """How a motion is simulated."""

    form: Form = eqx.field(static=True)
    rule: AbstractTransition
    window: int = eqx.field(static=True)
    linear: str = eqx.field(static=True)
    chart: MotionChart
    batch: bool = eqx.field(static=True)
    covariance: bool = eqx.field(static=True)


class SimulationProblem(eqx.Module):
    """What `simulate` solves: a pytree of everything that the motion depends on, made by `prepare_simulate`."""

    mechanism: AbstractMechanism
    start: GivenStart
    dt: Scalar
    """Time step [s]."""
    plan: Plan
    num_steps: int = eqx.field(static=True)


def transition_of(integrator: str | AbstractTransition) -> AbstractTransition:
    """The integration rule.

    Raises:
        ArgumentError: There is none of this name.
    """
    if isinstance(integrator, AbstractTransition):
        return integrator
    if not isinstance(integrator, str) or integrator not in TRANSITIONS:
        raise ArgumentError(f"integrator: expected {listed(TRANSITIONS, 'or')}; found {integrator!r}")
    return TRANSITIONS[integrator]


def prepare_simulate(
    mechanism: AbstractMechanism,
    duration: float,
    dt: float,
    *,
    integrator: Integrator = "hermite_simpson",
    coordinates: Form = "chart",
    window: int | None = None,
    batch: bool = False,
    linear: Literal["sequential", "sqrt"] = "sequential",
    independent: tuple[str, ...] | None = None,
    start: Mapping[str, float] | None = None,
    start_velocities: Mapping[str, float] | None = None,
    covariance: bool = False,
) -> SimulationProblem:
    """The problem that `simulate` solves, as a pytree, for `solve` and `finish`; arguments as there.

    Raises:
        ArgumentError: An argument is invalid.
        AssemblyError: The mechanism has no degree of freedom that could be independent.
    """
    dt, duration = finite_number(dt, "dt"), finite_number(duration, "duration")
    if dt <= 0:
        raise ArgumentError(f"dt: expected a positive time step in seconds; found {dt:g}")
    if duration / dt > _MOST_STEPS:
        raise ArgumentError(f"duration: expected at most {_MOST_STEPS:,} steps of dt = {dt:g} s; found {duration:g} s")
    if duration < dt:
        raise ArgumentError(f"duration: expected at least one time step, dt = {dt:g} s; found {duration:g} s")
    for name, value, accepted in (
        ("coordinates", coordinates, get_args(Form)),
        ("linear", linear, tuple(METHODS)),
    ):
        if not isinstance(value, str) or value not in accepted:
            raise ArgumentError(f"{name}: expected {listed(accepted, 'or')}; found {value!r}")
    checked_mechanism(mechanism)
    rule = transition_of(integrator)
    if coordinates == "chart":
        for name, value in (("window", window), ("covariance", covariance or None)):
            if value is not None:
                raise ArgumentError(
                    f"{name}: only with soft constraints, coordinates='dependent' or 'independent'; found {value!r} "
                    "with coordinates='chart'"
                )
    elif not mechanism.is_vector_space:
        raise ArgumentError(
            f"coordinates: expected 'chart' for a mechanism whose configurations are no vector space; "
            f"found {coordinates!r}"
        )
    window = 2 if window is None else window
    if isinstance(window, bool) or not isinstance(window, int | np.integer) or window < 2:
        raise ArgumentError(f"window: expected an integer of at least 2 time steps; found {window!r}")
    steps = round(duration / dt)
    if abs(steps * dt - duration) > 1e-6 * dt * steps:
        raise ArgumentError(
            f"duration: expected a multiple of dt = {dt:g} s; found {duration:g} s; {steps * dt:.9g} s would do"
        )
    if independent is not None and coordinates != "independent":
        raise ArgumentError(f"independent: only with coordinates='independent'; found coordinates={coordinates!r}")
    # Only these graphs move in independent coordinates; a traced mechanism need not know how many there are.
    dof = mechanism.dof if coordinates == "independent" or (coordinates == "chart" and batch) else mechanism.nv
    chosen = None
    if coordinates == "independent":
        if dof == 0:
            raise AssemblyError(
                "the mechanism has no degree of freedom, so that no coordinate is independent; a prescribed motion can "
                "be simulated with coordinates='chart'"
            )
        if independent is not None:
            chosen = tuple(coordinate_index(mechanism, name, "independent") for name in independent)
            if len(set(chosen)) != dof or len(chosen) != dof:
                raise ArgumentError(
                    f"independent: expected {dof} different coordinates, the degrees of freedom; "
                    f"found {listed(independent)}"
                )
    plan = Plan(coordinates, rule, int(window), linear, MotionChart(dof, chosen), bool(batch), bool(covariance))
    given = GivenStart.of(mechanism, start, start_velocities)
    return SimulationProblem(mechanism, given, jnp.asarray(dt, mechanism.reference.dtype), plan, steps + 1)


def refuse_rigid(mechanism: AbstractMechanism, q) -> None:
    """Refuses a mechanism that can neither move nor is moved.

    Raises:
        AssemblyError: It has no degree of freedom and no constraint depends on time.
    """
    if mechanism.dof > 0:
        return
    # A constraint that moves does so at one of a few unrelated times, in any unit.
    zero = jnp.zeros(mechanism.nv, q.dtype)
    rates = [mechanism.constraint_rate(q, zero, jnp.asarray(t)) for t in (0.0, 0.1234, 1.0, 1.234e-4, 1e3)]
    if not np.any(np.abs(np.asarray(rates)) > 0):
        raise AssemblyError(
            f"the mechanism has no degree of freedom: {mechanism.n} coordinates, {mechanism.m} constraint rows; "
            "remove a constraint, free a point, or prescribe a motion"
        )
