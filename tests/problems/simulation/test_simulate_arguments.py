"""What `simulate` refuses and in which words, what it keeps when it ends early, and that it compiles once."""

import inspect
import re

import jax
import numpy as np
import pytest
from counting import compilations

import fgmbs
from fgmbs.errors import ArgumentError, AssemblyError, Interrupted, SolveError
from fgmbs.io.planar.load import parse_mechanism
from fgmbs.mechanisms.planar.mechanism import PlanarMechanism
from fgmbs.problems.simulation.simulate import simulate
from fgmbs.status import Status

TRIANGLE = """
points:
  - {name: A, x: 0.0, y: 0.0, fixed: true}
  - {name: top, x: 1.0, y: 1.0}
  - {name: B, x: 2.0, y: 0.0, fixed: true}
planar_bodies:
  - {name: left, points: [A, top], length: LENGTH, mass: 1.0, I0: mass*length^2/3, cog: [length/2, 0.0]}
  - {name: right, points: [top, B], length: auto, mass: 1.0, I0: mass*length^2/3, cog: [length/2, 0.0]}
"""

DOUBLE_ROD = """
points:
  - {name: pivot, x: 0.0, y: 0.0, fixed: true}
  - {name: tip, x: 1.0, y: 0.0}
planar_bodies:
  - {name: rod, points: [pivot, tip], length: 1.0, mass: 1.0, I0: mass*length^2/3, cog: [length/2, 0.0]}
constraints:
  - {name: strut, type: distance, points: [pivot, tip], length: 1.5}
  - {name: tie, type: distance, points: [pivot, tip], length: 1.2}
"""


def mechanism_of(text):
    return PlanarMechanism.from_description(parse_mechanism(text))


@pytest.mark.parametrize(
    "arguments, text",
    [
        ({"dt": 0.0}, "dt: expected a positive time step in seconds; found 0"),
        ({"dt": -1e-3}, "dt: expected a positive time step in seconds; found -0.001"),
        ({"dt": np.nan}, "dt: expected a finite number; found nan"),
        ({"duration": np.inf}, "duration: expected a finite number; found inf"),
        ({"duration": 5e-4}, "duration: expected at least one time step, dt = 0.001 s; found 0.0005 s"),
        ({"duration": -1.0}, "duration: expected at least one time step, dt = 0.001 s; found -1 s"),
        ({"duration": 0.1003}, "duration: expected a multiple of dt = 0.001 s; found 0.1003 s; 0.1 s would do"),
        ({"window": 1, "coordinates": "dependent"}, "window: expected an integer of at least 2 time steps; found 1"),
        (
            {"window": True, "coordinates": "dependent"},
            "window: expected an integer of at least 2 time steps; found True",
        ),
        ({"window": -3, "coordinates": "dependent"}, "window: expected an integer of at least 2 time steps; found -3"),
        ({"window": 3}, "window: only with soft constraints, coordinates='dependent' or 'independent'; found 3 with"),
        ({"covariance": True}, "covariance: only with soft constraints"),
        ({"start": {"x_P3": 0.5}}, "start: there is no coordinate 'x_P3'; did you mean 'x_P2'?"),
        ({"start": {"x_P1": np.nan}}, "start['x_P1']: expected a finite number; found nan"),
        (
            {"start_velocities": {"zz": 1.0}},
            "start_velocities: there is no coordinate 'zz'; known coordinates: x_P1, y_P1, x_P2, y_P2",
        ),
        (
            {"coordinates": "independent", "independent": ("yP1",)},
            "independent: there is no coordinate 'yP1'; did you mean 'y_P1'",
        ),
        (
            {"coordinates": "independent", "independent": ("x_P1", "y_P1")},
            "independent: expected 1 different coordinates, the degrees of freedom; found 'x_P1' and 'y_P1'",
        ),
        (
            {"independent": ("y_P1",)},
            "independent: only with coordinates='independent'; found coordinates='chart'",
        ),
    ],
)
def test_arguments_that_cannot_be_meant(fourbar, arguments, text):
    arguments = {"duration": 0.1, "dt": 1e-3} | arguments
    with pytest.raises(ArgumentError, match=re.escape(text)):
        simulate(fourbar, **arguments)


