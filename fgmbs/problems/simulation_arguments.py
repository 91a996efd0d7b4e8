"""What `simulate` accepts: its arguments, checked before anything is compiled."""

from typing import get_args

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from fgmbs.errors import ArgumentError, AssemblyError
from fgmbs.kinematics.names import coordinate_index, finite_number, listed
from fgmbs.linear import METHODS
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.problems.forward_graph import Integrator


class Plan(eqx.Module):
    """Everything static about a simulation."""

    num_steps: int = eqx.field(static=True)
    coordinates: str = eqx.field(static=True)
    integrator: Integrator = eqx.field(static=True)
    window: int = eqx.field(static=True)
    linear: str = eqx.field(static=True)
    dof: int = eqx.field(static=True)
    """Independent coordinates; 0 in dependent ones."""
    chosen: tuple[int, ...] | None = eqx.field(static=True)


def plan(mechanism: AbstractMechanism, duration, dt, coordinates, integrator, window, linear, independent) -> Plan:
    """The checked arguments of `simulate`; see there."""
    dt, duration = finite_number(dt, "dt"), finite_number(duration, "duration")
    if dt <= 0:
        raise ArgumentError(f"dt: expected a positive time step in seconds; found {dt:g}")
    if duration < dt:
        raise ArgumentError(f"duration: expected at least one time step, dt = {dt:g} s; found {duration:g} s")
    if isinstance(window, bool) or not isinstance(window, int | np.integer) or window < 2:
        raise ArgumentError(f"window: expected an integer of at least 2 time steps; found {window!r}")
    for name, value, accepted in (
        ("coordinates", coordinates, ("dependent", "independent")),
        ("integrator", integrator, get_args(Integrator)),
        ("linear", linear, tuple(METHODS)),
    ):
        if value not in accepted:
            raise ArgumentError(f"{name}: expected {listed(accepted, 'or')}; found {value!r}")
    steps = round(duration / dt)
    if abs(steps * dt - duration) > 1e-6 * dt * steps:
        raise ArgumentError(
            f"duration: expected a multiple of dt = {dt:g} s; found {duration:g} s; {steps * dt:.9g} s would do"
        )
    if independent is not None and coordinates != "independent":
        raise ArgumentError(f"independent: only with coordinates='independent'; found coordinates={coordinates!r}")
    dof, chosen = 0, None
    if coordinates == "independent":
        dof = mechanism.dof
        if dof == 0:
            raise AssemblyError(
                "the mechanism has no degree of freedom, so that no coordinate is independent; a prescribed motion can "
                "be simulated with coordinates='dependent'"
            )
        if independent is not None:
            chosen = tuple(coordinate_index(mechanism, name, "independent") for name in independent)
            if len(set(chosen)) != dof or len(chosen) != dof:
                raise ArgumentError(
                    f"independent: expected {dof} different coordinates, the degrees of freedom; "
                    f"found {listed(independent)}"
                )
    return Plan(steps + 1, coordinates, integrator, int(window), linear, dof, chosen)


def refuse_rigid(mechanism: AbstractMechanism, q) -> None:
    """Refuses a mechanism that can neither move nor is moved.

    Raises:
        AssemblyError: It has no degree of freedom and no constraint depends on time.
    """
    if mechanism.dof > 0:
        return
    # A constraint that moves does so at one of a few unrelated times.
    rates = [mechanism.constraint_rate(q, jnp.zeros_like(q), jnp.asarray(t)) for t in (0.0, 0.1234, 1.0)]
    if not np.any(np.abs(np.asarray(rates)) > 0):
        raise AssemblyError(
            f"the mechanism has no degree of freedom: {mechanism.n} coordinates, {mechanism.m} constraint rows; "
            "remove a constraint, free a point, or prescribe a motion"
        )
