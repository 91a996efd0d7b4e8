import jax
import numpy as np
import pytest

SIZES = [(1, 0), (2, 3), (17, 3)]


@pytest.mark.slow
@pytest.mark.parametrize(("num_steps", "p"), SIZES)
def test_least_squares_is_its_dense_rows(systems, num_steps, p):
    system = systems.random(num_steps, p)
    J, r = systems.dense(system)
    assert (system.num_steps, system.step_size, system.num_globals) == (num_steps, systems.nx, p)
    np.testing.assert_allclose(system.cost(), 0.5 * r @ r, rtol=1e-14)
    np.testing.assert_allclose(systems.flat(system.gradient()), J.T @ r, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(system.information().to_dense(), J.T @ J, rtol=1e-12, atol=1e-12)
    x = np.random.default_rng(1).standard_normal(J.shape[1])
    moved = system.moved(*systems.split(x, num_steps))
    np.testing.assert_allclose(systems.dense(moved)[1], J @ x + r, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("num_steps", "p"), SIZES)
def test_block_tridiagonal_multiplies_and_damps_like_its_dense_matrix(systems, num_steps, p):
    matrix = systems.random(num_steps, p).information()
    damping = systems.damping(num_steps, p)
    A = np.asarray(matrix.to_dense()) + np.diag(systems.flat(damping))
    damped = matrix.add_diagonal(*damping)
    x = np.random.default_rng(1).standard_normal(len(A))
    np.testing.assert_allclose(damped.to_dense(), A, rtol=1e-14)
    np.testing.assert_allclose(systems.flat(damped.matvec(*systems.split(x, num_steps))), A @ x, rtol=1e-12, atol=1e-12)


def test_dtype_follows_the_input(systems):
    system = jax.tree.map(lambda x: x.astype("float32"), systems.random(3, 2))
    assert {leaf.dtype.name for leaf in jax.tree.leaves((system.cost(), system.gradient(), system.information()))} == {
        "float32"
    }