@pytest.mark.parametrize(
    "name, value, text",
    [
        ("dt", "fast", "dt: expected a finite number; found 'fast'"),
        ("coordinates", "relative", "coordinates: expected 'chart', 'dependent' or 'independent'; found 'relative'"),
        ("integrator", "rk4", "integrator: expected 'euler', 'trapezoidal' or 'hermite_simpson'; found 'rk4'"),
        ("linear", "qr", "linear: expected 'sequential', 'sqrt' or 'dense'; found 'qr'"),
    ],
)
def test_values_of_the_wrong_type(fourbar, name, value, text):
    """Below the check of types, which the tests put in front of every function."""
    arguments = {
        "duration": 0.1,
        "dt": 1e-3,
        "coordinates": "dependent",
        "integrator": "trapezoidal",
    }
    with pytest.raises(ArgumentError, match=re.escape(text)):
        inspect.unwrap(fgmbs.prepare_simulate)(fourbar, **arguments | {name: value})


def test_mechanism_that_cannot_move():
    truss = mechanism_of(TRIANGLE.replace("LENGTH", "auto"))
    text = r"no degree of freedom: 2 coordinates, 2 constraint rows; remove a constraint, free a point, or prescribe"
    with pytest.raises(AssemblyError, match=text):
        simulate(truss, 0.1, 1e-3)
    with pytest.raises(AssemblyError, match="no degree of freedom, so that no coordinate is independent; .*chart"):
        simulate(truss, 0.1, 1e-3, coordinates="independent")


def test_mechanism_that_cannot_be_assembled(loop):
    text = r"cannot be assembled at t = 0 s: .* leaves open .*'coupler'\" by \d.*Check the lengths of the bodies"
    with pytest.raises(AssemblyError, match=text):
        simulate(loop.with_parameters({"L_coupler": 10.0}), 0.1, 1e-3)


def test_start_out_of_reach(fourbar):
    with pytest.raises(AssemblyError, match=r"with x_P1 = 2: .* Without given values it can, with x_P1 = 1"):
        simulate(fourbar, 0.1, 1e-3, start={"x_P1": 2.0})


def test_constraints_that_contradict_each_other():
    with pytest.raises(AssemblyError, match="over-constrained and inconsistent .*'strut'.* by .*'rod'.* by"):
        simulate(mechanism_of(DOUBLE_ROD), 0.1, 1e-3)


def test_velocities_that_contradict_the_constraints(fourbar):
    with pytest.raises(ArgumentError, match=r"x_P1 = 1 .*contradict .*body 'crank'"):
        simulate(fourbar, 0.1, 1e-3, start_velocities={"x_P1": 1.0})


def test_interrupt_keeps_the_steps_done(fourbar, fall):
    """The same run as `fall`, stopped when it tells for the second time how far it is."""
    told = []

    def stop(done, total):
        told.append((done, total))
        if len(told) == 2:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted, match=r"interrupted after \d+ of 5001 steps") as caught:
        simulate(fourbar, 5.0, 1e-3, progress=stop)
    assert isinstance(caught.value, KeyboardInterrupt)
    result = caught.value.result
    done, total = told[-1]
    assert (len(told), total) == (2, 5001)
    assert f"after {done} of" in str(caught.value)
    assert result.t.shape == (done,) and result.q.shape == (done, 4)
    np.testing.assert_allclose(result.q, fall.q[:done], rtol=1e-15)


def test_failed_solve_carries_its_result(fourbar, short_run):
    """Half a second is beyond the period of the crank: the window cannot be closed."""
    with pytest.raises(SolveError, match=r"step \d+, t = [\d.]+ s: .*\(\d+ of 161 steps\); try a smaller dt") as caught:
        short_run(fourbar, 0.5)
    result = caught.value.result
    assert result.q.shape == (161, 4)
    assert not bool(result.status == Status.converged)
    assert str(caught.value) == error_of(short_run(fourbar, 0.5, throw=False))


def error_of(result):
    with pytest.raises(SolveError) as caught:
        result.check()
    return str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("coordinates", ["chart", "dependent", "independent"])
def test_new_numbers_compile_nothing(fourbar, short_run, coordinates):
    """New masses, lengths, gravity and another dt, start and start velocities."""
    start = {"start": {"x_P1": 0.9}, "start_velocities": {"y_P1": 0.1}}
    short_run(fourbar, coordinates=coordinates)
    short_run(fourbar, coordinates=coordinates, **start)
    changed = fourbar.with_parameters({"crank.mass": 1.3, "L_coupler": 2.1, "gravity.y": -9.0})
    start = {"start": {"x_P1": 0.8}, "start_velocities": {"y_P1": -0.3}}
    assert compilations(lambda: short_run(changed, 1e-3, coordinates=coordinates)) == 0
    assert compilations(lambda: short_run(changed, 1e-3, coordinates=coordinates, **start)) == 0


def test_counter_of_compilations_counts(fourbar):
    assert compilations(lambda: jax.jit(lambda x: x + 1.2345)(np.ones(7))) >= 1
