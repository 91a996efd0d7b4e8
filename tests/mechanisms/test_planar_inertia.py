"""Kinetic and potential energy of a body in natural coordinates against the sum over its particles."""

import jax.numpy as jnp
import numpy as np
import pytest

from fgmbs.io.planar.load import parse_mechanism
from fgmbs.mechanisms.planar.mechanism import PlanarMechanism

BODY = """
gravity: [1.3, -9.7]
points: POINTS
planar_bodies:
  - {points: NUMBERS, mass: 1.0, I0: 10.0, cog: [0.1, 0.1], name: plate}
"""
PLACES = np.array([[0.0, 0.0], [1.7, 0.0], [0.4, 0.9]])


def particles(shape, generator):
    """Places and masses of the particles of a body in its frame."""
    if shape == "rod":  # uniform, so that I0 = m L² / 3 in the limit
        return np.stack([np.linspace(0, 1.7, 200), np.zeros(200)], axis=1), np.full(200, 0.01)
    return generator.normal([0.6, -0.3], 0.5, (200, 2)), generator.uniform(0.0, 0.02, 200)


def body(count):
    points = ", ".join(f"{{x: {x}, y: {y}}}" for x, y in PLACES[:count])
    text = BODY.replace("POINTS", f"[{points}]").replace("NUMBERS", str(list(range(count))))
    return PlanarMechanism.from_description(parse_mechanism(text))


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("shape", ["rod", "cloud"])
def test_energies_are_those_of_the_particles(count, shape):
    generator = np.random.default_rng(2)
    r, m = particles(shape, generator)
    cog = m @ r / m.sum()
    values = {"mass": m.sum(), "I0": m @ np.sum(r**2, axis=1), "cog.x": cog[0], "cog.y": cog[1]}
    mechanism = body(count).with_parameters({f"plate.{key}": value for key, value in values.items()}).evaluated()

    angle, spin, shift, velocity = 0.8, -1.9, np.array([0.3, -0.6]), np.array([1.1, 0.4])
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])

    def moved(places):
        turned = places @ turn.T
        return turned + shift, spin * turned @ np.array([[0.0, 1.0], [-1.0, 0.0]]) + velocity

    places, velocities = moved(PLACES[:count])
    q, dq = jnp.asarray(places.ravel()), jnp.asarray(velocities.ravel())
    r_moved, dr_moved = moved(r)
    np.testing.assert_allclose(mechanism.constraints(q, 0.0), 0.0, atol=1e-14)
    np.testing.assert_allclose(dq @ mechanism.mass_matrix(q) @ dq / 2, m @ np.sum(dr_moved**2, axis=1) / 2, rtol=1e-12)
    np.testing.assert_allclose(mechanism.potential(q), -m @ r_moved @ [1.3, -9.7], rtol=1e-12)
    np.testing.assert_allclose(mechanism.forces(q, dq, 0.0) @ dq, m @ dr_moved @ [1.3, -9.7], rtol=1e-12)


def test_mass_matrix_is_positive_definite_for_a_body_that_can_be():
    mechanism = body(2).evaluated()
    M = np.asarray(mechanism.mass_matrix(mechanism.reference))
    np.testing.assert_allclose(M, M.T, atol=1e-15)
    assert np.linalg.eigvalsh(M).min() > 0
