"""Derivatives of the leaves of a tree that follow a vector."""

from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fgmbs
from fgmbs.algebra.slopes import changed, slopes_of
from fgmbs.graph.model import mechanism_slopes, rebuilt
from fgmbs.unknowns import Unknown, freed

SCARA = Path(__file__).parents[2] / "configs" / "robots" / "scara.yaml"
X = jnp.array([0.3, -0.2])


def made(x, y=2.0):
    """A tree of which some leaves follow x, by programs and loops, too."""
    pair = jax.jit(lambda x: {"through": jnp.sin(x) * y, "beside": jnp.ones(3)})(x)
    looped, still = jax.lax.fori_loop(0, 3, lambda _, at: (at[0] * x[0] + at[1], at[1]), (x[1], jnp.asarray(y)))
    held = jax.lax.stop_gradient(x)
    return {**pair, "looped": looped, "still": still, "held": held, "count": jnp.arange(2), "word": "x", "none": None}


def test_slopes_of_leaves_that_follow():
    found = slopes_of(made, X)
    assert {key for key, leaf in found.items() if leaf is not None} == {"through", "looped"}
    followed = lambda x: {key: made(x)[key] for key in ("through", "looped")}
    for key, slope in jax.jacfwd(followed)(X).items():
        np.testing.assert_allclose(found[key], slope, rtol=1e-14)


@pytest.mark.parametrize("x", [X, jnp.zeros(0)])
def test_slopes_where_nothing_follows(x):
    alone = lambda x: {"beside": jnp.ones(3), "shape": jnp.zeros_like(x)}
    found = slopes_of(alone, x)
    assert found == {"beside": None, "shape": None}
    np.testing.assert_array_equal(changed(alone(x), found, x)["beside"], jnp.ones(3))


def test_changed_to_first_order():
    d = jnp.array([1e-5, -2e-5])
    there, expected = changed(made(X), slopes_of(made, X), d), made(X + d)
    for key in ("through", "looped"):
        np.testing.assert_allclose(there[key], expected[key], atol=1e-9)
    same = ("beside", "still", "held", "count", "word", "none")
    assert all(np.array_equal(there[key], made(X)[key]) for key in same)


@pytest.mark.parametrize("way", ["jit", "vmap", "jvp", "grad"])
def test_slopes_within_other_transformations(way):
    """Where x, and what else the function reads, is traced itself."""
    through = lambda x, y: slopes_of(lambda x: made(x, y), x)["through"]
    expected = lambda x, y: jnp.diag(jnp.cos(x) * y)
    y = jnp.array([2.0, 3.0, 4.0])
    if way == "jit":
        found, exact = (jax.jit(f)(X, y[0]) for f in (through, expected))
    elif way == "vmap":
        found, exact = (jax.vmap(f, (None, 0))(X, y) for f in (through, expected))
    elif way == "jvp":
        found, exact = (jax.jvp(f, (X, y[0]), (X, y[1]))[1] for f in (through, expected))
    else:
        found, exact = (jax.grad(lambda x, f=f: jnp.sum(f(x, y[0])))(X) for f in (through, expected))
    np.testing.assert_allclose(found, exact, atol=1e-14)


def test_of_a_robot_only_what_a_load_and_friction_move():
    """Nothing else of it is differentiated: derivatives took five times as long."""
    arm = fgmbs.load(SCARA)
    known = arm.with_own_leaves(("flange.mass", "elbow.friction"))
    of = lambda robot: (robot.single["flange.mass"], robot.single["elbow.friction"])
    unknown = eqx.tree_at(of, known, (Unknown(0.8), Unknown(0.5)))
    (mechanism, _), free = freed((unknown, {}), lambda path: path[-1].key)
    theta = jnp.array([0.9, 0.4])
    slopes = mechanism_slopes(free, mechanism, theta)
    assert all(np.any(np.asarray(leaf) != 0) for leaf in jax.tree.leaves(slopes))
    numbers = lambda theta: eqx.filter(rebuilt(free, (mechanism, {}), theta)[0], eqx.is_inexact_array)
    whole = jax.tree.leaves(jax.jacfwd(numbers)(theta))
    assert len(jax.tree.leaves(slopes)) < len(whole) / 4
    total = lambda leaves: sum(float(jnp.sum(jnp.abs(leaf))) for leaf in leaves)
    assert total(jax.tree.leaves(slopes)) == pytest.approx(total(whole), rel=1e-14)
