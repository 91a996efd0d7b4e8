"""Two industrial arms and recordings of exciting motions: kinematics as their makers tell, inertias to be found."""

from typing import NamedTuple

import numpy as np

import fgmbs
from fgmbs import robots
from rigs.recordings import DATA, recorded

RIGHT = np.pi / 2
_PANDA = ((0, 0.333, 0), (0, 0, -RIGHT), (0, 0.316, RIGHT), (0.0825, 0, RIGHT))
_PANDA += ((-0.0825, 0.384, -RIGHT), (0, 0, RIGHT), (0.088, 0, RIGHT))
"""a [m], d [m], α [rad]: modified Denavit–Hartenberg frames."""
_STAUBLI = (
    dict(xyz=(0, 0, 0.32)),
    dict(rpy=(-RIGHT, 0, 0)),
    dict(xyz=(0.225, 0, 0.035)),
    dict(xyz=(0, -0.225, 0), rpy=(RIGHT, 0, 0)),
    dict(rpy=(-RIGHT, 0, 0)),
    dict(rpy=(RIGHT, np.pi, 0)),
)


class Arm(NamedTuple):
    """An arm that moved."""

    robot: fgmbs.Robot
    t: np.ndarray
    """[s]"""
    q: np.ndarray
    """[rad]"""
    tau: np.ndarray
    """At the joints [N m]."""
    coupled: tuple[int, int] | None = None
    """Joints whose motors turn together: the second motor turns with the sum of both."""
    published: fgmbs.Robot | None = None
    """With inertias that others found, for the loads of its bearings, where torques are read behind the gears."""
    period: float | None = None
    """After which the motion is made again [s]."""


def _arm(places: tuple[dict, ...]) -> fgmbs.Robot:
    parts = []
    for k, place in enumerate(places):
        parts.append(robots.link(f"link{k + 1}", mass=1.0, inertia=(0.1, 0.1, 0.1)))
        parts.append(
            robots.revolute(f"joint{k + 1}", f"link{k}" if k else "world", f"link{k + 1}", axis=(0, 0, 1), **place)
        )
    return robots.robot(*parts)


def _published_panda() -> fgmbs.Robot:
    """Without the hand of its file, which was not mounted."""
    file, held = DATA.parent / "robots" / "panda" / "panda.urdf", {"panda_finger_joint1": 0.0}
    apart = fgmbs.load(file, locked=held, separate=["panda_hand_joint"]).physical_parameters()
    bare = {name: value for name, value in apart.items() if name.startswith("panda_link7.")}
    return fgmbs.load(file, locked=held).with_parameters(bare)


def panda() -> Arm:
    """A Franka Panda; the torques are those of sensors behind the gears."""
    data = np.load(recorded("franka_panda", "panda_excitation.npz"))
    places = tuple(dict(xyz=(a, -np.sin(alpha) * d, np.cos(alpha) * d), rpy=(alpha, 0, 0)) for a, d, alpha in _PANDA)
    stamps = data["t"] - data["t"][0]
    t = np.arange(0.0, stamps[-1], 1e-3)
    q, tau = (
        np.stack([np.interp(t, stamps, row) for row in data[key].astype(float).T], axis=1) for key in ("q", "tau")
    )
    return Arm(_arm(places), t, q, tau, published=_published_panda(), period=13.345)


def staubli() -> Arm:
    """A Stäubli TX40; the torques are those of its motors, whose last two are coupled."""
    data = np.load(recorded("staubli_tx40", "tx40_excitation.npz"))
    gears = np.diag([32.0, 32, 45, -48, 45, 32])
    motion, force = gears.copy(), gears.copy()
    motion[5, 4] = force[4, 5] = 32
    q = data["q_motor"].astype(float) @ np.linalg.inv(motion).T + np.array([0, -RIGHT, RIGHT, 0, 0, 0])
    tau = data["tau_motor"].astype(float) @ force.T
    return Arm(_arm(_STAUBLI), 2e-4 * np.arange(len(q)), q, tau, coupled=(4, 5))
