"""Equations of motion against dense algebra in numpy, physics written by hand, and finite differences."""

from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from fgmbs import dynamics, robots
from fgmbs.algebra import kkt
from fgmbs.io.planar.load import load, parse_mechanism
from fgmbs.mechanisms.planar.mechanism import PlanarMechanism

CONFIGS = Path(__file__).parents[2] / "configs" / "mechanisms"
DOF = {
    "chain10": 10,
    "driven_crank": 0,
    "fourbar": 1,
    "fourbar_crank_angle": 1,
    "loaded": 1,
    "parallel_robot": 2,
    "pendulum": 1,
    "slider_crank": 1,
    "spring_mass_damper": 1,
}
REDUNDANT = {"parallel_robot"}
SINGULAR_MASS = {"driven_crank", "fourbar_crank_angle", "loaded", "parallel_robot", "slider_crank"}

LOADED = """
points:
  - {name: A, x: 0, y: 0, fixed: true}
  - {name: P1, x: 1, y: 0}
  - {name: P2, x: 1, y: 2}
  - {name: B, x: 4, y: 0, fixed: true}
planar_bodies:
  - {name: crank, points: [A, P1], length: 1, mass: 1, I0: 0.3, cog: [0.5, 0.1]}
  - {name: coupler, points: [P1, P2], length: 2, mass: 2, I0: 2.5, cog: [1, 0]}
  - {name: rocker, points: [P2, B], length: auto, mass: 4, I0: 16, cog: [1.5, 0]}
relative_coordinates:
  - {name: theta, type: RelativeAngleAbsoluteDOF, points: [A, P1]}
springs:
  - {points: [P1, B], stiffness: 20, free_length: 2.5}
  - {angle: theta, stiffness: 3, free_angle: 0.2}
dampers:
  - {points: [A, P2], damping: 1.5}
  - {angle: theta, damping: 0.4}
forces:
  - {point: P2, force: [3*cos(t), -1]}
  - {body: crank, torque: 2*t}
"""


class Case(NamedTuple):
    """A mechanism in motion, and everything that the equations of motion are made of, as numpy arrays."""

    mechanism: PlanarMechanism
    q: np.ndarray
    dq: np.ndarray
    t: float
    terms: dict[str, Any]
    B: np.ndarray
    answers: dict[str, Any]


@eqx.filter_jit
def _evaluate(mechanism, q, dq, t):
    """(what the equations of motion are made of, what the module answers)."""
    terms = {
        "Phi": mechanism.constraints(q, t),
        "Phi_t": mechanism.constraint_rate(q, jnp.zeros_like(dq), t),
        "Phi_q": mechanism.constraint_jacobian(q, t),
        "M": mechanism.mass_matrix(q),
        "Q": mechanism.forces(q, dq, t),
        "c": mechanism.constraint_bias(q, dq, t),
    }
    ddq, lambda_ = dynamics.acceleration(mechanism, q, dq, t)

    def total_energy(s):
        """Energy the time s later, along the motion."""
        return sum(dynamics.energy(mechanism, q + s * dq + s**2 / 2 * ddq, dq + s * ddq))

    energies = jax.lax.map(total_energy, jnp.array([-1e-4, 1e-4]))
    return terms, {
        "ddq": ddq,
        "lambda": lambda_,
        "reactions": dynamics.reactions(mechanism, q, lambda_, t),
        "energy": dynamics.energy(mechanism, q, dq),
        "power": dynamics.nonconservative_power(mechanism, q, dq, t),
        "energy_rate": (energies[1] - energies[0]) / 2e-4,
    }


@cache
def _case(name) -> Case:
    text = LOADED if name == "loaded" else None
    mechanism = PlanarMechanism.from_description(parse_mechanism(text)) if text else load(CONFIGS / f"{name}.yaml")
    mechanism = mechanism.evaluated()
    rng = np.random.default_rng(3)
    t = 0.02
    q = mechanism.reference + 0.01 * rng.standard_normal(mechanism.n)
    dq = jnp.zeros(mechanism.n)
    for _ in range(12):
        terms, _ = _evaluate(mechanism, q, dq, t)
        q = q - np.linalg.pinv(terms["Phi_q"], rcond=1e-3) @ terms["Phi"]
    terms, _ = _evaluate(mechanism, q, dq, t)
    null = _null_space(terms["Phi_q"])
    dq = null @ rng.standard_normal(null.shape[1]) - np.linalg.pinv(terms["Phi_q"], rcond=1e-6) @ terms["Phi_t"]
    terms, answers = jax.tree.map(np.asarray, _evaluate(mechanism, q, jnp.asarray(dq), t))
    assert np.max(np.abs(terms["Phi"])) < 1e-13
    return Case(mechanism, np.asarray(q), np.asarray(dq), t, terms, _selection(null), answers)


