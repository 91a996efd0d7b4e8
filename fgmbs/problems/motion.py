"""What results of dynamics have in common: a motion by the equations of motion, and what follows from it."""

from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from fgmbs.dynamics.singular import RankMargins, rank_margins
from fgmbs.errors import AssemblyError
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.results.contents import (
    FLAGS,
    Contents,
    all_of,
    attributes,
    codes,
    force_units,
    names_of_q_and_dq,
    of_mechanism,
    per_second,
    steps_of,
    together,
    worst_text,
)
from fgmbs.results.motion import AbstractMotion
from fgmbs.status import Status

ABOUT_MARGINS = attributes(
    "least singular value of the constraints, relative to the largest; 0 in a singular pose", "1"
)
"""What a dataset says of margins of rank."""


class AbstractDynamicMotion(AbstractMotion):
    """A motion that meets the equations of motion at every step."""

    reactions: eqx.AbstractVar[Float[Array, "*batch steps nv"]]
    """Generalized reaction forces −Φ_qᵀ λ of all constraints, along the velocities [N, N·m]."""
    kinetic: eqx.AbstractVar[Float[Array, "*batch steps"]]
    """Kinetic energy [J]."""
    potential: eqx.AbstractVar[Float[Array, "*batch steps"]]
    """Potential energy of gravity and springs [J]."""
    power: eqx.AbstractVar[Float[Array, "*batch steps"]]
    """Power of the forces that have no potential, actuators left out; dissipation is negative [W]."""
    constraint_norm: eqx.AbstractVar[Float[Array, "*batch steps"]]
    """‖Φ(q, t)‖₂."""
    velocity_constraint_norm: eqx.AbstractVar[Float[Array, "*batch steps"]]
    """‖Φ_q dq + Φ_t‖₂."""
    step_status: eqx.AbstractVar[Status]
    """How each step ended."""


def motion_contents(result: AbstractDynamicMotion, own: Contents) -> Contents:
    """What the dataset of every such motion has, and its own."""
    step = steps_of(result.t)
    return together(_motion(result, step), own, of_mechanism(result.mechanism, result.q, result.t, step))


def _motion(result: AbstractDynamicMotion, step: tuple[str, ...]) -> Contents:
    mechanism = result.mechanism
    units, rates, forces = mechanism.coordinate_units, mechanism.velocity_units, force_units(mechanism)
    note, rate_note = (
        {"note": f"the unit of each {kind} stands in the variable `{variable}`"}
        for kind, variable in (("coordinate", "unit"), ("velocity", "velocity_unit"))
    )
    variables = {
        "q": ((*step, "coordinate"), result.q, attributes("coordinates", all_of(units)) | note),
        "dq": ((*step, "velocity"), result.dq, attributes("velocities", all_of(rates)) | rate_note),
        "ddq": ((*step, "velocity"), result.ddq, attributes("accelerations", per_second(all_of(rates)))),
        "multipliers": ((*step, "constraint"), result.multipliers, attributes("multipliers", "N, N m per constraint")),
        "reactions": (
            (*step, "velocity"),
            result.reactions,
            attributes("generalized reaction forces", all_of(forces)),
        ),
        "kinetic": (step, result.kinetic, attributes("kinetic energy", "J")),
        "potential": (step, result.potential, attributes("potential energy", "J")),
        "power": (step, result.power, attributes("power of forces without potential, but for actuators", "W")),
        "constraint_norm": (step, result.constraint_norm, attributes("norm of the constraints", "m², m, rad")),
        "velocity_constraint_norm": (
            step,
            result.velocity_constraint_norm,
            attributes("norm of the constraint rates", "m²/s, m/s, rad/s"),
        ),
        **_rank_margin(result, step),
        "step_status": (step, codes(result.step_status), FLAGS),
        "status": (step[:-1], codes(result.status), FLAGS),
    }
    coordinates = {
        "t": (step, result.t, attributes("time", "s")),
        **names_of_q_and_dq(mechanism),
        "constraint": list(mechanism.constraint_names),
    }
    return Contents(variables, coordinates, {"status": worst_text(result.status)})


def _rank_margin(result: AbstractDynamicMotion, step: tuple[str, ...]) -> dict[str, Any]:
    """How far a single motion is from singular poses."""
    if len(step) > 1 or (found := margins_along(result.mechanism, result.q, result.t)) is None:
        return {}
    return {"rank_margin": (step, found.margins, ABOUT_MARGINS | {"dependent": ", ".join(found.dependent)})}


def margins_along(mechanism: AbstractMechanism, q: Array | np.ndarray, t: Array | np.ndarray) -> RankMargins | None:
    """How far a motion is from singular poses; None where that cannot be said."""
    if not np.isfinite(q).all():
        return None
    try:
        return rank_margins(mechanism, q, t)
    except AssemblyError:  # it cannot be assembled as drawn, only from where this motion started
        return None
