"""The numbers that a planar mechanism computes with, made from its description and its independent parameters."""

from collections.abc import Mapping
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fgmbs.mechanisms.friction import Friction
from fgmbs.mechanisms.motor import Motor
from fgmbs.mechanisms.planar import description as schema
from fgmbs.mechanisms.planar import scopes
from fgmbs.mechanisms.planar.constraints.absolute_angle import absolute_angle
from fgmbs.mechanisms.planar.constraints.distance import squared_distance
from fgmbs.mechanisms.planar.constraints.fixed_slider import fixed_slider
from fgmbs.mechanisms.planar.constraints.gear import gear
from fgmbs.mechanisms.planar.constraints.plane import cross, dot
from fgmbs.mechanisms.planar.constraints.relative_angle import relative_angle
from fgmbs.mechanisms.planar.constraints.rigid_point import rigid_point
from fgmbs.mechanisms.planar.expressions import Number, evaluate
from fgmbs.mechanisms.planar.inertia import mass_matrix, weights
from fgmbs.mechanisms.planar.topology import Constraint, Elements, Motors, PlanarTopology, Rubbing, planar_topology
from fgmbs.typing import Scalar

_NOTHING = ("stribeck_speed", "width", "gain", "gear")
"""Numbers of friction and motors that are 1 where they do nothing."""


class PlanarNumbers(eqx.Module):
    """Derived numbers of a planar mechanism, stacked as its topology lists what they belong to."""

    reference: Float[Array, " n"]
    """Coordinates as drawn [m, rad]."""
    length: Float[Array, ""]
    """Mean length of the bodies: what lengths are compared with [m]."""
    velocities: Float[Array, " n"]
    """Initial velocities of the description, 0 where it has none [m/s, rad/s]."""
    fixed_points: Float[Array, "fixed 2"]
    constraints: tuple[tuple[Array, ...], ...]
    """Numbers of each group of constraints: lengths, offsets, lines, ratios."""
    mass_matrix: Float[Array, "n n"]
    gravity: Float[Array, "2"]
    """[m/s²]"""
    weight: Float[Array, " n"]
    """Generalized force of gravity [N]."""
    potential_at_origin: Float[Array, ""]
    """Potential energy of gravity at q = 0, the share of the fixed points [J]."""
    spring_stiffness: Float[Array, " springs"]
    spring_length: Float[Array, " springs"]
    angular_spring_stiffness: Float[Array, " angular_springs"]
    angular_spring_angle: Float[Array, " angular_springs"]
    damping: Float[Array, " dampers"]
    angular_damping: Float[Array, " angular_dampers"]
    frictions: tuple[Friction, ...]
    motor: Motor | None
    """All motors, stacked."""
    timed: dict[str, Float[Array, ""]]
    """Values of names in expressions of the time, and of forces and motions that are constant."""

    def at_time(self, topology: PlanarTopology, names: tuple[str, ...], t: Scalar) -> Float[Array, " names"]:
        """Values at time t of numbers that may vary with it."""
        scope = {**self.timed, "t": t}
        quantities = (topology.timed[name] for name in names)
        return _stack([evaluate(q.expr, scope) if q.varies else self.timed[q.name] for q in quantities])


def planar_numbers(
    description: schema.MechanismDescription, parameters: Mapping[str, Float[Array, ""]]
) -> PlanarNumbers:
    """The numbers of a description for given values of its independent numbers, a differentiable function of them."""
    topology = planar_topology(description)
    names = scopes.point_scope(description, parameters)
    drawing = _Drawing(description, names, scopes.numbers(description, parameters))

    points = _stack([drawing.point(i) for i in np.argsort(topology.rows).tolist()])
    free, fixed = points[: topology.free], points[topology.free :]
    angles = _stack(list(scopes.angles(description, names).values()))
    velocities = {name: drawing.numbers[f"initial_velocities.{name}"] for name, _ in description.initial_velocities}
    lengths = _stack([drawing.body_length(k) for k in range(len(description.planar_bodies))])
    M, weight = _inertia(topology, drawing, lengths)
    massless = topology.n - 2 * topology.free
    M = jnp.pad(M[: 2 * topology.free, : 2 * topology.free], (0, massless))
    motor = drawing.motor(topology.motors)
    if motor is not None and motor.rotor_inertia is not None:
        places = topology.motors.elements.places
        M = M.at[places, places].add(motor.inertia)
    timed = {name: names[name] for name in topology.timed_names}
    timed |= {name: drawing.numbers[name] for name, quantity in topology.timed.items() if not quantity.varies}
    return PlanarNumbers(
        reference=jnp.concatenate([free.ravel(), angles]),
        length=jnp.mean(lengths) if len(lengths) else jnp.ones(()),
        velocities=_stack([velocities.get(name, 0.0) for name in description.coordinate_names]),
        fixed_points=fixed,
        constraints=tuple(
            tuple(map(_stack, zip(*(drawing.numbers_of(c) for c in group.members), strict=True)))
            for group in topology.groups
        ),
        mass_matrix=M,
        gravity=drawing.vector("gravity"),
        weight=jnp.pad(weight[: topology.free].ravel(), (0, massless)),
        potential_at_origin=-jnp.sum(weight[topology.free :] * fixed),
        spring_stiffness=drawing.stack(topology.springs, "stiffness"),
        spring_length=drawing.stack(topology.springs, "free_length"),
        angular_spring_stiffness=drawing.stack(topology.angular_springs, "stiffness"),
        angular_spring_angle=drawing.stack(topology.angular_springs, "free_angle"),
        damping=drawing.stack(topology.dampers, "damping"),
        angular_damping=drawing.stack(topology.angular_dampers, "damping"),
        frictions=tuple(map(drawing.friction, topology.frictions)),
        motor=motor,
        timed={name: jnp.asarray(value, dtype=float) for name, value in timed.items()},
    )


