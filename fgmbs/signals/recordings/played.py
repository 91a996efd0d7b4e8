"""Recorded signals as an actuator plays them: between the samples, later than they are stamped, behind a lag."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from fgmbs.signals.recordings.recording import Signal
from fgmbs.typing import Scalar

Cut: TypeAlias = Callable[[Array], Array]
State: TypeAlias = Callable[[Array], Array]

_NEVER = 1e30
"""Before and behind all times [s]."""
_FORGOTTEN = 1e3
"""Time constants behind which nothing is left of a state."""


class Played(eqx.Module):
    """A signal s(t) that is held between its samples, or straight, and y(t − delay) with lag · ẏ + y = s.

    Before its first sample it has been what that says for ever, behind the last one it stays. All is exact, and a
    differentiable function of values, delay and lag.
    """

    stamps: Float[Array, "*recordings samples"]
    """The first of them before all times, the last ones behind [s]."""
    values: Float[Array, "*recordings samples"]
    pieces: int = eqx.field(static=True)
    """Between samples, in one time step at most."""
    straight: bool = eqx.field(static=True)

    @staticmethod
    def of(signal: Signal, size: int, pieces: int, hold: str) -> "Played":
        """A recorded signal, in room for `size` samples."""
        behind = size + 1 - len(signal)
        stamps = np.concatenate([[-_NEVER], signal.t, _NEVER * np.arange(1, behind + 1)])
        values = np.concatenate([signal.values[:1], signal.values, np.full(behind, signal.values[-1])])
        return Played(jnp.asarray(stamps), jnp.asarray(values), pieces, hold == "linear")

    def states(self, cut: Cut, lag: Scalar, limit: Scalar | None = None) -> Float[Array, " samples"]:
        """y at the stamps.

        Args:
            cut: What of the values has its effect.
            lag: Time constant [s].
            limit: Where a straight line is cut off; None: only its ends are.
        """
        left, gained = jnp.ones(()), jnp.zeros(())
        for piece in self._pieces(jnp.arange(self.stamps.shape[0] - 1), cut, limit):
            own = piece.left(lag)
            left, gained = own * left, own * gained + piece.gained(lag)
        left, gained = jnp.append(jnp.zeros(1, left.dtype), left), jnp.append(cut(self.values[:1]), gained)
        return jax.lax.associative_scan(lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1]), (left, gained))[1]

    def line(
        self,
        start: Scalar,
        end: Scalar,
        cut: Cut,
        lag: Scalar | None = None,
        state: State | None = None,
        limit: Scalar | None = None,
    ) -> Float[Array, "2"]:
        """Ends of the straight line over an interval that has the integral of y, and the integral of that.

        Under such a force a mass is where it would be, and as fast: also where y jumps in between.

        Args:
            start: Of the interval, delays taken off [s].
            end: Its end [s].
            cut: What of the values has its effect.
            lag: Time constant, if there is one [s].
            state: y at stamps of these indices then.
            limit: As of `states`.
        """
        k = self._before(start) + jnp.arange(self.pieces)
        there, k = k < self.stamps.shape[0] - 1, jnp.minimum(k, self.stamps.shape[0] - 2)
        total, moments = jnp.zeros(()), jnp.zeros(())
        y = None if state is None else state(k)
        for piece in self._pieces(k, cut, limit):
            first = jnp.maximum(start, piece.stamp)
            length = jnp.where(there, jnp.maximum(jnp.minimum(end, piece.end) - first, 0.0), 0.0)
            v = piece.value + piece.slope * (first - piece.stamp)
            integral = length * (v + piece.slope * length / 2)
            moment = length**2 * (v / 2 + piece.slope * length / 3)
            if lag is not None:
                assert y is not None
                steady, left = v - piece.slope * lag, _left(length, lag)
                rest = (y - piece.value + piece.slope * lag) * _left(first - piece.stamp, lag)
                integral = length * (steady + piece.slope * length / 2) + lag * rest * (1 - left)
                moment = length**2 * (steady / 2 + piece.slope * length / 3)
                moment = moment + lag * rest * (lag * (1 - left) - length * left)
                y = piece.left(lag) * y + piece.gained(lag)
            total = total + jnp.sum(integral)
            moments = moments + jnp.sum(moment + (first - start) * integral)
        mean = total / (end - start)
        tilt = 12 * moments / (end - start) ** 2 - 6 * mean
        return jnp.stack([mean - tilt / 2, mean + tilt / 2])

    def value(
        self,
        t: Scalar,
        cut: Cut,
        lag: Scalar | None = None,
        state: State | None = None,
        limit: Scalar | None = None,
    ) -> Scalar:
        """y at a time, delays taken off; arguments as of `line`."""
        k = self._before(t)
        y = None if state is None else state(k)
        found = jnp.zeros(())
        for piece in self._pieces(k, cut, limit):
            since = t - piece.stamp
            s = piece.value + piece.slope * since
            if lag is not None:
                assert y is not None
                s = s - piece.slope * lag + (y - piece.value + piece.slope * lag) * _left(since, lag)
                y = piece.left(lag) * y + piece.gained(lag)
            found = jnp.where(t >= piece.stamp, s, found)
        return found

    def _before(self, t: Scalar) -> Int[Array, ""]:
        """The piece in which a time is."""
        return jnp.searchsorted(self.stamps, t, side="right") - 1

    def _pieces(self, k: Int[Array, "*pieces"], cut: Cut, limit: Scalar | None) -> list["_Piece"]:
        """What is straight between the stamps k and k + 1, one behind the other."""
        start, end, first = self.stamps[k], self.stamps[k + 1], self.values[k]
        if not self.straight:
            return [_Piece(start, end, cut(first), jnp.zeros_like(first))]
        rise, shares = self.values[k + 1] - first, [jnp.zeros_like(first), jnp.ones_like(first)]
        if limit is not None:
            crossed = jnp.stack([-limit - first, limit - first]) / jnp.where(rise == 0, 1.0, rise)
            shares[1:1] = jnp.sort(jnp.where(rise == 0, 0.0, jnp.clip(crossed, 0.0, 1.0)), axis=0)
        stamps = [start + share * (end - start) for share in shares[:-1]] + [end]
        values = [cut(first + share * rise) for share in shares]
        made = []
        for before, after, value, last in zip(stamps[:-1], stamps[1:], values[:-1], values[1:], strict=True):
            there = after > before
            slope = jnp.where(there, (last - value) / jnp.where(there, after - before, 1.0), 0.0)
            made.append(_Piece(before, after, value, slope))
        return made


class _Piece(NamedTuple):
    """s between two times: a value behind the first, and a slope."""

    stamp: Float[Array, "*pieces"]
    end: Float[Array, "*pieces"]
    value: Float[Array, "*pieces"]
    slope: Float[Array, "*pieces"]

    def left(self, lag: Scalar) -> Float[Array, "*pieces"]:
        """What is left at the end of what y was at the stamp."""
        return _left(self.end - self.stamp, lag)

    def gained(self, lag: Scalar) -> Float[Array, "*pieces"]:
        """What y has gained besides."""
        steady = self.value - self.slope * lag
        return steady + self.slope * (self.end - self.stamp) - self.left(lag) * steady


def pieces(t: Float[np.ndarray, " samples"], dt: float) -> int:
    """Pieces between samples at these times that a time step meets at most, as a power of two."""
    behind = np.searchsorted(t, t + dt * (1 + 1e-9), side="right")
    most = 1 + int(np.max(behind - np.arange(len(t)), initial=1))
    return max(4, 2 ** int(np.ceil(np.log2(most))))


def _left(length: Float[Array, "*shape"], lag: Scalar) -> Float[Array, "*shape"]:
    """exp(−length / lag), with derivatives also for a lag of 0."""
    return jnp.exp(-length / jnp.maximum(lag, length / _FORGOTTEN + 1 / _NEVER))
