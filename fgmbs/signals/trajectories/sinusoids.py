"""Sums of sinusoids."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from fgmbs.arguments import Numbers, finite
from fgmbs.errors import ArgumentError
from fgmbs.typing import Scalar


class Sinusoid(eqx.Module):
    """y(t) = offset + Σ_k amplitude_k sin(2π frequency_k t + phase_k), at all times."""

    amplitude: Float[Array, "..."]
    """(), one for each harmonic, (harmonics,), or also for each signal, (harmonics, d)."""
    frequency: Float[Array, "..."]
    """Like the amplitude; axes that are left out are shared [Hz]."""
    phase: Float[Array, "..."]
    """Likewise [rad]."""
    offset: Float[Array, "..."]
    """(), or one for each signal, (d,)."""

    def __call__(self, t: Scalar) -> Float[Array, "*d"]:
        """The value at time t [s]."""
        t = jnp.asarray(t, dtype=self.frequency.dtype)
        # Transposed, the harmonics are the last axis of all.
        terms = self.amplitude.T * jnp.sin(2 * jnp.pi * self.frequency.T * t + self.phase.T)
        return self.offset + (terms.sum(axis=-1) if terms.ndim else terms)


def sinusoid(amplitude: Numbers, frequency: Numbers, phase: Numbers = 0.0, offset: Numbers = 0.0) -> Sinusoid:
    """The sum of harmonics offset + Σ_k amplitude_k sin(2π frequency_k t + phase_k).

    Args:
        amplitude: One number, one for each harmonic, (harmonics,), or also for each signal, (harmonics, d).
        frequency: Of the shape of the amplitude, or shared by signals, (harmonics,), or by all, () [Hz].
        phase: Likewise [rad].
        offset: One number, or one for each signal, (d,).

    Raises:
        ArgumentError: Numbers that are not finite, or shapes that do not match the amplitude.
    """
    values = {"amplitude": amplitude, "frequency": frequency, "phase": phase, "offset": offset}
    arrays = {name: finite(name, value) for name, value in values.items()}
    shape = arrays["amplitude"].shape
    if len(shape) > 2:
        raise ArgumentError(f"amplitude: expected shape (), (harmonics,) or (harmonics, d); found shape {shape}")
    like_amplitude = {shape[:axes] for axes in range(len(shape) + 1)}
    for name, accepted in (
        ("frequency", like_amplitude),
        ("phase", like_amplitude),
        ("offset", {(), shape[1:]}),
    ):
        if arrays[name].shape not in accepted:
            shapes = " or ".join(str(accepted_shape) for accepted_shape in sorted(accepted))
            raise ArgumentError(
                f"{name}: expected shape {shapes} for an amplitude of shape {shape}; found shape {arrays[name].shape}"
            )
    return Sinusoid(**{name: jnp.asarray(array, dtype=float) for name, array in arrays.items()})
