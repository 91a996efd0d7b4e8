"""Generalized forces of a planar mechanism: weight, springs, dampers, given forces and torques, actuators."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fgmbs.mechanisms.planar.constraints.plane import dot, perpendicular
from fgmbs.mechanisms.planar.numbers import PlanarNumbers
from fgmbs.mechanisms.planar.topology import PlanarTopology
from fgmbs.typing import Coordinates, Scalar, Velocities


def potential(topology: PlanarTopology, numbers: PlanarNumbers, q: Coordinates) -> Float[Array, ""]:
    """Potential energy of gravity, zero at the origin of the ground, and of springs [J]."""
    V = numbers.potential_at_origin - numbers.weight @ q
    if topology.springs.owners:
        a, b = _at(topology.table(q, numbers.fixed_points), topology.springs.places)
        V = V + jnp.sum(jax.vmap(spring_energy)(b - a, numbers.spring_stiffness, numbers.spring_length))
    if topology.angular_springs.owners:
        turns = q[topology.angular_springs.places] - numbers.angular_spring_angle
        V = V + jnp.sum(numbers.angular_spring_stiffness * turns**2) / 2
    return V


def generalized_forces(
    topology: PlanarTopology, numbers: PlanarNumbers, q: Coordinates, dq: Velocities, t: Scalar
) -> Velocities:
    """Q = −∂V/∂q plus dampers and given forces [N, N·m]."""
    p = topology.table(q, numbers.fixed_points)
    dp = topology.table(dq, jnp.zeros_like(numbers.fixed_points))
    shares: list[tuple[np.ndarray, Array]] = []

    if topology.springs.owners:
        a, b = _at(p, places := topology.springs.places)
        shares.append(
            _on_pairs(topology, places, jax.vmap(spring_force)(b - a, numbers.spring_stiffness, numbers.spring_length))
        )
    if topology.dampers.owners:
        (a, b), (da, db) = _at(p, places := topology.dampers.places), _at(dp, places)
        shares.append(_on_pairs(topology, places, jax.vmap(damper_force)(b - a, db - da, numbers.damping)))
    if topology.angular_springs.owners:
        places = topology.angular_springs.places
        shares.append((places, numbers.angular_spring_stiffness * (numbers.angular_spring_angle - q[places])))
    if topology.angular_dampers.owners:
        places = topology.angular_dampers.places
        shares.append((places, -numbers.angular_damping * dq[places]))
    for kind, friction in zip(topology.frictions, numbers.frictions, strict=True):
        places = kind.elements.places
        if kind.angular:
            shares.append((places, -friction(dq[places], angle=q[places])))
        else:
            (a, b), (da, db) = _at(p, places), _at(dp, places)
            e = jax.vmap(_direction)(b - a)
            shares.append(_on_pairs(topology, places, -friction(jnp.sum(e * (db - da), axis=1))[:, None] * e))
    if numbers.motor is not None and any(key in topology.motors.keys for key in ("back_emf", "cosines", "sines")):
        places = topology.motors.elements.places
        shares.append((places, numbers.motor.force(dq[places], q[places])))
    if owners := topology.point_forces.owners:
        names = tuple(f"{owner}.force.{axis}" for owner in owners for axis in "xy")
        forces = numbers.at_time(topology, names, t).reshape(-1, 2)
        shares.append(_on_points(topology, topology.point_forces.places, forces))
    if owners := topology.angle_torques.owners:
        names = tuple(f"{owner}.torque" for owner in owners)
        shares.append((topology.angle_torques.places, numbers.at_time(topology, names, t)))
    if owners := topology.body_torques.owners:
        a, b = _at(p, places := topology.body_torques.places)
        torques = numbers.at_time(topology, tuple(f"{owner}.torque" for owner in owners), t)
        shares.append(_on_pairs(topology, places, jax.vmap(couple)(b - a, torques)))
    return numbers.weight + _sum_by_coordinate(topology.n, shares) if shares else numbers.weight


def actuation(topology: PlanarTopology, numbers: PlanarNumbers, q: Coordinates) -> Float[Array, "nv nu"]:
    """Generalized forces per unit of each command, in the order of the file [1, 1/m]."""
    count = topology.actuators
    if not count:
        return jnp.zeros((topology.n, 0), q.dtype)
    p = topology.table(q, numbers.fixed_points)
    direct = topology.coordinate_actuators
    ones = jnp.ones(len(direct.owners), q.dtype)
    if numbers.motor is not None:
        ones = ones.at[np.searchsorted(direct.indices, topology.motors.elements.indices)].set(numbers.motor.per_command)
    shares: list[tuple[np.ndarray, Array]] = [(direct.places * count + direct.indices, ones)]
    for kind, unit_force in ((topology.point_actuators, _direction), (topology.body_actuators, _unit_couple)):
        if kind.owners:
            a, b = _at(p, kind.places)
            coordinates, forces = _on_pairs(topology, kind.places, jax.vmap(unit_force)(b - a))
            columns = np.tile(np.repeat(kind.indices, 2), 2)  # x, y of the second points, then of the first
            ground = topology.n * count
            shares.append((np.where(coordinates < topology.n, coordinates * count + columns, ground), forces))
    return _sum_by_coordinate(topology.n * count, shares).reshape(topology.n, count)


def spring_energy(d: Float[Array, "2"], stiffness: Scalar, free_length: Scalar) -> Float[Array, ""]:
    """k (|d| − l)² / 2 [J], for the vector d between the ends."""
    square = dot(d, d)
    length = jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1.0)), 0.0)
    # Multiplied out: exact derivatives at |d| = 0 for l = 0, where |d| has none.
    return stiffness * (square - 2 * free_length * length + free_length**2) / 2


def spring_force(d: Float[Array, "2"], stiffness: Scalar, free_length: Scalar) -> Float[Array, "2"]:
    """Force −k (|d| − l) d / |d| on the second end [N]; without direction, that is zero, for |d| = 0."""
    return stiffness * (free_length * _direction(d) - d)


def damper_force(d: Float[Array, "2"], dd: Float[Array, "2"], damping: Scalar) -> Float[Array, "2"]:
    """Force −c (d|d|/dt) d / |d| on the second end [N]; zero for |d| = 0."""
    e = _direction(d)
    return -damping * dot(e, dd) * e


def couple(d: Float[Array, "2"], torque: Scalar) -> Float[Array, "2"]:
    """Force on the second point [N], with its opposite on the first, of a torque: τ ∂(angle of d)/∂d."""
    return torque * perpendicular(d) / dot(d, d)


def _unit_couple(d):
    square = dot(d, d)
    return jnp.where(square > 0, couple(jnp.where(square > 0, d, 1.0), jnp.ones_like(square)), 0.0)


def _direction(d):
    square = dot(d, d)
    return jnp.where(square > 0, d / jnp.sqrt(jnp.where(square > 0, square, 1.0)), 0.0)


def _at(table, places):
    return tuple(table[place] for place in places)


def _on_points(
    topology: PlanarTopology, rows: np.ndarray, forces: Float[Array, "elements 2"]
) -> tuple[np.ndarray, Array]:
    """(coordinates, shares) of forces on points; those on fixed points, which the ground takes, get coordinate n."""
    targets = np.where(rows[:, None] < topology.free, 2 * rows[:, None] + [0, 1], topology.n)
    return targets.ravel(), forces.ravel()


def _on_pairs(
    topology: PlanarTopology, places: np.ndarray, forces: Float[Array, "elements 2"]
) -> tuple[np.ndarray, Array]:
    """(coordinates, shares) of forces on second points and their opposites on first points."""
    return _on_points(topology, places[::-1].ravel(), jnp.concatenate([forces, -forces]))


def _sum_by_coordinate(n: int, shares: list[tuple[np.ndarray, Array]]) -> Velocities:
    """Sum of all shares in each coordinate, by one gather, which XLA fuses with its neighbours, unlike a scatter."""
    targets = np.concatenate([targets for targets, _ in shares])
    values = jnp.concatenate([values for _, values in shares])
    members = [np.flatnonzero(targets == k) for k in range(n)]
    most = max(map(len, members))
    slots = np.array([np.pad(m, (0, most - len(m)), constant_values=len(targets)) for m in members], dtype=int)
    return jnp.sum(jnp.append(values, 0.0)[slots], axis=1)
