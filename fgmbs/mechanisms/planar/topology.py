"""What each part of a planar mechanism touches: points, coordinates, names. Nothing here changes with its numbers.

Points are kept in a table, the free ones first: its first rows are q as it stands, reshaped, the others are constant.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fgmbs.algebra.turning import TURNS
from fgmbs.mechanisms.planar import description as schema
from fgmbs.mechanisms.planar import scopes
from fgmbs.mechanisms.planar.constraints.absolute_angle import absolute_angle
from fgmbs.mechanisms.planar.constraints.distance import squared_distance
from fgmbs.mechanisms.planar.constraints.fixed_slider import fixed_slider
from fgmbs.mechanisms.planar.constraints.gear import gear
from fgmbs.mechanisms.planar.constraints.mobile_slider import mobile_slider
from fgmbs.mechanisms.planar.constraints.prescribed_motion import prescribed_motion
from fgmbs.mechanisms.planar.constraints.relative_angle import relative_angle
from fgmbs.mechanisms.planar.constraints.rigid_point import rigid_point
from fgmbs.mechanisms.planar.expressions import names_in


class Constraint(NamedTuple):
    """One constraint of a mechanism: `function(*points, *coordinates, *numbers)`."""

    function: Callable[..., Any]
    points: tuple[int, ...]
    """Points, as in the file."""
    coordinates: tuple[int, ...]
    """Places in q."""
    row_names: tuple[str, ...]
    source: str = ""
    """Owner of its numbers, if it has any of its own in the file."""


class ConstraintGroup(NamedTuple):
    """All constraints of one function, stacked."""

    function: Callable[..., Any]
    members: tuple[Constraint, ...]
    rows: np.ndarray
    """(points of one, members): rows of the point table."""
    coordinates: np.ndarray
    """(coordinates of one, members): places in q."""


class Elements(NamedTuple):
    """Springs, dampers, forces or actuators of one kind."""

    owners: tuple[str, ...]
    places: np.ndarray
    """(points of one, elements): rows of the point table; or (elements,): places in q."""
    indices: np.ndarray
    """(elements,): index of each in its section of the file."""


class Rubbing(NamedTuple):
    """Dampers with more than damping, of one kind and shape."""

    elements: Elements
    angular: bool
    """On angles; else between points."""
    shape: str
    keys: dict[str, int]
    """Numbers that any of them has, with the harmonics that there are at most; 1 for the others."""


class Motors(NamedTuple):
    """Actuators with numbers of a motor."""

    elements: Elements
    keys: dict[str, int]
    """As of `Rubbing`."""
    periods: tuple[int, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class PlanarTopology:
    """Indices of a planar mechanism, made once per description."""

    n: int
    free: int
    """Number of free points."""
    rows: np.ndarray
    """Row of each point, in file order, of the point table."""
    groups: tuple[ConstraintGroup, ...]
    springs: Elements
    angular_springs: Elements
    dampers: Elements
    angular_dampers: Elements
    frictions: tuple[Rubbing, ...]
    """Dampers with more than damping."""
    motors: Motors
    """Actuators with numbers of a motor."""
    point_forces: Elements
    angle_torques: Elements
    body_torques: Elements
    coordinate_actuators: Elements
    """Those on angles too, which are coordinates."""
    point_actuators: Elements
    body_actuators: Elements
    actuators: int
    """Number of actuators of all kinds."""
    timed: dict[str, scopes.Quantity]
    """Numbers that may vary with time (motions, forces, torques), by name."""
    timed_names: frozenset[str]
    """Names that their expressions use, other than `t`."""

    def table(self, free: Float[Array, " n"], fixed: Float[Array, "fixed 2"]) -> Float[Array, "points 2"]:
        """Positions or velocities of all points, from those of q and of the fixed points."""
        return jnp.concatenate([free[: 2 * self.free].reshape(self.free, 2), fixed])


@functools.lru_cache(maxsize=256)
def planar_topology(description: schema.MechanismDescription) -> PlanarTopology:
    """The indices of a description."""
    fixed = np.array([point.fixed for point in description.points])
    rows = np.where(fixed, np.sum(~fixed) + np.cumsum(fixed), np.cumsum(~fixed)) - 1
    places = {name: i for i, name in enumerate(description.coordinate_names)}

    def elements(section: str, kind: type | tuple[type, ...], place: Callable, wanted: Callable = bool) -> Elements:
        found = [(i, e) for i, e in enumerate(getattr(description, section)) if isinstance(e, kind) and wanted(e)]
        owners = tuple(scopes.owner(description, section, i) for i, _ in found)
        indices = np.array([i for i, _ in found], dtype=int)
        return Elements(owners, np.array([place(element) for _, element in found], dtype=int).T, indices)

    def at_points(element):
        return rows[list(element.points)]

    def at_angle(element):
        return places[element.angle]

    def at_body(element):
        return rows[list(description.planar_bodies[element.body].points[:2])]

    def keys_of(section: str, found: Elements, keys: tuple[str, ...]) -> dict[str, int]:
        entries = [getattr(description, section)[i] for i in found.indices]
        given = {key: [value for e in entries if (value := getattr(e, key, None)) is not None] for key in keys}
        return {
            key: max(len(value) if isinstance(value, tuple) else 1 for value in values)
            for key, values in given.items()
            if values
        }

    def rubbing(kind: type, place: Callable, shape: str) -> Rubbing:
        found = elements("dampers", kind, place, lambda e: not e.only_viscous and e.shape == shape)
        angular = kind is schema.AngularDamperDescription
        return Rubbing(found, angular, shape, keys_of("dampers", found, schema.FRICTION))

    def at_coordinate(element):
        return places[element.angle if isinstance(element, schema.AngleActuatorDescription) else element.coordinate]

    viscous = lambda element: element.only_viscous
    kinds = (schema.DamperDescription, at_points), (schema.AngularDamperDescription, at_angle)
    frictions = (rubbing(*kind, shape) for kind in kinds for shape in TURNS)
    direct = schema.AngleActuatorDescription, schema.CoordinateActuatorDescription
    driving = elements("actuators", direct, at_coordinate, lambda element: element.is_motor)
    # Forces, torques and the values of prescribed motions.
    timed = {q.name: q for q in scopes.quantities(description) if q.path[0] == "forces" or q.path[-1] == "value"}
    return PlanarTopology(
        n=len(description.coordinate_names),
        free=int(np.sum(~fixed)),
        rows=rows,
        groups=_groups(description, rows),
        springs=elements("springs", schema.SpringDescription, at_points),
        angular_springs=elements("springs", schema.AngularSpringDescription, at_angle),
        dampers=elements("dampers", schema.DamperDescription, at_points, viscous),
        angular_dampers=elements("dampers", schema.AngularDamperDescription, at_angle, viscous),
        frictions=tuple(found for found in frictions if found.elements.owners),
        motors=Motors(
            driving,
            keys_of("actuators", driving, schema.MOTOR),
            tuple(description.actuators[i].periods for i in driving.indices),
        ),
        point_forces=elements("forces", schema.PointForceDescription, lambda e: rows[e.point]),
        angle_torques=elements("forces", schema.AngleTorqueDescription, at_angle),
        body_torques=elements("forces", schema.BodyTorqueDescription, at_body),
        coordinate_actuators=elements("actuators", direct, at_coordinate),
        point_actuators=elements("actuators", schema.PointsActuatorDescription, at_points),
        body_actuators=elements("actuators", schema.BodyActuatorDescription, at_body),
        actuators=len(description.actuators),
        timed=timed,
        timed_names=frozenset().union(*(names_in(q.expr) for q in timed.values())) - {"t"},
    )


def _groups(description: schema.MechanismDescription, rows: np.ndarray) -> tuple[ConstraintGroup, ...]:
    by_function: dict[Callable, list[Constraint]] = {}
    for constraint in constraints(description):
        by_function.setdefault(constraint.function, []).append(constraint)
    return tuple(
        ConstraintGroup(
            function,
            tuple(members),
            rows[np.array([c.points for c in members], dtype=int).T],
            np.array([c.coordinates for c in members], dtype=int).T,
        )
        for function, members in by_function.items()
    )


def constraints(description: schema.MechanismDescription) -> Iterator[Constraint]:
    """All constraints: those of bodies, of angles, and those the file lists.

    Every body has its own rows. Two bodies on the same two points repeat a row: its multipliers tell what each of them
    carries (in the minimum-norm sense), and lengths that contradict each other stay visible. Rows in which nothing can
    move are left out.
    """
    fixed = [point.fixed for point in description.points]
    for k, body in enumerate(description.planar_bodies):
        i, j, *others = body.points
        name, source = _called("body", body, k), scopes.owner(description, "planar_bodies", k)
        if not (fixed[i] and fixed[j]):
            yield Constraint(squared_distance, (i, j), (), (f"distance of {name}",), source)
        for p in others:
            if not (fixed[i] and fixed[j] and fixed[p]):
                point = description.points[p].name or p
                names = tuple(f"rigid point {point} of {name} ({axis})" for axis in "xy")
                yield Constraint(rigid_point, (i, j, p), (), names)

    first_angle = len(description.coordinate_names) - len(description.relative_coordinates)
    for k, angle in enumerate(description.relative_coordinates, first_angle):
        name = f"angle '{description.coordinate_names[k]}'"
        match angle:
            case schema.AbsoluteAngleDescription(points=points):
                yield Constraint(absolute_angle, points, (k,), (name,))
            case schema.RelativeAngleDescription(points=(first, second)):
                yield Constraint(relative_angle, (*first, *second), (k,), (name,))

    place = description.coordinate_names.index
    for k, constraint in enumerate(description.constraints):
        name, source = _called(constraint.type, constraint, k), scopes.owner(description, "constraints", k)
        match constraint:
            case schema.DistanceDescription(points=points):
                yield Constraint(squared_distance, points, (), (name,), source)
            case schema.FixedSliderDescription(point=point):
                yield Constraint(fixed_slider, (point,), (), (name,), source)
            case schema.MobileSliderDescription(point=point, line=line):
                yield Constraint(mobile_slider, (point, *line), (), (name,), source)
            case schema.RigidDescription(points=points, point=point):
                names = tuple(f"{name} ({axis})" for axis in "xy")
                yield Constraint(rigid_point, (*points, point), (), names, source)
            case schema.GearDescription(angles=(a, b)):
                yield Constraint(gear, (), (place(a), place(b)), (name,), source)
            case schema.MotionDescription(coordinate=coordinate):
                yield Constraint(prescribed_motion, (), (place(coordinate),), (name,), source)


def _called(kind: str, entry, index: int) -> str:
    return f"{kind} '{entry.name}'" if entry.name else f"{kind} {index}"
