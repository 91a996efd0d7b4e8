"""What inverse dynamics refuses, and how it says so."""

import numpy as np
import pytest

import fgmbs
from fgmbs.io.planar.load import load, parse_mechanism
from fgmbs.mechanisms.planar.mechanism import PlanarMechanism

T = np.arange(200) * 5e-3
SWING = (1.2 * (1 - np.cos(2 * T)), 2.4 * np.sin(2 * T), 4.8 * np.cos(2 * T))


@pytest.fixture(scope="module")
def crank(configs):
    return load(configs / "mechanisms" / "fourbar_crank_angle.yaml")


def message(call):
    with pytest.raises(fgmbs.ArgumentError) as caught:
        call()
    return str(caught.value)


class TestBadInput:
    @pytest.mark.parametrize(
        "desired, expected",
        [
            ({"thet": SWING[0]}, "desired: there is no coordinate 'thet'"),
            ({"point:P9": np.zeros((200, 2))}, "desired: there is no point 'P9'"),
            ({"point:A": np.zeros((200, 2))}, "desired: the point 'A' is fixed to the ground"),
            ({}, "desired: expected a mapping"),
            (
                {"theta": SWING[0][:5]},
                "desired['theta']: expected an array of shape (200,), one row per time; found (5,)",
            ),
            ({"theta": np.where(T == T[3], np.nan, 0.0)}, "found nan at t[3] = 0.015 s"),
            ({"theta": (SWING[0], SWING[1])}, "expected (values, velocities, accelerations); found a tuple of 2"),
            ({"point:P1": np.zeros((200, 2)), "x_P1": T}, "the coordinate 'x_P1' is given twice"),
        ],
        ids=lambda x: None if isinstance(x, dict) else x[:30],
    )
    def test_desired(self, crank, desired, expected):
        assert expected in message(lambda: fgmbs.inverse_dynamics(crank, T, desired))

    @pytest.mark.parametrize(
        "t, expected",
        [
            (T[::-1], "expected times that increase; found t[0] = 0.995 and t[1] = 0.99 s"),
            (T[:2], "expected at least three times in a row"),
            (np.where(T == T[7], np.inf, T), "expected finite times; found t[7] = inf"),
            (
                np.where(T == T[7], T + 1e-3, T),
                "expected uniform times, because desired has samples without derivatives",
            ),
            (
                1.7e9 + np.where(T > T[7], T + 0.3, T),
                "expected uniform times, because desired has samples without derivatives",
            ),
        ],
        ids=["falling", "short", "infinite", "uneven", "a gap by the clock"],
    )
    def test_times(self, crank, t, expected):
        assert expected in message(lambda: fgmbs.inverse_dynamics(crank, t, {"theta": np.zeros(len(t))}))

    @pytest.mark.parametrize(
        "options, expected",
        [
            ({"actuators": ["moter"]}, "actuators: there is no actuator or coordinate 'moter'; did you mean"),
            ({"actuators": "motor"}, "actuators: expected a list of names; found 'motor'"),
            ({"actuators": []}, "actuators: expected a list of names; found []"),
            ({"actuators": ["motor", "motor"]}, "actuators: expected different names"),
            ({"effort": {"motor": 0.0}}, "effort['motor']: expected a positive number; found 0.0"),
            ({"effort": {"theta": 1.0}}, "effort: expected names of the actuators, 'motor'; found 'theta'"),
            ({"smoothness": {"motor": 1.0}}, "smoothness: only with tracking='weighted'"),
            ({"tracking": "weighted"}, "effort: expected one for each of 'motor'; found none for 'motor'"),
            ({"sigma": {"theta": -1.0}}, "sigma['theta']: expected one, finite and ≥ 0; found -1.0"),
            ({"sigma": {"phi": 1.0}}, "sigma: expected names in desired, 'theta'; found 'phi'"),
            ({"start": {"phi": 1.0}}, "start: there is no coordinate 'phi'"),
        ],
        ids=lambda x: None if isinstance(x, dict) else x[:30],
    )
    def test_options(self, crank, options, expected):
        assert expected in message(lambda: fgmbs.inverse_dynamics(crank, T, {"theta": SWING[0]}, **options))

    def test_no_actuators_at_all(self, fourbar):
        text = message(lambda: fgmbs.inverse_dynamics(fourbar, T, {"x_P1": 1 - 0 * T}))
        assert "actuators: the mechanism has none; name them, or coordinates that a force acts on: 'x_P1', " in text

    @pytest.mark.slow
    def test_freedom_left(self, configs):
        robot = load(configs / "mechanisms" / "five_bar.yaml")
        text = message(lambda: fgmbs.inverse_dynamics(robot, T, {"theta_l": 0 * T}))
        assert "'theta_l' leave 1 degree of freedom to the mechanism" in text

    def test_dead_point_at_the_start(self, crank):
        text = message(lambda: fgmbs.inverse_dynamics(crank, T, {"x_P1": np.cos(SWING[0])}))
        assert "the pose as drawn is singular for 'x_P1' (a dead point)" in text

    @pytest.mark.slow
    def test_idle_actuator(self):
        lift = """
        points:
          - {name: A, x: 0, y: 0, fixed: true}
          - {name: P, x: 1, y: 0}
          - {name: B, x: 5, y: 0, fixed: true}
          - {name: C, x: 6, y: 0}
        planar_bodies:
          - {name: rod, points: [A, P], mass: 1, I0: mass*length^2/3, cog: [length/2, 0]}
          - {name: other, points: [B, C], mass: 1, I0: mass*length^2/3, cog: [length/2, 0]}
        relative_coordinates:
          - {name: theta, type: RelativeAngleAbsoluteDOF, points: [A, P]}
          - {name: phi, type: RelativeAngleAbsoluteDOF, points: [B, C]}
        constraints:
          - {type: motion, coordinate: phi, value: 0.1*t}
        """
        mechanism = PlanarMechanism.from_description(parse_mechanism(lift))
        text = message(lambda: fgmbs.inverse_dynamics(mechanism, T, {"theta": 0.1 * T}, ["theta", "phi"]))
        assert "actuators: 'phi' cannot influence the desired motion" in text

    @pytest.mark.slow
    def test_out_of_reach_at_a_later_sample(self, configs):
        arm = load(configs / "mechanisms" / "five_bar.yaml")
        i = arm.coordinate_names.index("x_E")
        x0, y0 = np.asarray(arm.reference[i : i + 2])
        path = np.c_[np.full(200, x0), y0 + T]
        with pytest.raises(fgmbs.SolveError, match="leaves what the mechanism can reach at sample") as caught:
            fgmbs.inverse_dynamics(arm, T, {"point:E": path})
        assert "t = 0." in str(caught.value) and " by 0.00" in str(caught.value)
        reached = caught.value.result
        assert np.isfinite(reached.forces).all()
        assert reached.status == fgmbs.Status.out_of_reach

    @pytest.mark.slow
    def test_out_of_reach_at_once(self, crank):
        with pytest.raises(fgmbs.AssemblyError, match="out of reach at its first sample, t = 0 s, by "):
            fgmbs.inverse_dynamics(crank, T, {"point:P1": np.c_[2 + 0 * T, 0 * T]})

    @pytest.mark.slow
    def test_impossible_with_too_few_motors(self, configs):
        arm = load(configs / "mechanisms" / "five_bar.yaml")
        desired = {"theta_l": arm.reference[-2] + 0.1 * np.sin(T), "theta_r": arm.reference[-1] + 0 * T}
        with pytest.raises(fgmbs.SolveError, match="impossible with drive_l alone: at t = .* is missing"):
            fgmbs.inverse_dynamics(arm, T, desired, ["drive_l"])
        left = fgmbs.inverse_dynamics(arm, T, desired, ["drive_l"], throw=False)
        assert left.status == fgmbs.Status.not_driven
