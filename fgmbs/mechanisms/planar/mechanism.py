"""Planar mechanisms in natural coordinates, the positions of points, mixed with angles."""

import functools
from collections.abc import Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from fgmbs.arguments import Numbers, by_name, nearest
from fgmbs.compiled.program import ONCE, program
from fgmbs.compiled.tracing import computed_now, is_traced
from fgmbs.errors import ArgumentError
from fgmbs.kinematics.mobility import degrees_of_freedom
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.mechanisms.planar import scopes
from fgmbs.mechanisms.planar.constraints.absolute_angle import absolute_angle
from fgmbs.mechanisms.planar.constraints.distance import squared_distance
from fgmbs.mechanisms.planar.constraints.fixed_slider import fixed_slider
from fgmbs.mechanisms.planar.constraints.gear import gear
from fgmbs.mechanisms.planar.constraints.mobile_slider import mobile_slider
from fgmbs.mechanisms.planar.constraints.plane import dot, perpendicular
from fgmbs.mechanisms.planar.constraints.prescribed_motion import prescribed_motion
from fgmbs.mechanisms.planar.constraints.relative_angle import relative_angle
from fgmbs.mechanisms.planar.constraints.rigid_point import rigid_point
from fgmbs.mechanisms.planar.description import (
    AngleActuatorDescription,
    BodyActuatorDescription,
    CoordinateActuatorDescription,
    MechanismDescription,
    PointsActuatorDescription,
)
from fgmbs.mechanisms.planar.expressions import ExpressionError
from fgmbs.mechanisms.planar.forces import actuation, generalized_forces, potential
from fgmbs.mechanisms.planar.joints import joint_forces, pin_names
from fgmbs.mechanisms.planar.limits import beyond_limits, inertia_about_centre
from fgmbs.mechanisms.planar.numbers import PlanarNumbers, planar_numbers
from fgmbs.mechanisms.planar.structure import PlanarStructure, counted
from fgmbs.mechanisms.planar.topology import PlanarTopology, planar_topology
from fgmbs.typing import Constraints, Coordinates, Scalar, Velocities
from fgmbs.unknowns import Path as LeafPath
from fgmbs.unknowns import Unknown, known, number


