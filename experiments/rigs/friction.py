"""Friction of joints as a smooth function of their speeds."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


def friction(
    speeds: Float[Array, " joints"],
    viscous: Float[Array, " joints"],
    coulomb: Float[Array, " joints"],
    turn: float = 0.05,
    drag: Float[Array, " joints"] | float = 0.0,
) -> Float[Array, " joints"]:
    """The torques viscous·w + coulomb·tanh(w / turn) + drag·|w| w, which act against the speeds w [N·m].

    Args:
        turn: Speed within which Coulomb friction turns its sign [rad/s].
    """
    # |w| w has a derivative at rest, |w| alone has none.
    return viscous * speeds + coulomb * jnp.tanh(speeds / turn) + drag * jnp.abs(speeds) * speeds


def losses(speed: np.ndarray, viscous: float, coulomb: float, drag: float) -> np.ndarray:
    """The same over many speeds of one joint [N·m]."""
    return viscous * speed + coulomb * np.tanh(speed / 0.05) + drag * np.abs(speed) * speed


def fitted(speed: np.ndarray, difference: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(Coulomb [N·m], viscous [N·m·s] and constant [N·m] friction next to a difference of torques, its values)."""
    shapes = np.stack([np.tanh(speed / 0.05), speed, np.ones_like(speed)], axis=1)
    numbers = np.linalg.lstsq(shapes, difference, rcond=None)[0]
    return numbers, shapes @ numbers


def by_speed(speed: np.ndarray, torque: np.ndarray, std: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Rows of mean speed, mean torque, its scatter and band, number of steps, within bounds of the speed.

    Of the speeds that occur often enough.
    """
    groups = np.digitize(speed, bounds)
    parts = [groups == k for k in range(1, len(bounds)) if np.sum(groups == k) > 10]
    return np.array([[speed[p].mean(), torque[p].mean(), torque[p].std(), std[p].mean(), p.sum()] for p in parts])