def _null_space(A):
    _, s, Vt = np.linalg.svd(A)
    return Vt[np.sum(s > 1e-6 * s[0]) :].T


def _selection(null):
    """One coordinate per degree of freedom: greedy pivots of the null space."""
    rest, B = null.copy(), np.zeros((null.shape[1], null.shape[0]))
    for row in B:
        i = np.argmax(np.sum(rest**2, axis=1))
        row[i] = 1
        rest = rest - np.outer(rest @ rest[i], rest[i]) / (rest[i] @ rest[i])
    return B


def _arguments(case):
    """M, Φ_q, Q, c."""
    return [jnp.asarray(case.terms[key]) for key in ("M", "Phi_q", "Q", "c")]


def _dependent(M, Phi_q, Q, c):
    """q̈ by [Blanco21] eq. (6), repeated as (46); needs M invertible and Φ_q of full row rank."""
    M_inverse = jnp.linalg.inv(M)
    Gamma = Phi_q @ M_inverse @ Phi_q.T
    free = M_inverse @ Q
    return free + M_inverse @ Phi_q.T @ jnp.linalg.solve(Gamma, c - Phi_q @ free)


def _independent(B, M, Phi_q, Q, c):
    """(z̈, q̈) by [Blanco21] eq. (15), repeated as (49), and q̈ = S c + R z̈; z = B q.

    Needs [Φ_q; B] of full column rank; M may be singular, rows of Φ_q may repeat each other.
    """
    SR = jnp.linalg.pinv(jnp.concatenate([Phi_q, jnp.asarray(B)]))
    S, R = SR[:, : Phi_q.shape[0]], SR[:, Phi_q.shape[0] :]
    ddz = jnp.linalg.solve(R.T @ M @ R, R.T @ (Q - M @ (S @ c)))
    return ddz, S @ c + R @ ddz


def _close(actual, expected, tol=1e-9):
    np.testing.assert_allclose(actual, expected, rtol=tol, atol=tol * max(1.0, np.max(np.abs(expected), initial=0)))


@pytest.mark.parametrize("name", DOF)
class TestMechanism:
    def test_acceleration_is_the_pseudo_inverse_of_the_kkt_matrix(self, name):
        """Rows scaled to unit length, where multipliers are forces: then the least norm means something."""
        case = _case(name)
        M, Phi_q = case.terms["M"], case.terms["Phi_q"]
        length = np.linalg.norm(Phi_q, axis=1)
        rows = Phi_q / length[:, None]
        K = np.block([[M, rows.T], [rows, np.zeros((len(rows), len(rows)))]])
        x = np.linalg.pinv(K, rcond=1e-9) @ np.concatenate([case.terms["Q"], case.terms["c"] / length])
        assert (np.linalg.matrix_rank(rows, tol=1e-6) < len(rows)) == (name in REDUNDANT)
        assert (np.linalg.matrix_rank(M) < len(M)) == (name in SINGULAR_MASS)
        _close(case.answers["ddq"], x[: len(M)])
        _close(case.answers["lambda"], x[len(M) :] / length)

    def test_both_rows_of_the_kkt_system_hold(self, name):
        case = _case(name)
        ddq, lambda_ = case.answers["ddq"], case.answers["lambda"]
        _close(case.terms["Phi_q"] @ ddq, case.terms["c"])
        _close(case.terms["M"] @ ddq + case.terms["Phi_q"].T @ lambda_, case.terms["Q"])
        _close(case.terms["M"] @ ddq, case.terms["Q"] + case.answers["reactions"])

    def test_closed_forms_agree_where_they_apply(self, name):
        """Eq. (6) for regular M and rows, eq. (15) wherever something can move."""
        case = _case(name)
        if name not in REDUNDANT | SINGULAR_MASS:
            _close(_dependent(*_arguments(case)), case.answers["ddq"])
        ddz, ddq = _independent(case.B, *_arguments(case))
        assert ddz.shape == (DOF[name],)
        _close(ddz, case.B @ case.answers["ddq"])
        _close(ddq, case.answers["ddq"])

    def test_energy_changes_by_the_power_of_drives_and_dampers(self, name):
        case = _case(name)
        kinetic, potential = case.answers["energy"]
        # Rheonomic constraints do work: dqᵀ(−Φ_qᵀ λ) = λᵀ Φ_t.
        power = case.answers["power"] + case.answers["lambda"] @ case.terms["Phi_t"]
        # Central difference over 1e-4 s: truncation 1e-8 · third derivative, rounding 1e-16 · energy / 1e-4.
        tol = 1e-6 * (1 + abs(power) + np.linalg.norm(case.dq) ** 2 * (1 + abs(kinetic) + abs(potential)))
        assert abs(case.answers["energy_rate"] - power) < tol
        assert kinetic > 0


