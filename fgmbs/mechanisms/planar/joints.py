"""Forces in the joints of planar mechanisms.

In natural coordinates bodies share points: the force that one of them feels at a point stands neither in the
coordinates nor in one multiplier. Here the joints are torn open. Every body gets a copy of each of its points, a pin,
and its equation of motion M p̈ + (∂Φ/∂p)ᵀ λ = weight + couples + pin forces, with its own rows of Φ only, gives the
pin forces.
"""

import functools
import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fgmbs.compiled.program import program
from fgmbs.errors import ArgumentError
from fgmbs.mechanisms.planar import scopes
from fgmbs.mechanisms.planar.constraints.absolute_angle import absolute_angle
from fgmbs.mechanisms.planar.constraints.relative_angle import relative_angle
from fgmbs.mechanisms.planar.description import MechanismDescription
from fgmbs.mechanisms.planar.forces import couple
from fgmbs.mechanisms.planar.inertia import mass_matrix, weights
from fgmbs.mechanisms.planar.numbers import PlanarNumbers
from fgmbs.mechanisms.planar.topology import ConstraintGroup, constraints, planar_topology
from fgmbs.typing import Constraints, Coordinates, Scalar, Velocities


def joint_forces(
    description: MechanismDescription,
    parameters: dict[str, Float[Array, ""]],
    numbers: PlanarNumbers,
    q: Coordinates,
    ddq: Velocities,
    lambda_: Constraints,
    t: Scalar,
    u: Float[Array, " nu"] | None = None,
) -> Float[Array, "pins 2"]:
    """Force on each body at each of its points exerted by everything else that meets there, in the fixed frame [N].

    That is: other bodies through the joint, the ground, guides, springs, and forces on the point. Weight, inertia and
    couples act on the body itself. Couples are torques on a body and all that acts on an angle of a link of it (motors,
    springs, gears, prescribed motion); of two bodies with both points of the link, the first in the file takes it. An
    angle between points of different bodies loads their pins. What holds a body between its pins, as a block that
    slides on it (`mobile_slider`) or a point attached by `rigid`, counts as the equivalent forces on the pins.

    Where redundant constraints share a load (two bodies on the same two points, parallelograms, two pins on the
    ground), statics alone do not tell it apart: the shares are those of the multipliers, which `acceleration` takes of
    least norm.

    Args:
        description: What the mechanism is, but for its numbers …
        parameters: … the independent ones …
        numbers: … and those that follow from them.
        q: Coordinates that satisfy Φ(q, t) = 0 [m, rad].
        ddq: Accelerations; the force balance of natural coordinates has no terms in velocities [m/s², rad/s²].
        lambda_: Multipliers of M q̈ + Φ_qᵀ λ = Q + A u.
        t: Time [s].
        u: Commands of the actuators, zero by default [N, N·m].

    Returns:
        One force for each name of `pin_names`.

    Raises:
        ArgumentError: u has not one command for each actuator.
    """
    commands = len(description.actuators)
    if u is not None and u.shape != (commands,):
        raise ArgumentError(f"u: expected a command for each of the {commands} actuators; found shape {u.shape}")
    topology, pins = planar_topology(description), _planar_pins(description)
    p = topology.table(q, numbers.fixed_points)
    ddp = topology.table(ddq, jnp.zeros_like(numbers.fixed_points))

    M, weight = _inertia(description, parameters)
    forces = (M @ ddp[pins.rows].ravel()).reshape(-1, 2) - weight
    for k, rows, places in pins.groups:
        shares = _pulled_back(topology.groups[k], numbers.constraints[k], p, q, lambda_[rows])
        forces = forces.at[places].add(shares, mode="drop")
    if len(bodies := pins.torques + pins.commands):
        torques = numbers.at_time(topology, tuple(f"{owner}.torque" for owner in topology.body_torques.owners), t)
        commanded = jnp.zeros(len(pins.commands), q.dtype) if u is None else u[topology.body_actuators.indices]
        first, second = pins.pairs[list(bodies)].T
        a, b = p[pins.rows[first]], p[pins.rows[second]]
        couples = jax.vmap(couple)(b - a, jnp.concatenate([torques, commanded]))
        forces = forces.at[second].add(-couples).at[first].add(couples)
    return forces


def pin_names(description: MechanismDescription) -> tuple[str, ...]:
    """`BODY@POINT` for every body and each of its points, in the order of the file."""
    return tuple(
        f"{scopes.owner(description, 'planar_bodies', k)}@{scopes.owner(description, 'points', point)}"
        for k, body in enumerate(description.planar_bodies)
        for point in body.points
    )


