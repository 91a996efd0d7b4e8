"""Friction of joints as a smooth function of their speeds."""

import jax.numpy as jnp
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
