"""Friction of joints as a smooth function of their speeds."""

import numpy as np

import fgmbs

WIDTH = 0.05
"""Speed within which Coulomb friction turns its sign [rad/s]."""


def losses(speed: np.ndarray, viscous: float, coulomb: float, drag: float) -> np.ndarray:
    """Friction over many speeds of one joint [N·m]."""
    return np.asarray(fgmbs.Friction(viscous, coulomb, quadratic=drag, width=WIDTH)(speed))


def fitted(speed: np.ndarray, difference: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(Coulomb [N·m], viscous [N·m·s] and constant [N·m] friction next to a difference of torques, its values)."""
    shapes = np.stack([np.tanh(speed / WIDTH), speed, np.ones_like(speed)], axis=1)
    numbers = np.linalg.lstsq(shapes, difference, rcond=None)[0]
    return numbers, shapes @ numbers


def by_speed(speed: np.ndarray, torque: np.ndarray, std: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Rows of mean speed, mean torque, its scatter and band, number of steps, within bounds of the speed.

    Of the speeds that occur often enough.
    """
    groups = np.digitize(speed, bounds)
    parts = [groups == k for k in range(1, len(bounds)) if np.sum(groups == k) > 10]
    return np.array([[speed[p].mean(), torque[p].mean(), torque[p].std(), std[p].mean(), p.sum()] for p in parts])