class PlanarMechanism(AbstractMechanism):
    """Bodies in the plane, joined at the points they share.

    q holds x, y of every free point in the order of the file, then the relative coordinates (angles).
    """

    structure: PlanarStructure = eqx.field(static=True)
    parameters: dict[str, Float[Array, ""] | Unknown]
    """Every independent number, by name: `L`, `crank.mass`, `point1.x`, `gravity.y` … [SI].

    Numbers that the structure gives by expressions follow from these. Of one that is `Unknown` the value counts.
    """
    numbers: PlanarNumbers | None
    """Derived numbers; None before `evaluated`, when each use computes them anew."""

    def __init__(
        self,
        structure: PlanarStructure,
        parameters: dict[str, Float[Array, ""] | Unknown],
        numbers: PlanarNumbers | None = None,
    ):
        self.structure = structure
        self.parameters = parameters
        self.numbers = numbers

    @staticmethod
    def from_description(description: MechanismDescription) -> "PlanarMechanism":
        """The mechanism of a description that has been checked."""
        return _with_values(_structure(description))

    @property
    def description(self) -> MechanismDescription:
        """All that is known of it, parameters as they are; of a batch, or while traced, as first described."""
        values = known(self.parameters)
        if is_traced(values) or any(value.shape for value in values.values()):
            return self.structure.description
        return self.structure.with_numbers({name: float(value) for name, value in values.items()})

    def with_parameters(self, values: Mapping[str, Numbers | Unknown]) -> "PlanarMechanism":
        """The mechanism with other values of some parameters, a differentiable function of them; any may be `Unknown`.

        Raises:
            ArgumentError: A name that is no parameter, a value that is not one number, or one with which a number of
                the mechanism is impossible, as a negative mass; what is traced is taken as it is.
        """
        by_name("values", values, "numbers by name, as in {'L': 1.0}")
        changed = {name: number(f"values[{name!r}]", value) for name, value in values.items()}
        for name, value in known(changed).items():
            if name not in self.parameters:
                advice = nearest(name, self.parameters, "parameters")
                raise ArgumentError(f"values: expected names of parameters; found '{name}'{advice}")
            if value.shape:
                advice = "; use jax.vmap for many mechanisms"
                raise ArgumentError(f"values['{name}']: expected one number; found shape {value.shape}{advice}")
        parameters = {**self.parameters, **changed}
        if changed and not is_traced(known(parameters)):
            self._refuse_impossible(known(parameters), changed)
        return PlanarMechanism(self.structure, parameters)

    def _refuse_impossible(self, parameters: Mapping[str, Array], changed: Mapping[str, object]) -> None:
        """Refuses numbers that no mechanism can have.

        Raises:
            ArgumentError: Names the number, and the parameter that was changed.
        """
        blank = self.structure.blank
        if any(value.shape for value in parameters.values()):
            return  # of many mechanisms
        given = {name: float(value) for name, value in parameters.items()}
        names = ", ".join(f"{name!r}" for name in changed)
        try:
            numbers = scopes.numbers(blank, given)
        except ExpressionError as error:
            raise ArgumentError(
                f"values: with the values of {names} a number of the mechanism has none: {error}"
            ) from None
        for name, accepted in beyond_limits(blank, numbers):
            found = f"found {float(numbers[name]):.6g}"
            if name in changed:
                raise ArgumentError(f"values[{name!r}]: expected {accepted}; {found}")
            raise ArgumentError(f"values: with the values of {names}, expected of {name!r} {accepted}; {found}")

    def evaluated(self) -> "PlanarMechanism":
        parameters = known(self.parameters)
        return PlanarMechanism(self.structure, parameters, _planar_numbers(self.structure.blank, parameters))

    def bare(self) -> "PlanarMechanism":
        return PlanarMechanism(self.structure, self.parameters)

    @property
    def _numbers(self) -> PlanarNumbers:
        return _planar_numbers(self.structure.blank, known(self.parameters)) if self.numbers is None else self.numbers

    @property
    def _topology(self) -> PlanarTopology:
        return planar_topology(self.structure.blank)

    @property
    def coordinate_names(self) -> tuple[str, ...]:
        return self.structure.blank.coordinate_names

    @property
    def constraint_names(self) -> tuple[str, ...]:
        """What each row of `constraints` says, in the words of the file."""
        groups = self._topology.groups
        return tuple(name for group in groups for constraint in group.members for name in constraint.row_names)

    @property
    def body_names(self) -> tuple[str, ...]:
        return self._owners("planar_bodies")

    @property
    def point_names(self) -> tuple[str, ...]:
        return self._owners("points")

    def _owners(self, section: str) -> tuple[str, ...]:
        blank = self.structure.blank
        return tuple(scopes.owner(blank, section, i) for i in range(len(getattr(blank, section))))

    @property
    def title(self) -> str:
        return self.structure.blank.name or "mechanism"

    def physical_parameters(self) -> dict[str, Array]:
        return known(self.parameters)

    def margins(self) -> dict[str, Scalar]:
        """By BODY.I0: its moment of inertia about its centre of mass [kg m²]."""
        numbers = scopes.numbers(self.structure.blank, known(self.parameters))
        return {f"{body}.I0": jnp.asarray(inertia_about_centre(numbers, body), float) for body in self.body_names}

    def margin_in_words(self, margin: float) -> str:
        if margin < 0:
            return f"{-margin:.4g} kg m² below that of the mass in its centre (parallel axes)"
        return "as small as mass and centre of mass of the body allow, all mass being in its centre nearly"

    def parameter_name(self, path: LeafPath) -> str:
        return path[-1].key

    @property
    def coordinate_units(self) -> tuple[str, ...]:
        angles = len(self.structure.blank.relative_coordinates)
        return ("m",) * (self.n - angles) + ("rad",) * angles

    @property
    def actuator_units(self) -> tuple[str, ...]:
        force = {"m": "N", "rad": "N m"}
        units = dict(zip(self.coordinate_names, self.coordinate_units, strict=True))
        return tuple(
            "SI"  # of a command of which the gain is the force
            if getattr(actuator, "gain", None) is not None
            else force[units[actuator.coordinate]]
            if isinstance(actuator, CoordinateActuatorDescription)
            else force["m" if isinstance(actuator, PointsActuatorDescription) else "rad"]
            for actuator in self.structure.blank.actuators
        )

    @property
    def actuator_effects(self) -> tuple[str, ...]:
        texts = []
        for actuator in self.structure.blank.actuators:
            match actuator:
                case AngleActuatorDescription(angle=angle):
                    texts.append(f"torque on {angle}")
                case CoordinateActuatorDescription(coordinate=coordinate):
                    texts.append(f"force on {coordinate}")
                case PointsActuatorDescription(points=points):
                    texts.append(f"force between {' and '.join(self.point_names[point] for point in points)}")
                case BodyActuatorDescription(body=body):
                    texts.append(f"torque on {self.body_names[body]}")
        return tuple(texts)

    @property
    def reference(self) -> Coordinates:
        """The mechanism as drawn, each angle as its links show it."""
        return self._numbers.reference

    @property
    def vectors(self) -> tuple[int, ...]:
        angles = len(self.structure.blank.relative_coordinates)
        points = (self.n - angles) // 2
        return tuple(i // 2 for i in range(2 * points)) + tuple(range(points, points + angles))

    @property
    def local_sizes(self) -> Velocities | None:
        """The mean length of the bodies for positions, 1 for angles."""
        angles = len(self.structure.blank.relative_coordinates)
        if angles in (0, self.n):
            return None
        length = jax.lax.stop_gradient(self._numbers.length)
        return jnp.concatenate([jnp.broadcast_to(length, self.n - angles), jnp.ones(angles, length.dtype)])

    @property
    def reach(self) -> Velocities:
        """The extent of the drawing for positions, half a turn for angles."""
        return _reach(self)

    @property
    def constraint_sizes(self) -> Constraints:
        """Powers of the mean length of the bodies."""
        in_metres = all(unit == "m" for unit in self.coordinate_units)
        powers = []
        for group in self._topology.groups:
            for constraint in group.members:
                driven = group.function is prescribed_motion
                unit = self.coordinate_units[constraint.coordinates[0]] if driven else None
                power = int(unit == "m") if driven else _POWERS[group.function]
                powers += [power - in_metres] * len(constraint.row_names)
        return jax.lax.stop_gradient(self._numbers.length) ** jnp.asarray(powers, float)

    @property
    def actuator_names(self) -> tuple[str, ...]:
        return self.structure.blank.actuator_names

    @property
    def dof(self) -> int:
        """Degrees of freedom of the mechanism as described, whatever its parameters are now (also while traced)."""
        if self.structure.dof is None:
            return degrees_of_freedom(self.described)  # which says why there are none
        return self.structure.dof

    @property
    def described(self) -> "PlanarMechanism":
        return _with_values(self.structure)

    @property
    def initial_velocities(self) -> tuple[Velocities, Bool[Array, " nv"]]:
        """Initial velocities that the description gives and which these are; 0 for the others [m/s, rad/s]."""
        given = dict(self.structure.blank.initial_velocities)
        return self._numbers.velocities, jnp.array([name in given for name in self.coordinate_names])

    def constraints(self, q: Coordinates, t: Scalar) -> Constraints:
        topology, numbers = self._topology, self._numbers
        p = topology.table(q, numbers.fixed_points)
        rows = []
        for group, values in zip(topology.groups, numbers.constraints, strict=True):
            if group.function is prescribed_motion:
                names = tuple(f"{motion.source}.value" for motion in group.members)
                values = (numbers.at_time(topology, names, t),)
            points, coordinates = (p[row] for row in group.rows), (q[place] for place in group.coordinates)
            rows.append(jax.vmap(group.function)(*points, *coordinates, *values).ravel())
        return jnp.concatenate(rows) if rows else q[:0]

    def mass_matrix(self, q: Coordinates) -> Float[Array, "nv nv"]:
        """Mass matrix of the points, constant in natural coordinates; angles have none but that of rotors."""
        return self._numbers.mass_matrix

    def forces(self, q: Coordinates, dq: Velocities, t: Scalar) -> Velocities:
        return generalized_forces(self._topology, self._numbers, q, dq, t)

    def potential(self, q: Coordinates) -> Float[Array, ""]:
        return potential(self._topology, self._numbers, q)

    def actuation(self, q: Coordinates, t: Scalar) -> Float[Array, "nv nu"]:
        return actuation(self._topology, self._numbers, q)

    @property
    def pin_names(self) -> tuple[str, ...]:
        """`BODY@POINT` for every body and each of its points, in the order of the file."""
        return pin_names(self.structure.blank)

    def joint_forces(
        self,
        q: Coordinates,
        dq: Velocities,
        ddq: Velocities,
        lambda_: Constraints,
        t: Scalar,
        u: Float[Array, " nu"] | None = None,
    ) -> Float[Array, "pins 2"]:
        """Force on each body at each of its points, in the order of `pin_names` [N]; see `planar.joints`."""
        return joint_forces(self.structure.blank, known(self.parameters), self._numbers, q, ddq, lambda_, t, u)

    @property
    def gravity(self) -> Float[Array, "2"]:
        return self._numbers.gravity

    def body_frame(self, body: str, q: Coordinates, t: Scalar) -> tuple[Float[Array, "2 2"], Float[Array, "2"]]:
        """(rotation, origin) of a body: the origin is its first point, the x axis points to its second."""
        first, second, *_ = self.body_points[_index(body, self.body_names, "body", "bodies")]
        positions = self.point_positions(q)
        d = positions[second] - positions[first]
        e = d / jnp.sqrt(dot(d, d))
        return jnp.stack([e, perpendicular(e)], axis=1), positions[first]

    def point_position(self, point: str, q: Coordinates) -> Float[Array, "2"]:
        return self.point_positions(q)[_index(point, self.point_names, "point", "points")]

    def point_positions(self, q: Coordinates) -> Float[Array, "points 2"]:
        """Positions of all points in the order of the file [m]."""
        topology = self._topology
        return topology.table(q, self._numbers.fixed_points)[topology.rows]

    def point_coordinates(self, point: str) -> tuple[int, ...]:
        names = self.point_names
        if point not in names and point.isdecimal() and int(point) < len(names):
            point = names[int(point)]  # points with a name have a number too
        i = _index(point, names, "point", "points")
        if i in self.fixed_points:
            raise ArgumentError(f"point: the point {point!r} is fixed to the ground")
        moving = [k for k in range(len(names)) if k not in self.fixed_points]
        return 2 * moving.index(i), 2 * moving.index(i) + 1

    @property
    def body_points(self) -> tuple[tuple[int, ...], ...]:
        """Points of each body."""
        return tuple(body.points for body in self.structure.blank.planar_bodies)

    @property
    def fixed_points(self) -> tuple[int, ...]:
        """Points that belong to the ground."""
        return tuple(i for i, point in enumerate(self.structure.blank.points) if point.fixed)


_POWERS = {squared_distance: 2, fixed_slider: 2, mobile_slider: 2, rigid_point: 1}
_POWERS |= {absolute_angle: 0, relative_angle: 0, gear: 0}
"""Dimension of constraints: the power of a length."""


def _index(name: str, names: tuple[str, ...], argument: str, kind: str) -> int:
    if name not in names:
        raise ArgumentError(f"{argument}: there is no {argument} {name!r}{nearest(name, names, kind)}")
    return names.index(name)


_planar_numbers = program(planar_numbers)
"""Compiled, because outside of a trace hundreds of single operations take seconds."""


@program(**ONCE)
def _reach(mechanism: PlanarMechanism) -> Velocities:
    angles = len(mechanism.structure.blank.relative_coordinates)
    points = mechanism.point_positions(mechanism.reference)
    extent = jnp.maximum(jnp.max(jnp.ptp(points, axis=0)), mechanism._numbers.length)
    return jnp.concatenate([jnp.broadcast_to(extent, mechanism.n - angles), jnp.full(angles, jnp.pi, extent.dtype)])


@functools.lru_cache(maxsize=256)
def _structure(description: MechanismDescription) -> PlanarStructure:
    guessed = PlanarStructure.guessed(description)
    with computed_now():
        return guessed.with_dof(counted(_with_values(guessed)))


def _with_values(structure: PlanarStructure) -> PlanarMechanism:
    with computed_now():
        values = {name: jnp.asarray(value, dtype=float) for name, value in structure.numbers.items()}
    return PlanarMechanism(structure, values)
