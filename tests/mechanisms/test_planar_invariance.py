"""What does not depend on where the ground is, on numbering and on units, for the parallel robot."""

import jax.numpy as jnp
import numpy as np
import pytest

from fgmbs.mechanisms.planar.mechanism import PlanarMechanism


def robot_answers(mechanism, q, dq):
    """Quantities of the robot that a change of frame or numbering leaves alone, with rigid pairs as distances."""
    Phi = mechanism.constraints(q, 0.0)
    names = mechanism.constraint_names
    scalars = [value for name, value in zip(names, Phi, strict=True) if not name.endswith(")")]
    pairs = np.reshape([value for name, value in zip(names, Phi, strict=True) if name.endswith(")")], (-1, 2))
    return (
        np.sort(scalars),
        np.sort(np.linalg.norm(pairs, axis=1)),
        dq @ mechanism.mass_matrix(q) @ dq / 2,
        mechanism.forces(q, dq, 0.0) @ dq,
    )


@pytest.fixture(scope="module")
def robot(references):
    """The robot with a configuration off its constraints, so that each row has something to say."""
    description = references["pick-and-place-robot"].description
    bodies = list(description.planar_bodies)
    # Expressions without a name, such as 2/3, are no parameters; here they must be.
    for k, numbers in {2: {"I0": 2 / 3}, 5: {"cog": (0.75, -0.25)}, 8: {"I0": 2 / 3}}.items():
        bodies[k] = bodies[k].model_copy(update=numbers)
    mechanism = PlanarMechanism.from_description(description.model_copy(update={"planar_bodies": tuple(bodies)}))
    generator = np.random.default_rng(8)
    q = mechanism.reference + 0.2 * generator.normal(size=mechanism.n)
    return mechanism, q, jnp.asarray(generator.normal(size=mechanism.n))


def test_moved_and_turned_ground(robot):
    mechanism, q, dq = robot
    angle, shift = 0.7, np.array([2.0, -1.0])
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])

    def moved(points, shift):
        return np.reshape(points, (-1, 2)) @ turn.T + shift

    points = moved(mechanism.point_positions(mechanism.reference), shift)
    values = {f"point{i}.{axis}": p[k] for i, p in enumerate(points) for k, axis in enumerate("xy")}
    values |= {f"gravity.{axis}": g for axis, g in zip("xy", turn @ [0.0, -9.81], strict=True)}
    q_moved = jnp.concatenate([moved(q[:20], shift).ravel(), q[20:] + angle])
    dq_moved = jnp.concatenate([moved(dq[:20], 0.0).ravel(), dq[20:]])
    changed = mechanism.with_parameters(values)
    for a, b in zip(robot_answers(mechanism, q, dq), robot_answers(changed, q_moved, dq_moved), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-10)
    difference = mechanism.potential(q) - mechanism.potential(mechanism.reference)
    np.testing.assert_allclose(
        changed.potential(q_moved) - changed.potential(changed.reference), difference, atol=1e-10
    )


def test_renumbered_points_and_bodies(robot):
    mechanism, q, dq = robot
    description = mechanism.description
    order = np.random.default_rng(4).permutation(len(description.points))
    number = {int(old): new for new, old in enumerate(order)}

    def renumbered(entry):
        return entry.model_copy(update={"points": tuple(number[i] for i in entry.points)})

    changed = PlanarMechanism.from_description(
        description.model_copy(
            update={
                "points": tuple(description.points[i] for i in order),
                "planar_bodies": tuple(renumbered(b) for b in reversed(description.planar_bodies)),
                "relative_coordinates": tuple(renumbered(a) for a in description.relative_coordinates),
            }
        )
    )
    old_free = [i for i, point in enumerate(description.points) if not point.fixed]
    rows = [old_free.index(i) for i in order if i in old_free]

    def placed(q):
        return jnp.concatenate([q[:20].reshape(-1, 2)[np.array(rows)].ravel(), q[20:]])

    for a, b in zip(robot_answers(mechanism, q, dq), robot_answers(changed, placed(q), placed(dq)), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-10)
    np.testing.assert_allclose(changed.potential(placed(q)), mechanism.potential(q), rtol=1e-12)


def test_rescaled_unit_of_length(robot):
    """In millimetres: distances 1e6 times, rigid rows 1e3 times as large, angle rows as they are."""
    mechanism, q, dq = robot
    s = 1000.0
    powers = {"x": 1, "y": 1, "I0": 2, "mass": 0}
    values = {name: value * s ** powers[name.split(".")[-1]] for name, value in mechanism.parameters.items()}
    changed = mechanism.with_parameters(values)
    units = jnp.concatenate([jnp.full(20, s), jnp.ones(2)])
    row_units = [s if name.endswith(")") else 1.0 if "angle" in name else s**2 for name in mechanism.constraint_names]
    np.testing.assert_allclose(
        changed.constraints(q * units, 0.0) / np.array(row_units), mechanism.constraints(q, 0.0), atol=1e-12
    )
    energies = [
        [m.potential(x), dx @ m.mass_matrix(x) @ dx / 2]
        for m, x, dx in [(mechanism, q, dq), (changed, q * units, dq * units)]
    ]
    np.testing.assert_allclose(np.array(energies[1]) / s**2, energies[0], rtol=1e-12)