def test_redundant_multipliers_share_the_load_in_the_norm_of_their_forces():
    case = _case("parallel_robot")
    length = np.linalg.norm(case.terms["Phi_q"], axis=1)
    idle = _null_space((case.terms["Phi_q"] / length[:, None]).T)
    assert idle.shape[1] == 1
    assert np.max(np.abs(case.answers["lambda"])) > 1
    _close(idle.T @ (case.answers["lambda"] * length), np.zeros(1), 1e-8)


def test_forces_without_potential_do_work():
    case = _case("loaded")
    (dx, dy), t = case.dq[2:4], case.t
    p2, omega = case.q[2:4], case.dq[4]
    along = p2 @ case.dq[2:4] / np.linalg.norm(p2)
    expected = 3 * np.cos(t) * dx - dy + 2 * t * omega - 1.5 * along**2 - 0.4 * omega**2
    assert case.answers["power"] == pytest.approx(expected, rel=1e-10)


def test_pendulum_moves_as_a_rigid_rod():
    case = _case("pendulum")
    (x, y), (dx, dy) = case.q, case.dq
    omega, alpha = x * dy - y * dx, -1.5 * 9.81 * x  # about the pivot: (mL²/3) α = −m g x/2, L = 1
    _close(case.answers["ddq"], [-alpha * y - omega**2 * x, alpha * x - omega**2 * y])
    _close(case.answers["energy"], [2 / 3 * omega**2 / 2, 2 * 9.81 * y / 2])
    # The rod pulls its tip towards the pivot with half of the centripetal force of the whole and what gravity leaves.
    radial = case.answers["reactions"] @ case.q
    assert radial == pytest.approx(-2 / 3 * omega**2 + 9.81 * y, rel=1e-10)


# Derivatives of the solution against those of a dense solve.


def _plain_inverse(M, Phi_q):
    n, m = M.shape[0], Phi_q.shape[0]
    inverse = jnp.linalg.inv(jnp.block([[M, Phi_q.T], [Phi_q, jnp.zeros((m, m))]]))
    return inverse[:n, :n], inverse[:n, n:], -inverse[n:, n:]


def _plain_solve(M, Phi_q, Q, c):
    P, S, W = _plain_inverse(M, Phi_q)
    return P @ Q + S @ c, S.T @ Q - W @ c


def _stacked(function, shapes, weights):
    """function of one flat vector, and one number of it."""
    splits = np.cumsum([np.prod(shape) for shape in shapes])[:-1]

    def flat(x):
        parts = [part.reshape(shape) for part, shape in zip(jnp.split(x, splits), shapes, strict=True)]
        parts[0] = (parts[0] + parts[0].T) / 2
        return jnp.concatenate([jnp.ravel(part) for part in function(*parts)])

    return flat, lambda x: weights @ flat(x)


def _derivatives(function, number):
    return jax.jit(
        lambda x, tangent: {
            "value": function(x),
            "forward": jax.jacfwd(function)(x),
            "reverse": jax.jacrev(function)(x),
            "second": jax.hessian(number)(x),
            "second_reverse": jax.jvp(jax.jacrev(number), (x,), (tangent,))[1],
            "slope": (function(x + 1e-4 * tangent) - function(x - 1e-4 * tangent)) / 2e-4,
        }
    )


