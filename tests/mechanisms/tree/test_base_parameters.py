"""Base parameters: as many as are published, and enough for the torques of any motion."""

import jax
import numpy as np
import pytest

from fgmbs import robots, tree


def arm(table):
    """Links of unit size in modified Denavit–Hartenberg frames (a, d, α)."""
    parts = []
    for k, (a, d, alpha) in enumerate(table):
        place = dict(xyz=(a, -np.sin(alpha) * d, np.cos(alpha) * d), rpy=(alpha, 0, 0))
        parts.append(robots.link(f"l{k}", mass=1.0, inertia=(1, 1, 1)))
        parts.append(robots.revolute(f"j{k}", "world" if k == 0 else f"l{k - 1}", f"l{k}", axis=(0, 0, 1), **place))
    return robots.robot(*parts)


RIGHT = np.pi / 2
PANDA = ((0, 0.333, 0), (0, 0, -RIGHT), (0, 0.316, RIGHT), (0.0825, 0, RIGHT))
PANDA += ((-0.0825, 0.384, -RIGHT), (0, 0, RIGHT), (0.088, 0, RIGHT))
PUMA = ((0, 0, 0), (0, 0.2435, -RIGHT), (0.4318, -0.0934, 0), (-0.0203, 0.4331, RIGHT), (0, 0, -RIGHT), (0, 0, RIGHT))


@pytest.mark.parametrize(("table", "published"), [(PANDA, 43), (PUMA, 36)])
def test_there_are_as_many_as_are_published(table, published):
    """[Gaz et al. 2019] of the Panda; Khalil's rules of the PUMA 560."""
    made = arm(table)
    base = tree.base_parameters(made)
    assert len(base.leaders) == published == len(base.texts())
    rng = np.random.default_rng(3)
    pi, *state = rng.normal(size=10 * made.nv), *rng.normal(size=(3, 20, made.nv))
    Y = np.asarray(jax.vmap(lambda *s: tree.regressor(made, *s))(*state)).reshape(-1, pi.size)
    np.testing.assert_allclose(Y[:, list(base.leaders)] @ (base.matrix @ pi), Y @ pi, atol=1e-9 * np.abs(Y @ pi).max())


def test_a_pendulum_tells_its_moment_and_its_inertia_about_the_axis():
    """Three of ten numbers are seen: the inertia about the axis and the two moments across it."""
    pendulum = arm([(0, 0, RIGHT)])
    assert tree.base_parameters(pendulum).texts() == ("l0.moment.x", "l0.moment.y", "l0.inertia.zz")
