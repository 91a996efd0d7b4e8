"""Friction: its law written otherwise, its derivatives, what it does to energy, and what it refuses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fgmbs import ArgumentError, Friction, Unknown

RNG = np.random.default_rng(3)
SPEEDS = np.concatenate([RNG.normal(0, 2, 40), RNG.normal(0, 0.02, 40), [0.0]])
ANGLES, LOADS = RNG.uniform(-4, 4, SPEEDS.shape), RNG.normal(0, 3, SPEEDS.shape)
NUMBERS = dict(
    viscous=0.3, coulomb=0.5, stribeck=0.2, stribeck_speed=0.4, quadratic=0.05, load=0.1, asymmetry=0.2, width=0.03
)
WAVES = dict(cosines=[0.1, 0.05], sines=[-0.1, 0.02])
KINDS = pytest.mark.parametrize("turn", ["tanh", "clip"])


def by_hand(v, angle, load, turn):
    x = v / 0.03
    sign = np.tanh(x) if turn == "tanh" else max(-1.0, min(1.0, x))
    dry = 0.5 + 0.2 * np.exp(-((v / 0.4) ** 2)) + 0.1 * abs(load)
    dry += 0.1 * np.cos(angle) + 0.05 * np.cos(2 * angle) - 0.1 * np.sin(angle) + 0.02 * np.sin(2 * angle)
    return (1 + 0.2 * sign) * (0.3 * v + dry * sign + 0.05 * abs(v) * v)


@KINDS
def test_it_is_the_law(turn):
    friction = Friction(**NUMBERS, **WAVES, shape=turn)
    expected = [by_hand(*row, turn) for row in zip(SPEEDS, ANGLES, LOADS, strict=True)]
    np.testing.assert_allclose(friction(SPEEDS, angle=ANGLES, load=LOADS), expected, rtol=1e-12, atol=1e-15)
    one = friction(jnp.asarray(0.2), angle=jnp.asarray(1.0), load=jnp.asarray(-2.0))
    assert float(one) == pytest.approx(by_hand(0.2, 1.0, -2.0, turn), rel=1e-12)
    shifted = Friction(**NUMBERS, **WAVES, shape=turn, offset=-0.7)(SPEEDS, angle=ANGLES, load=LOADS)
    np.testing.assert_allclose(shifted + 0.7, expected, atol=1e-14)


@KINDS
def test_it_feeds_no_energy_in(turn):
    friction = Friction(**NUMBERS, **WAVES, shape=turn)
    assert np.all(friction(SPEEDS, angle=ANGLES, load=LOADS) * SPEEDS >= 0)


def test_each_direction_has_its_own():
    """Far from rest: Coulomb friction of 0.6 and 0.4."""
    friction = Friction(coulomb=0.5, asymmetry=0.2, width=0.01)
    np.testing.assert_allclose(friction(jnp.array([3.0, -3.0])), [0.6, -0.4], rtol=1e-12)


@KINDS
def test_derivatives_by_all_numbers_are_those_of_differences_and_finite_at_rest(turn):
    friction = Friction(**NUMBERS, **WAVES, shape=turn, offset=0.1)
    leaves, structure = jax.tree.flatten(friction)

    def force(leaves, v):
        return jax.tree.unflatten(structure, leaves)(v, angle=0.3, load=-0.5)

    for v in (0.0, 0.011, -0.7):
        v = jnp.asarray(v)
        by_leaves, by_speed = jax.jacfwd(force, (0, 1))(leaves, v)
        for second in (jax.hessian(force, 1)(leaves, v), *jax.tree.leaves(jax.jacfwd(jax.jacrev(force), 1)(leaves, v))):
            assert np.isfinite(second).all()
        e = 1e-6
        assert float(by_speed) == pytest.approx(float(force(leaves, v + e) - force(leaves, v - e)) / (2 * e), rel=1e-6)
        for k, slope in enumerate(by_leaves):
            for place in np.ndindex(leaves[k].shape):
                ends = [[*leaves[:k], leaves[k].at[place].add(s * e), *leaves[k + 1 :]] for s in (1, -1)]
                difference = (force(ends[0], v) - force(ends[1], v)) / (2 * e)
                assert float(slope[place]) == pytest.approx(float(difference), rel=1e-6, abs=1e-9)


def test_several_joints_have_numbers_of_their_own():
    friction = Friction([0.1, 0.2], [0.5, 0.0], width=0.05, cosines=[[0.0, 0.3]])
    each = [Friction(0.1, 0.5, width=0.05, cosines=[0.0]), Friction(0.2, 0.0, width=0.05, cosines=[0.3])]
    v, angle = jnp.array([0.1, -0.2]), jnp.array([1.0, 2.0])
    alone = [one(v[k], angle=angle[k]) for k, one in enumerate(each)]
    np.testing.assert_allclose(friction(v, angle=angle), alone, rtol=1e-14)


def test_what_is_not_given_is_not_there():
    assert len(jax.tree.leaves(Friction(0.1))) == 1
    assert str(jax.make_jaxpr(Friction(0.1))(1.0)).count("mul") == 1


def test_an_unknown_number_counts_with_its_value():
    friction = Friction(Unknown(0.1), Unknown(0.5, sigma=1.0, log=True), width=0.05)
    assert float(friction(jnp.asarray(1.0))) == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda: Friction(-0.1), "viscous: expected numbers of at least 0; found -0.1"),
        (lambda: Friction(0.1, [0.1, -2.0], width=1.0), r"coulomb: expected numbers .* found coulomb\[1\] = -2"),
        (lambda: Friction(coulomb=Unknown(-1.0), width=1.0), "coulomb: expected numbers of at least 0; found -1"),
        (lambda: Friction("oil"), "viscous: expected numbers; found 'oil'"),
        (lambda: Friction(coulomb=0.1), "width: expected the speed within .* because coulomb is given; found none"),
        (lambda: Friction(asymmetry=0.1), "width: expected the speed within .* because asymmetry is given"),
        (lambda: Friction(asymmetry=1.1, width=1.0), "asymmetry: expected numbers from -1 to 1; found 1.1"),
        (lambda: Friction(coulomb=0.1, width=0), "width: expected positive numbers; found 0"),
        (lambda: Friction(stribeck=0.1, width=1), "stribeck_speed: expected a number, because stribeck is given"),
        (lambda: Friction(stribeck_speed=0.1), "stribeck: expected a number, because stribeck_speed is given"),
        (lambda: Friction(sines=0.1, width=1), "sines: expected a list, an amplitude for each harmonic; found 0.1"),
        (lambda: Friction(shape="sign"), "shape: expected 'tanh' or 'clip'; found 'sign'"),
        (lambda: Friction(sines=[0.1], width=1)(jnp.ones(())), "angle: expected numbers, because the friction has sin"),
        (lambda: Friction(load=0.1, width=1)(jnp.ones(())), "load: expected numbers, because the friction has load"),
    ],
)
def test_what_cannot_be_meant(build, text):
    with pytest.raises(ArgumentError, match=text):
        build()