@pytest.mark.parametrize(
    "custom, plain, shapes, size",
    [
        (kkt.solve_kkt, _plain_solve, [(3, 3), (2, 3), (3,), (2,)], 5),
        (kkt.kkt_inverse, _plain_inverse, [(3, 3), (2, 3)], 9 + 6 + 4),
    ],
    ids=["solve_kkt", "kkt_inverse"],
)
def test_derivatives_equal_those_of_a_dense_solve(custom, plain, shapes, size):
    rng = np.random.default_rng(0)
    weights = jnp.asarray(rng.standard_normal(size))
    M = np.diag([2.0, 1.0, 0.0])  # the last coordinate carries no mass, as an angle
    Phi_q = np.array([[1.0, -0.5, 0.8], [0.3, 2.0, -1.1]])
    x = np.concatenate([M.ravel(), Phi_q.ravel(), rng.standard_normal(sum(np.prod(s) for s in shapes[2:]))])
    tangent = rng.standard_normal(x.shape)
    ours, theirs = (
        _derivatives(*_stacked(f, shapes, weights))(jnp.asarray(x), jnp.asarray(tangent)) for f in (custom, plain)
    )
    for key in ("value", "forward", "reverse", "second", "second_reverse"):
        _close(ours[key], theirs[key])
    _close(ours["forward"] @ tangent, ours["slope"], 1e-5)  # values are rounded to 1e-11, differences over 2e-4
    _close(ours["second"] @ tangent, ours["second_reverse"])


@eqx.filter_jit
def _directional(mechanism, q, dq, tangent):
    def solution(s):
        ddq, lambda_ = dynamics.acceleration(mechanism, q + s * tangent, dq + s * tangent[::-1], 0.0)
        return ddq, mechanism.mass_matrix(q) @ ddq + dynamics.reactions(mechanism, q + s * tangent, lambda_, 0.0)

    first = partial(jax.jvp, solution, tangents=(1.0,))
    h = 1e-4
    second = jax.tree.map(lambda a, b: (a - b) / (2 * h), first((h,))[1], first((-h,))[1])
    slope = jax.tree.map(lambda a, b: (a - b) / (2 * h), solution(h), solution(-h))
    return first((0.0,))[1], slope, jax.jvp(lambda s: first((s,))[1], (0.0,), (1.0,))[1], second


def test_derivatives_of_accelerations_and_reactions_with_redundant_constraints():
    """Along the degrees of freedom, where the redundant row stays redundant."""
    case = _case("parallel_robot")
    null = _null_space(case.terms["Phi_q"])
    tangent = null @ np.array([0.6, -0.8])
    first, slope, second, second_slope = _directional(
        case.mechanism, jnp.asarray(case.q), jnp.zeros(case.q.shape), jnp.asarray(tangent)
    )
    for ours, differences in zip((*first, *second), (*slope, *second_slope), strict=True):
        _close(ours, differences, 1e-5)


# The rule of `solve_kkt` against derivatives of eqs (6) and (15), and against their closed forms.


def _closed_form(name, form):
    """(q̈ by eq. (6) or (15), its arguments) at the state of a case."""
    case = _case(name)
    return _dependent if form == "dependent" else lambda *x: _independent(case.B, *x)[1], _arguments(case)


def _solved(*arguments):
    return kkt.solve_kkt(*arguments)[0]


@partial(jax.jit, static_argnums=0)
def _forward_and_reverse(function, *arguments):
    return tuple(jacobian(function, argnums=tuple(range(4)))(*arguments) for jacobian in (jax.jacfwd, jax.jacrev))


REGULAR = [("fourbar", "dependent"), ("fourbar", "independent"), ("fourbar_crank_angle", "independent")]


@pytest.mark.parametrize("name, form", REGULAR)
def test_derivatives_of_accelerations_equal_those_of_the_closed_forms(name, form):
    """By M, Φ_q, Q and c, in every direction."""
    function, arguments = _closed_form(name, form)
    ours, theirs = (_forward_and_reverse(f, *arguments) for f in (_solved, function))
    for part in range(4):
        _close(theirs[1][part], theirs[0][part], 1e-10)
        _close(ours[0][part], theirs[0][part], 1e-10)
        _close(ours[1][part], ours[0][part], 1e-12)


def test_derivatives_of_accelerations_with_redundant_constraints_equal_those_of_the_closed_form():
    """By M, Q, and by c where the redundant row agrees; by Φ_q along the motion see above."""
    function, arguments = _closed_form("parallel_robot", "independent")
    ours, theirs = (_forward_and_reverse(f, *arguments) for f in (_solved, function))
    agree = arguments[1]  # its columns are right-hand sides on which redundant rows agree
    for part, along in ((0, None), (2, None), (3, agree)):
        for mode in range(2):
            a, b = (found[mode][part] if along is None else found[mode][part] @ along for found in (ours, theirs))
            _close(a, b, 1e-10)


