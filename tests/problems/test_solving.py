"""prepare, solve, finish: the same answers and the same words as the public calls, as a pure function of a pytree."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fgmbs
from fgmbs.io.planar.load import load
from fgmbs.status import Status

T = np.arange(21) * 5e-3
FAR = 3.4
"""A crank angle far from the drawing [rad]."""


def torque(t):
    return 30 * jnp.cos(2 * t)


def turned(t):
    return FAR + 0.5 * t + t**2


def started(mechanism, prepare):
    how = dict(start={"theta": FAR}, start_velocities={"theta": 1.0})
    return (fgmbs.prepare_simulate if prepare else fgmbs.simulate)(mechanism, T[-1], T[1], **how)


def softly(mechanism, prepare):
    how = dict(start={"theta": 0.3}, coordinates="dependent", integrator="trapezoidal")
    return (fgmbs.prepare_simulate if prepare else fgmbs.simulate)(mechanism, T[-1], T[1], **how)


def driven(mechanism, prepare):
    return (fgmbs.prepare_inverse_dynamics if prepare else fgmbs.inverse_dynamics)(mechanism, T, {"theta": turned})


def weighted(mechanism, prepare):
    how = dict(tracking="weighted", sigma={"theta": 1e-3}, effort={"motor": 50.0})
    desired = {"theta": FAR + 0.5 * T + T**2}
    return (fgmbs.prepare_inverse_dynamics if prepare else fgmbs.inverse_dynamics)(mechanism, T, desired, **how)


def commanded(mechanism, prepare):
    how = dict(forces={"motor": torque}, start={"theta": FAR})
    return (fgmbs.prepare_hybrid_dynamics if prepare else fgmbs.hybrid_dynamics)(mechanism, T, **how)


def followed(mechanism, prepare):
    return (fgmbs.prepare_hybrid_dynamics if prepare else fgmbs.hybrid_dynamics)(mechanism, T, {"theta": turned})


@pytest.fixture(scope="module")
def crank(configs):
    return load(configs / "mechanisms" / "fourbar_crank_angle.yaml")


def numbers(result):
    kept = ("q", "dq", "ddq", "forces", "multipliers", "reactions", "kinetic", "power")
    return {name: np.asarray(getattr(result, name)) for name in kept if hasattr(result, name)}


SLOW = [pytest.param(question, marks=pytest.mark.slow) for question in (weighted, commanded)]


@pytest.mark.slow
@pytest.mark.parametrize("question", [started, softly, driven, followed, *SLOW])
def test_equals_the_public_call_and_a_batch_its_members(crank, question):
    public, problem = question(crank, False), question(crank, True)
    assert all(isinstance(leaf, jax.Array | np.ndarray) for leaf in jax.tree.leaves(problem))
    alone = jax.jit(fgmbs.solve)(problem)
    # Equations that are tight, not exact, multiply rounding.
    within = 1e-7 if question in (softly, weighted) else 1e-11
    for name, value in numbers(public).items():
        np.testing.assert_allclose(numbers(alone)[name], value, atol=within * (1 + np.abs(value).max()), err_msg=name)
    finished = fgmbs.finish(problem, alone)
    assert type(finished) is type(public)
    assert bool(finished.status == Status.converged)

    def heavier(mass):
        changed = crank.with_parameters({"coupler.mass": mass})
        where = (lambda p: p.exact.mechanism) if question is weighted else (lambda p: p.mechanism)
        return eqx.tree_at(where, problem, changed)

    masses = np.array([2.0, 3.0])
    batch = jax.jit(jax.vmap(lambda mass: fgmbs.solve(heavier(mass))))(masses)
    fgmbs.finish(problem, batch)
    for k, mass in enumerate(masses):
        one = question(crank.with_parameters({"coupler.mass": mass}), False)
        for name, value in numbers(one).items():
            np.testing.assert_allclose(numbers(batch)[name][k], value, atol=within * (1 + np.abs(value).max()))
    assert np.abs(numbers(batch)["multipliers"][0] - numbers(batch)["multipliers"][1]).max() > 0.1


@pytest.mark.slow
def test_derivative_by_a_given_start_equals_differences(crank):
    problem = started(crank, True)
    place = crank.coordinate_names.index("theta")

    @jax.jit
    def final(theta):
        values = problem.start.values.at[place].set(theta)
        return fgmbs.solve(eqx.tree_at(lambda p: p.start, problem, problem.start._replace(values=values))).q[-1]

    h = 1e-3
    moved = [np.asarray(final(FAR + k * h)) for k in (-2, -1, 1, 2)]
    expected = (8 * (moved[2] - moved[1]) - (moved[3] - moved[0])) / (12 * h)
    np.testing.assert_allclose(jax.jacfwd(final)(FAR), expected, atol=1e-8 * np.abs(expected).max())


class Cosine(eqx.Module):
    """A command with a number of its own."""

    height: jax.Array

    def __call__(self, t):
        return self.height * jnp.cos(2 * t)


@pytest.mark.slow
def test_numbers_of_a_command_are_numbers_of_the_problem(crank):
    how = dict(start={"theta": FAR})
    problem = fgmbs.prepare_hybrid_dynamics(crank, T, forces={"motor": Cosine(jnp.asarray(30.0))}, **how)

    @jax.jit
    def final(height):
        return fgmbs.solve(eqx.tree_at(lambda p: p.outside.commands[0].height, problem, height)).q[-1]

    plain = fgmbs.prepare_hybrid_dynamics(crank, T, forces={"motor": torque}, **how)
    np.testing.assert_allclose(final(30.0), jax.jit(fgmbs.solve)(plain).q[-1], atol=1e-12)
    assert np.abs(final(60.0) - final(30.0)).max() > 1e-6


@pytest.mark.slow
def test_another_mechanism_in_the_problem_brings_its_own_velocities(configs):
    mass = load(configs / "mechanisms" / "spring_mass_damper.yaml")
    problem = fgmbs.prepare_simulate(mass, 0.1, 0.01)
    name = next(iter(mass.parameters))
    changed = mass.with_parameters({name: 1.5 * float(mass.parameters[name])})
    swapped = fgmbs.solve(eqx.tree_at(lambda p: p.mechanism, problem, changed))
    np.testing.assert_array_equal(swapped.dq[0], fgmbs.simulate(changed, 0.1, 0.01).dq[0])


@pytest.mark.slow
def test_the_same_words_where_it_cannot_be(crank, configs):
    """`solve` raises nothing; `finish` says what the public call does, and without throw the status tells."""
    slow = dict(start_velocities={"theta": 1.0, "y_P1": 2.0})
    words = {}
    for name, prepare, call, arguments, error, status in (
        (
            *("assembled", fgmbs.prepare_simulate, fgmbs.simulate),
            *((crank, 0.1, 5e-3, dict(start={"x_P1": 5.0})), fgmbs.AssemblyError, Status.not_assembled),
        ),
        (
            *("velocities", fgmbs.prepare_simulate, fgmbs.simulate),
            *((crank, 0.1, 5e-3, slow), fgmbs.ArgumentError, Status.contradictory),
        ),
        (
            *("reach", fgmbs.prepare_inverse_dynamics, fgmbs.inverse_dynamics),
            *((crank, T, {"point:P1": np.c_[2 + 0 * T, 0 * T]}, {}), fgmbs.AssemblyError, Status.out_of_reach),
        ),
        (
            *("start", fgmbs.prepare_hybrid_dynamics, fgmbs.hybrid_dynamics),
            *((crank, T, None, dict(forces={"motor": torque}, start={"x_P1": 5.0})),),
            *(fgmbs.AssemblyError, Status.not_assembled),
        ),
    ):
        *given, options = arguments
        problem = prepare(*given, **options)
        solution = fgmbs.solve(problem)
        assert bool(solution.status == status), name
        with pytest.raises(error) as said:
            fgmbs.finish(problem, solution)
        with pytest.raises(error) as by_call:
            call(*given, **options)
        assert str(said.value) == str(by_call.value)
        words[name] = str(said.value)
        assert bool(fgmbs.finish(problem, solution, throw=False).status == status)
        assert bool(call(*given, **options, throw=False).status == status)
    assert "cannot be assembled at t = 0 s with x_P1 = 5" in words["assembled"]
    assert "cannot all hold in this configuration" in words["velocities"]
    assert "out of reach at its first sample, t = 0 s, by 1" in words["reach"]


def test_what_is_no_problem():
    for function, arguments in ((fgmbs.solve, (3,)), (fgmbs.finish, (3, None))):
        with pytest.raises(fgmbs.ArgumentError, match=r"problem: expected one made by prepare_simulate, .*; found 3"):
            function(*arguments)
