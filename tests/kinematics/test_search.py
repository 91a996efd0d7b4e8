"""The search for assembled configurations: every member of a batch finds what it finds alone."""

import equinox as eqx
import jax
import jax.numpy as jnp
import linkages
import numpy as np
import pytest

from fgmbs.errors import AssemblyError
from fgmbs.kinematics import assemble
from fgmbs.kinematics.search import nearest_assembly, search

FOURBAR = linkages.fourbar_angle()
MEMBERS = {
    "from the start": ((1.0, 2.1, 3.6, 4.0), 0.3),
    "led": ((1.0, 2.0, 3.6, 4.0), 3.4),
    "thrown": ((1.1190, 2.0500, 3.1082, 4.2538), -5.6662),
    "not at all": ((1.0, 0.5, 3.6, 4.0), 0.3),
}
LENGTHS, ANGLES = (jnp.asarray(column) for column in zip(*MEMBERS.values(), strict=True))
GIVEN = jnp.arange(5) == 4


def of(lengths):
    return eqx.tree_at(lambda m: m.lengths, FOURBAR, lengths)


def arguments(lengths, angle):
    return of(lengths), jnp.zeros(()), GIVEN, jnp.zeros(5).at[4].set(angle)


def found(lengths, angle):
    return nearest_assembly(*arguments(lengths, angle))


def test_members_need_different_attempts():
    @jax.jit
    @jax.vmap
    def good(lengths, angle):
        mechanism, *rest = arguments(lengths, angle)
        return search(mechanism, mechanism.reference, *rest, jnp.asarray(False)).good

    direct, _, led, *thrown = np.asarray(good(LENGTHS, ANGLES)).T
    np.testing.assert_array_equal(direct, [True, False, False, False])
    np.testing.assert_array_equal(led[1:], [True, False, False])
    np.testing.assert_array_equal(np.any(thrown, axis=0), [False, False, True, False])


def test_batch_equals_loop():
    q, assembled = jax.jit(jax.vmap(found))(LENGTHS, ANGLES)
    np.testing.assert_array_equal(assembled, [True, True, True, False])
    for lengths, angle, one in zip(LENGTHS[:3], ANGLES, q, strict=False):
        np.testing.assert_allclose(one, assemble(of(lengths), {"theta": float(angle)}), atol=1e-12)
    with pytest.raises(AssemblyError, match="cannot be assembled"):
        assemble(of(LENGTHS[3]), {"theta": float(ANGLES[3])})


@pytest.mark.slow
@pytest.mark.parametrize("member", [0, 1, 2], ids=list(MEMBERS)[:3])
def test_derivatives_equal_those_of_the_closed_form(member):
    lengths, angle = LENGTHS[member], ANGLES[member]
    q = found(lengths, angle)[0]
    x, h = np.append(lengths, angle), 1e-5
    side = min((1, -1), key=lambda side: np.linalg.norm(q[:4] - linkages.fourbar_pose(angle, side, lengths)))

    def pose(x):
        return linkages.fourbar_pose(x[4], side, x[:4])

    expected = np.stack([(pose(x + h * e) - pose(x - h * e)) / (2 * h) for e in np.eye(5)], axis=1)
    for derivative in (jax.jacfwd, jax.jacrev):
        J = jax.jit(derivative(lambda x: found(x[:4], x[4])[0]))(x)
        np.testing.assert_allclose(J[:4], expected, atol=1e-8)


def test_as_drawn_is_the_drawing_itself():
    q, assembled = jax.jit(lambda m: nearest_assembly(m, jnp.zeros(()), None, m.reference))(FOURBAR)
    np.testing.assert_array_equal(q, FOURBAR.reference)
    assert assembled