@pytest.mark.parametrize("name, form", REGULAR)
def test_second_derivatives_of_accelerations_equal_those_of_the_closed_forms(name, form):
    function, arguments = _closed_form(name, form)
    x = jnp.concatenate([jnp.ravel(a) for a in arguments])
    rng = np.random.default_rng(1)
    tangent = jnp.asarray(rng.standard_normal(x.shape))
    weights = jnp.asarray(rng.standard_normal(arguments[2].shape))

    def second(function):
        stacked, number = _stacked(lambda *parts: [function(*parts)], [a.shape for a in arguments], weights)
        return jax.jit(
            lambda x: (
                jax.jvp(jax.grad(number), (x,), (tangent,))[1],
                jax.jvp(lambda x: jax.jvp(stacked, (x,), (tangent,))[1], (x,), (tangent,))[1],
            )
        )(x)

    for ours, theirs in zip(second(_solved), second(function), strict=True):
        _close(ours, theirs, 1e-10)


def test_derivative_by_forces_is_equation_47_or_50_carried_to_all_coordinates():
    """Eqs (47) and (50) in numpy; eq. (48) with R times (50) in the place of its zeros."""
    for name in ("fourbar", "fourbar_crank_angle", "parallel_robot"):
        case = _case(name)
        M, Phi_q, B = case.terms["M"], case.terms["Phi_q"], case.B
        R = np.linalg.pinv(np.vstack([Phi_q, B]))[:, len(Phi_q) :]
        by_forces = np.linalg.solve(R.T @ M @ R, R.T)
        found = _forward_and_reverse(_solved, *_arguments(case))[0][2]
        _close(B @ found, by_forces, 1e-11)
        _close(found, R @ by_forces, 1e-11)
        assert not np.allclose(found, B.T @ by_forces, atol=1e-3)  # eq. (48) as printed
        if name == "fourbar":
            M_inverse = np.linalg.inv(M)
            Gamma = Phi_q @ M_inverse @ Phi_q.T
            expected = M_inverse - M_inverse @ Phi_q.T @ np.linalg.inv(Gamma) @ Phi_q @ M_inverse
            _close(found, expected, 1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fourbar", "fourbar_crank_angle"])
def test_accelerations_are_differentiable_by_the_state_and_applied_forces(name):
    case = _case(name)

    @jax.jit
    def accelerate(q, dq, applied):
        return dynamics.acceleration(case.mechanism, q, dq, 0.0, applied)[0]

    applied = np.random.default_rng(2).standard_normal(case.mechanism.n)
    arguments = tuple(map(jnp.asarray, (case.q, case.dq, applied)))
    check_grads(accelerate, arguments, order=2, modes=("fwd", "rev"), eps=1e-4, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["fourbar", "fourbar_crank_angle", "parallel_robot"])
def test_applied_forces_add_to_those_of_the_mechanism(name):
    case = _case(name)
    applied = np.random.default_rng(4).standard_normal(case.mechanism.n)

    @jax.jit
    def accelerate(q, dq, applied):
        return dynamics.acceleration(case.mechanism, q, dq, case.t, applied)

    ddq, lambda_ = accelerate(*map(jnp.asarray, (case.q, case.dq, applied)))
    M, Phi_q, Q, c = _arguments(case)
    _close(M @ ddq + Phi_q.T @ lambda_, Q + applied)
    _close(Phi_q @ ddq, c)
    _close(_independent(case.B, M, Phi_q, Q + applied, c)[1], ddq)


def test_the_power_of_dampers_is_the_loss_of_energy_where_the_mass_matrix_depends_on_the_pose():
    """As of a robot, whose forces have Coriolis forces without power among them."""
    arm = robots.robot(
        robots.link("upper", 2.0, (0, 0, 0.2), (0.03, 0.03, 0.002)),
        robots.link("fore", 1.0, (0, 0, 0.15), (0.01, 0.01, 0.001)),
        robots.revolute("shoulder", "world", "upper", axis=(0, 1, 0)),
        robots.revolute("elbow", "upper", "fore", axis=(0, 1, 0), xyz=(0, 0, 0.4), damping=0.1),
    )
    q, dq = jnp.array([0.3, 0.5]), jnp.array([1.0, -2.0])
    np.testing.assert_allclose(dynamics.nonconservative_power(arm, q, dq, 0.0), -0.1 * dq[1] ** 2, rtol=1e-12)
