from fractions import Fraction

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fgmbs.linear import METHODS, marginalize_first, unfollowed

MINIMIZERS = {
    name: jax.jit(lambda system, *damping, factorize=factorize: factorize(system, *damping).minimizer())
    for name, factorize in METHODS.items()
}


def marginalize(system):
    still = jnp.zeros((system.num_steps, system.step_size)), jnp.zeros(system.num_globals)
    return marginalize_first(METHODS["sqrt"](system, *still))


def exact_minimizer(J, r):
    """argmin ‖J x + r‖, in rational arithmetic: Gauss–Jordan elimination of the normal equations."""
    rows = [[Fraction(x) for x in [*row, residual]] for row, residual in zip(J.tolist(), r.tolist(), strict=True)]
    n = J.shape[1]
    A = [[sum(row[i] * row[j] for row in rows if row[i]) for j in range(n + 1)] for i in range(n)]
    for i in range(n):
        A[i] = [x / A[i][i] for x in A[i]]
        for k in range(n):
            if k != i and A[k][i]:
                A[k] = [x - A[k][i] * y for x, y in zip(A[k], A[i], strict=True)]
    return [-row[n] for row in A]


@pytest.mark.parametrize(("prior", "coupling"), [(1e-6, 1.0), (1.0, 1e6), (1e-6, 1e6)])
def test_weights_far_apart_cost_no_digits(systems, prior, coupling):
    """Soft priors beside tight constraints: condition 1e8, 1e8, 1e14 of J; its square is beyond Cholesky."""
    system = systems.random(3, 0, rows=(4, 2, 2, 0), prior=prior, coupling=coupling)
    zero = jnp.zeros((3, systems.nx)), jnp.zeros(0)
    exact = np.array(exact_minimizer(*systems.dense(system)), float)

    def error(method):
        return np.linalg.norm(systems.flat(MINIMIZERS[method](system, *zero)) - exact) / np.linalg.norm(exact)

    assert error("sqrt") < 1e-10
    assert not error("sequential") < 1e-6


def dense_prior(systems, system):
    """Schur complement of step 0 of its rows and those of the globals in the normal equations: (SᵀS, Sᵀs, sᵀs + ρ²)."""
    J, r = systems.dense(system)
    nx, p = systems.nx, system.num_globals
    ri, rs, rp = len(system.initial_residual), system.step_residual.shape[1], system.pair_residual.shape[1]
    T = system.num_steps
    alone = len(system.global_residual)
    touching = [*range(ri + rs), *range(ri + T * rs, ri + T * rs + rp), *range(len(r) - alone, len(r))]
    columns = [*range(2 * nx), *range(T * nx, T * nx + p)]
    J, r = J[np.ix_(touching, columns)], r[touching]
    A, b = J[:, :nx], J[:, nx:]
    residual = np.column_stack([b, r]) - A @ np.linalg.lstsq(A, np.column_stack([b, r]), rcond=None)[0]
    gram = residual.T @ residual
    return gram[:-1, :-1], gram[:-1, -1], gram[-1, -1]


