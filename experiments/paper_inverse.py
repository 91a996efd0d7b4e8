"""What the experiments of [Blanco21] section 7.2 share: mechanisms, desired motions, torques of MSC ADAMS."""

from typing import NamedTuple

import numpy as np
from exact_inverse import Body, Exact, Mechanism, inverse_dynamics, rod
from fourbar import DATA, MECHANISMS

import fgmbs

FOLDER = DATA / "multibody-factor-graphs"
GRAVITY = 9.80665
"""What ADAMS used [m/s²]."""


class Case(NamedTuple):
    """One of the two experiments."""

    mechanism: fgmbs.PlanarMechanism
    t: np.ndarray
    angles: dict[str, np.ndarray]
    """Desired angles of the motors, from the paper's file [rad]."""
    path: np.ndarray
    """Of the point the motion was made for: position, velocity, acceleration (steps, 3, 2)."""
    adams: np.ndarray
    """Torques of MSC ADAMS, on the driven body, counter-clockwise (steps, motors) [N·m]."""
    adams_angle: np.ndarray | None
    """Angle that ADAMS reached [rad]."""
    exact: Exact


def fourbar() -> Case:
    """The four-bar linkage: its crank angle follows 1.2 (1 − cos 2t)."""
    t, theta = _table("trajectories/fourbars1-with-rel-angle-trajectory.txt").T
    _, torque, degrees = _table("experiments/InverseDynamics_4bars_MSC.tab").T
    angle, rate, acceleration = 1.2 * (1 - np.cos(2 * t)), 2.4 * np.sin(2 * t), 4.8 * np.cos(2 * t)
    arm = np.exp(1j * angle)
    path = np.stack([arm, 1j * rate * arm, (1j * acceleration - rate**2) * arm], axis=1)
    points = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 2.0], [4.0, 0.0]])
    bodies = (rod(0, 1, 1.0, points), rod(1, 2, 2.0, points), rod(2, 3, 4.0, points))
    path = np.stack([path.real, path.imag], axis=-1)
    exact = inverse_dynamics(Mechanism(points, (0, 3), bodies, ((0, 1),)), 1, path, GRAVITY)
    mechanism = _load("fourbar_crank_angle.yaml")
    # ADAMS tells the torque that the crank exerts on the motor.
    return Case(mechanism, t, {"theta": theta}, path, -torque[:, None], np.deg2rad(degrees), exact)


def robot() -> Case:
    """The pick-and-place robot: the left foot of its platform goes up and then to the right, at rest between."""
    t, left, right = _table("trajectories/pick-and-place-robot-trajectory.txt").T
    adams = _table("experiments/InverseDynamics_pprobot_MSC.tab")[:, 1:]
    exact = inverse_dynamics(_robot(), 6, robot_path(t), GRAVITY)
    angles = {"theta_l": left, "theta_r": right}
    return Case(_load("parallel_robot.yaml"), t, angles, robot_path(t), adams, None, exact)


def robot_path(t: np.ndarray) -> np.ndarray:
    """Two straight legs of 2.5 s, each 3u² − 2u³ of the way at u = t/2.5 s; (steps, 3, 2).

    Its acceleration jumps at 0, 2.5 and 5 s; there it is the one from the left, at 0 from the right.
    """
    corners, leg = np.array([[-0.5, -5.0], [-0.5, -4.0], [0.5, -4.0]]), (t > 2.5 + 1e-9).astype(int)
    u = t / 2.5 - leg
    progress = np.stack([3 * u**2 - 2 * u**3, (6 * u - 6 * u**2) / 2.5, (6 - 12 * u) / 2.5**2], axis=1)
    path = progress[:, :, None] * np.diff(corners, axis=0)[leg][:, None]
    path[:, 0] += corners[leg]
    return path


def _robot() -> Mechanism:
    left = np.array([[0, 0], [0.5, -0.5], [-1, -1], [-0.5, -1.5], [-1, -2], [0, -4.5], [-0.5, -5]])
    mirrored = np.stack([1.5 - left[:, 0], left[:, 1]], axis=1)
    points = np.vstack([left, mirrored[[5, 6, 4, 3, 2, 1, 0]]])  # the paper's numbers of points
    links = ((0, 2, 1), (1, 3, 1), (4, 6, 3), (3, 5, 3), (8, 9, 3), (7, 10, 3), (11, 13, 1), (10, 12, 1))
    rods = tuple(rod(i, j, float(mass), points) for i, j, mass in links)
    middle = np.sqrt(0.5) / 2
    triangles = (Body((2, 3, 4), 1.0, 2 / 3, (middle, 0.0)), Body((9, 10, 11), 1.0, 2 / 3, (middle, 0.0)))
    platform = Body((5, 7, 6, 8), 6.0, 11.375, (0.75, -0.25))
    return Mechanism(points, (0, 1, 12, 13), (*rods, *triangles, platform), ((1, 3), (12, 10)))


def rms(x: np.ndarray) -> float:
    """Root of the mean square."""
    return float(np.sqrt(np.mean(np.square(x))))


def _load(name: str) -> fgmbs.PlanarMechanism:
    return fgmbs.load(MECHANISMS / name).with_parameters({"gravity.y": -GRAVITY})


def _table(name: str) -> np.ndarray:
    if not (FOLDER / name).is_file():
        raise SystemExit(f"no {FOLDER / name}; set FGMBS_DATA to the folder with multibody-factor-graphs")
    return np.loadtxt(FOLDER / name, comments="%")