def _inertia(topology: PlanarTopology, drawing: "_Drawing", lengths: Float[Array, " bodies"]):
    """Mass matrix and weights of all points, free ones first."""
    description = drawing.description
    bodies = description.planar_bodies
    owners = [scopes.owner(description, "planar_bodies", k) for k in range(len(bodies))]
    pairs = topology.rows[np.array([body.points[:2] for body in bodies], dtype=int).reshape(-1, 2)]
    masses, inertias = (_stack([drawing.numbers[f"{owner}.{key}"] for owner in owners]) for key in ("mass", "I0"))
    centres = _stack([drawing.vector(f"{owner}.cog") for owner in owners]).reshape(-1, 2)
    gravity = drawing.vector("gravity")
    count = len(topology.rows)
    M = mass_matrix(pairs, count, lengths, masses, inertias, centres)
    return M, weights(pairs, count, lengths, masses, centres, gravity)


class _Drawing(NamedTuple):
    """A mechanism as drawn, with all its numbers by name."""

    description: schema.MechanismDescription
    names: Mapping[str, Number]
    """Parameters and the coordinates of points: x0, y0, …"""
    numbers: Mapping[str, Number]

    def point(self, i: int) -> Float[Array, "2"]:
        return _stack([self.names[f"x{i}"], self.names[f"y{i}"]])

    def vector(self, name: str) -> Float[Array, "2"]:
        return _stack([self.numbers[f"{name}.x"], self.numbers[f"{name}.y"]])

    def stack(self, elements: Elements, key: str) -> Float[Array, " elements"]:
        return _stack([self.numbers[f"{owner}.{key}"] for owner in elements.owners])

    def stack_given(self, elements: Elements, keys: Mapping[str, int]) -> dict[str, Float[Array, "*elements"]]:
        """Numbers that some of the elements have; others have what does nothing."""
        found = {}
        for key, count in keys.items():
            nothing = 1.0 if key in _NOTHING else 0.0
            names = [f".{key}"] if key not in ("cosines", "sines") else [f".{key}.{k + 1}" for k in range(count)]
            rows = [_stack([self.numbers.get(owner + end, nothing) for owner in elements.owners]) for end in names]
            found[key] = rows[0] if names == [f".{key}"] else jnp.stack(rows)
        return found

    def friction(self, rubbing: Rubbing) -> Friction:
        given = self.stack_given(rubbing.elements, rubbing.keys)
        return Friction(self.stack(rubbing.elements, "damping"), shape=rubbing.shape, **given)

    def motor(self, motors: Motors) -> Motor | None:
        if not motors.elements.owners:
            return None
        return Motor(
            **{"gain": 1.0, "gear": 1.0, **self.stack_given(motors.elements, motors.keys)}, periods=motors.periods
        )

    def body_length(self, k: int) -> Number:
        body = self.description.planar_bodies[k]
        if len(body.points) == 2:
            return self.numbers[f"{scopes.owner(self.description, 'planar_bodies', k)}.length"]
        return scopes.distance(self.names, *body.points[:2])

    def link_length(self, i: int, j: int) -> Number:
        """Distance of two points: what a body says of it, else as drawn."""
        for k, body in enumerate(self.description.planar_bodies):
            if set(body.points) == {i, j}:
                return self.body_length(k)
        return scopes.distance(self.names, i, j)

    def offset(self, i: int, j: int, k: int) -> Float[Array, "2"]:
        """Place of point k in the frame i → j as drawn, in lengths of i → j [1]."""
        d, r = self.point(j) - self.point(i), self.point(k) - self.point(i)
        return _stack([dot(d, r), cross(d, r)]) / dot(d, d)

    def numbers_of(self, constraint: Constraint) -> tuple[Array | float, ...]:
        """What the constraint's function takes after points and coordinates, but for functions of the time."""
        points, source = constraint.points, constraint.source
        if constraint.function is squared_distance:
            length = f"{source}.length"
            # A body of three and more points has no length of its own.
            return (self.numbers[length] if length in self.numbers else scopes.distance(self.names, *points),)
        if constraint.function is rigid_point:
            if f"{source}.offset.x" in self.numbers:
                return (self.vector(f"{source}.offset") / self.link_length(*points[:2]),)
            return (self.offset(*points),)
        if constraint.function is absolute_angle:
            return (self.link_length(*points),)
        if constraint.function is relative_angle:
            return (self.link_length(*points[:2]) * self.link_length(*points[2:]),)
        if constraint.function is fixed_slider:
            ends = [[self.numbers[f"{source}.line.{axis}{end}"] for axis in "xy"] for end in "ab"]
            return (_stack([_stack(end) for end in ends]),)
        if constraint.function is gear:
            return self.numbers[f"{source}.ratio"], self.numbers[f"{source}.offset"]
        return ()


def _stack(values) -> Array:
    return jnp.stack([jnp.asarray(value, dtype=float) for value in values]) if len(values) else jnp.zeros(0)