class _Rows(NamedTuple):
    """Constraints of one group, some of which act on single bodies."""

    group: int
    rows: slice
    """Of Φ and λ."""
    pins: np.ndarray
    """(points of one, members): the pins they act on; the number of pins for none."""


class _PlanarPins(NamedTuple):
    """Indices of pins, made once per description."""

    rows: np.ndarray
    """Row of the point table of each pin."""
    pairs: np.ndarray
    """(bodies, 2): pins of the first two points of each body."""
    groups: tuple[_Rows, ...]
    torques: tuple[int, ...]
    """Body of each torque on a body."""
    commands: tuple[int, ...]
    """Body of each actuator of a body."""


@functools.lru_cache(maxsize=256)
def _planar_pins(description: MechanismDescription) -> _PlanarPins:
    topology, bodies = planar_topology(description), description.planar_bodies
    pins = {pin: i for i, pin in enumerate((k, point) for k, body in enumerate(bodies) for point in body.points)}

    def on(body: int | None, points: tuple[int, ...]) -> list[int]:
        return [len(pins) if body is None else pins[body, point] for point in points]

    def on_links(points: tuple[int, ...]) -> list[int]:
        links = [points[i : i + 2] for i in range(0, len(points), 2)]
        return [
            pin
            for link in links
            for pin in on(next((k for k, body in enumerate(bodies) if {*link} <= {*body.points}), None), link)
        ]

    rigidity = []
    for k, body in enumerate(bodies):
        alone = {"planar_bodies": (body,), "relative_coordinates": (), "constraints": ()}
        rigidity += [(k, constraint.function) for constraint in constraints(description.model_copy(update=alone))]

    groups, start = [], 0
    for k, group in enumerate(topology.groups):
        if group.function in (absolute_angle, relative_angle):
            places = [on_links(constraint.points) for constraint in group.members]
        else:  # those of bodies come first
            owners = [body for body, function in rigidity if function is group.function]
            places = [on(body, constraint.points) for constraint, body in itertools.zip_longest(group.members, owners)]
        stop = start + sum(len(constraint.row_names) for constraint in group.members)
        if any(pin < len(pins) for pin in itertools.chain(*places)):
            groups.append(_Rows(k, slice(start, stop), np.array(places, dtype=int).T))
        start = stop
    return _PlanarPins(
        rows=topology.rows[[point for _, point in pins]],
        pairs=np.array(
            [[pins[k, point] for point in body.points[:2]] for k, body in enumerate(bodies)], dtype=int
        ).reshape(-1, 2),
        groups=tuple(groups),
        torques=tuple(description.forces[i].body for i in topology.body_torques.indices),
        commands=tuple(description.actuators[i].body for i in topology.body_actuators.indices),
    )


def _pulled_back(
    group: ConstraintGroup,
    values: tuple[Array, ...],
    p: Float[Array, "points 2"],
    q: Coordinates,
    lambda_: Float[Array, " rows"],
) -> Float[Array, "slots members 2"]:
    """(∂Φ/∂p)ᵀ λ for each point of each constraint [N]."""
    coordinates = [q[place] for place in group.coordinates]
    Phi, pull_back = jax.vjp(
        lambda *points: jax.vmap(group.function)(*points, *coordinates, *values), *(p[row] for row in group.rows)
    )
    return jnp.stack(pull_back(lambda_.reshape(Phi.shape)))


@program
def _inertia(
    description: MechanismDescription, parameters: dict[str, Float[Array, ""]]
) -> tuple[Float[Array, "n n"], Float[Array, "pins 2"]]:
    """Mass matrix [kg] and weights [N] of all pins; compiled, as outside of a trace it is hundreds of operations."""
    pairs, bodies = _planar_pins(description).pairs, description.planar_bodies
    names, numbers = scopes.point_scope(description, parameters), scopes.numbers(description, parameters)
    owners = [scopes.owner(description, "planar_bodies", k) for k in range(len(bodies))]

    def each(key: str) -> Float[Array, " bodies"]:
        return jnp.array([numbers[f"{owner}.{key}"] for owner in owners], dtype=float)

    lengths = jnp.array(
        [
            numbers[f"{owner}.length"] if len(body.points) == 2 else scopes.distance(names, *body.points[:2])
            for owner, body in zip(owners, bodies, strict=True)
        ],
        dtype=float,
    )
    masses, centres = each("mass"), jnp.stack([each("cog.x"), each("cog.y")], axis=1)
    gravity = jnp.array([numbers["gravity.x"], numbers["gravity.y"]], dtype=float)
    count = sum(len(body.points) for body in bodies)
    M = mass_matrix(pairs, count, lengths, masses, each("I0"), centres)
    return M, weights(pairs, count, lengths, masses, centres, gravity)