@pytest.mark.parametrize(
    ("p", "rows"), [(0, (4, 3, 5, 0)), (3, (9, 3, 5, 2)), (3, (4, 3, 2, 2)), (0, (4, 0, 1, 0)), (2, (4, 0, 0, 0))]
)
def test_marginal_of_the_first_step_is_the_schur_complement(systems, p, rows):
    """Also with information of deficient rank, and with fewer rows than unknowns."""
    system = systems.random(3, p, rows=rows)
    S, s, rho = jax.jit(marginalize)(system)
    information, gradient, cost = dense_prior(systems, system)
    assert S.shape == (systems.nx + p, systems.nx + p)
    np.testing.assert_allclose(S.T @ S, information, rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(S.T @ s, gradient, rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(s @ s + rho**2, cost, rtol=1e-10, atol=1e-11)


def test_marginalizing_step_by_step_keeps_the_estimate_of_the_last(systems):
    system = systems.random(4, 2)
    zero = jnp.zeros((4, systems.nx)), jnp.zeros(2)
    steps, globals_ = MINIMIZERS["sqrt"](system, *zero)
    while system.num_steps > 1:
        S, s, _ = jax.jit(marginalize)(system)
        fields = {name: value[1:] for name, value in vars(system).items() if name.startswith(("step", "pair"))}
        fields |= dict(initial_residual=s, initial_jacobian=S[:, : systems.nx], initial_arrow=S[:, systems.nx :])
        fields |= dict(global_residual=jnp.zeros(0), global_jacobian=jnp.zeros((0, 2)))
        system = type(system)(**(vars(system) | fields))
    last, last_globals = MINIMIZERS["sqrt"](system, zero[0][:1], zero[1])
    np.testing.assert_allclose(last[0], steps[-1], rtol=1e-10)
    np.testing.assert_allclose(last_globals, globals_, rtol=1e-10)


@pytest.mark.parametrize(("p", "rows"), [(3, (9, 3, 5, 0)), (0, (4, 3, 2, 0))])
def test_prior_has_first_derivatives(systems, p, rows):
    """Of its information and its gradient, against central differences; of full rank and of rank 2 in 4."""
    system = systems.random(3, p, rows=rows)
    # A change that keeps the null space of the information: the pair rows depend on the next step as before.
    towards = systems.random(3, p, seed=1, rows=rows)
    if p == 0:
        towards = type(towards)(**(vars(towards) | dict(pair_end=jnp.zeros_like(towards.pair_end))))

    def normal(e):
        S, s, rho = marginalize(jax.tree.map(lambda x, t_x: x + e * t_x, system, towards))
        return jnp.column_stack([S.T @ S, S.T @ s, jnp.full(s.shape, s @ s + rho**2)])

    h = 1e-5
    difference = (jax.jit(normal)(h) - jax.jit(normal)(-h)) / (2 * h)
    np.testing.assert_allclose(jax.jit(jax.jacfwd(normal))(0.0), difference, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(jax.jit(jax.jacrev(normal))(0.0), difference, rtol=1e-6, atol=1e-8)


@pytest.mark.slow
def test_second_derivative_of_a_prior_is_refused(systems):
    def cost(e):
        S, s, rho = marginalize(jax.tree.map(lambda x: e * x, systems.random(2, 0)))
        return jnp.sum(S) + jnp.sum(s) + rho

    with pytest.raises(NotImplementedError, match="first derivatives only"):
        jax.hessian(cost)(1.0)


@pytest.mark.parametrize(
    ("num_steps", "p", "rows"), [(6, 2, (5, 3, 2, 4)), (6, 0, (5, 3, 2, 0)), (1, 3, (9, 3, 0, 2)), (4, 2, (2, 9, 1, 0))]
)
def test_what_steps_and_other_globals_cannot_follow_is_that_of_dense_rows(systems, num_steps, p, rows):
    count = 30
    system = systems.random(num_steps, p + count, rows=rows)
    J, r = systems.dense(system)
    left = J[:, -count:] - J[:, :-count] @ np.linalg.lstsq(J[:, :-count], J[:, -count:], rcond=None)[0]
    squares, products = jax.jit(unfollowed, static_argnums=1)(system, count)
    # Some are followed in full, where there are hardly more rows than steps and globals.
    np.testing.assert_allclose(squares, np.sum(left**2, axis=0), rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(products, left.T @ r, rtol=1e-11, atol=1e-11)


def test_tight_rows_do_not_hide_what_is_left_of_soft_ones(systems):
    """Rows between steps 1e9 times as heavy: the normal equations would leave nothing but rounding."""
    system = systems.random(6, 8, rows=(5, 3, 4, 4), coupling=1e9)
    system = eqx.tree_at(lambda s: s.pair_arrow, system, system.pair_arrow.at[:, :, -5:].multiply(1e-9))
    J, r = systems.dense(system)
    squares, products = jax.jit(unfollowed, static_argnums=1)(system, 5)
    for k, (square, product) in enumerate(zip(squares, products, strict=True)):
        column = J[:, J.shape[1] - 5 + k]
        x = exact_minimizer(J[:, :-5], column)
        rows = zip(J[:, :-5].tolist(), column.tolist(), strict=True)
        left = [Fraction(b) + sum(Fraction(a) * y for a, y in zip(row, x, strict=True) if a) for row, b in rows]
        assert square == pytest.approx(float(sum(e**2 for e in left)), rel=1e-9)
        assert product == pytest.approx(
            float(sum(e * Fraction(b) for e, b in zip(left, r.tolist(), strict=True))), rel=1e-7
        )
