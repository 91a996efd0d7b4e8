"""Forces in all directions with a memory: what an estimate says of their size and time constant, and whether one in
which they are white asks for a memory."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fgmbs.inputs import Disturbance
from fgmbs.linear import LeastSquares, Marginals
from fgmbs.problems.estimation.posterior import FactorRows
from fgmbs.typing import Scalar

_LAGS = 256
"""Over which forces of white ones that were found may be correlated, in steps, at most …"""
_NONE = 1e-3
"""… until that is less than this of their mean square."""
_LEAST = 1e-6
"""Share of white forces that is found, at any frequency, at least."""
_SHARES = np.geomspace(1e-3, 1e4, 57)
"""Spectral densities at low frequencies that are tried, relative to that of white forces."""


def memory_told(
    force: Disturbance,
    rows: tuple[FactorRows, FactorRows, FactorRows | None],
    w: Float[Array, "*recordings steps dof"],
    variance: Float[Array, "*recordings steps dof dof"],
    dt: Float[Array, "*recordings"],
    *,
    sized: bool,
) -> tuple[dict[str, tuple[Scalar, Scalar, float]], Scalar]:
    """((χ², its expectation, with which power it falls) of its sizes by name, as `Told` has them; ∂ log power/∂y₂).

    With a = exp(−Δt/τ), w(t+Δt) = a w(t) + noise of variance σ² (1 − a²). The coordinates are y₁, the logarithm of that
    variance, of which χ² tells as of any other, and y₂ = log τ at constant y₁: were w known, it would tell of each as
    if the other were known. By Fisher's identity the slope by y₂ is the mean over all motions of what it is for each.

    Args:
        force: Their numbers.
        rows: Of their change from step to step, of their start, and, where their size is also that of the noise between
            the steps, of what moves the mechanism.
        w: In the metric of the mass matrix.
        variance: Its covariance.
        dt: Time step [s].
        sized: Whether the power is given: y₂ is log τ at that power then.
    """
    changes, start, motion = rows
    h = dt / force.time_constant
    noise = force.variance * -jnp.expm1(-2 * h)
    of_start = 2 * h / jnp.expm1(2 * h)
    """∂ log σ²/∂y₂."""

    def sums(part: FactorRows):
        r, there = jnp.where(part.weight > 0, part.residual, 0.0), part.weight > 0
        total = lambda leaf: jnp.sum(leaf, axis=(-2, -1))
        return total(r**2), total(jnp.where(there, 1 - part.leverage, 0.0)), total(there)

    parts = [sums(part) for part in (changes, start, motion) if part is not None]
    chi2, dof = (jnp.sum(sum(part[k] for part in parts)) for k in (0, 1))

    second = w**2 + jnp.diagonal(variance, axis1=-2, axis2=-1)
    each = lambda leaf: leaf[..., None, None]
    left = second[..., 1:, :] - each(jnp.exp(-2 * h)) * second[..., :-1, :]
    left = left - each(noise) * (changes.residual**2 + changes.leverage)
    slope = -h / (2 * noise) * jnp.sum(jnp.where(changes.weight > 0, left, 0.0), axis=(-2, -1))
    slope = slope + of_start / 2 * (parts[1][1] - parts[1][0])
    if motion is not None:
        slope = slope + (of_start - 1) / 2 * (parts[2][1] - parts[2][0])
    information = jnp.sum(2 * parts[0][2] * h**2 / jnp.expm1(2 * h) + of_start**2)
    bend = 1 + jnp.mean(of_start)
    slope = jnp.sum(slope)
    if sized:
        slope, information = slope - bend / 2 * (dof - chi2), information + bend**2 * dof
    told = {
        f"{force.name}.power": (chi2, dof, 1.0),
        f"{force.name}.time_constant": (information - 2 * slope, information, 1.0),
    }
    return told, bend


class Asked(NamedTuple):
    """The memory that white forces ask for."""

    gain: float
    """By how much the likelihood's logarithm should rise."""
    share: float
    """Spectral density at low frequencies, relative to that of the white forces."""
    time_constant: float
    """[s]"""


def memory_asked(
    residual: Float[np.ndarray, "recordings places rows"],
    leverage: Float[np.ndarray, "recordings places rows"],
    system: LeastSquares,
    marginals: Marginals,
    counts: np.ndarray,
    dt: np.ndarray,
    dof: int,
) -> Asked:
    """What the spectrum of the white forces that were found says of a memory.

    What is found of white forces ε of unit variance is what they are at the frequencies that the readings tell: ε̂ has
    the spectrum K where they are white indeed, and K² s + K (1 − K) where their spectrum is s. K is known from the
    covariance of the estimate, cov ε̂ = 1 − cov(ε | readings), in which steps are a Markov chain. The likelihood is
    Whittle's.

    Args:
        residual: Whitened residuals of the transitions …
        leverage: … and how far the motion can follow each.
        system: What was seen at the estimate, with a first axis of recordings …
        marginals: … and its covariances.
        counts: Steps of each recording.
        dt: Time step of each [s].
        dof: Degrees of freedom.
    """
    spectra = []
    for k, count in enumerate(counts.tolist()):
        part = slice(0, count - 1)
        rows = slice(dof, 2 * dof)
        start, end = (np.asarray(leaf)[k, part, rows] for leaf in (system.pair_start, system.pair_end))
        r, unknown = residual[k, part, rows], 1 - leverage[k, part, rows]
        turn = _turns(start[..., rows], end[..., rows])
        r, start, end = (np.einsum("kba,kb...->ka...", turn, leaf) for leaf in (r, start, end))
        covariances = _lagged(start, end, np.asarray(marginals.steps)[k, :count], np.asarray(marginals.pairs)[k, part])
        spectra.append(_Spectrum.of(r, np.sum(unknown), covariances))
    longest = float(np.max(counts * dt))
    best = Asked(0.0, 1.0, 0.0)
    for time in np.min(dt) * 2.0 ** np.arange(1, 1 + np.floor(np.log2(longest / np.min(dt)))):
        gains = sum(one.gains(np.exp(-step / time)) for one, step in zip(spectra, dt, strict=True))
        if (gain := float(np.max(gains))) > best.gain:
            best = Asked(gain, float(_SHARES[np.argmax(gains)]), float(time))
    return best


class _Spectrum(NamedTuple):
    """Of the white forces found in a recording, by frequency."""

    omega: Float[np.ndarray, " frequencies"]
    found: Float[np.ndarray, "frequencies dof"]
    """Periodograms."""
    expected: Float[np.ndarray, " frequencies"]
    """K."""

    @classmethod
    def of(cls, r: Float[np.ndarray, "places dof"], dof: float, covariances: Float[np.ndarray, " lags"]) -> "_Spectrum":
        """Of the forces, their expected sum of squares, and the sums of what is unknown of their products by lag."""
        n, width = r.shape
        omega = 2 * np.pi * np.arange(1, (n + 1) // 2) / n
        found = np.abs(np.fft.rfft(r, axis=0)[1 : omega.size + 1]) ** 2 / n
        lags = np.arange(1, covariances.size + 1)
        taper = 0.5 * (1 + np.cos(np.pi * lags / (covariances.size + 1)))
        expected = (dof - 2 * np.cos(omega[:, None] * lags) @ (taper * covariances)) / (n * width)
        return cls(omega, found, np.clip(expected, _LEAST, 1.0))

    def gains(self, a: float) -> Float[np.ndarray, " shares"]:
        """Of the logarithm of the likelihood, by each of `_SHARES`, where neighbours are correlated by a."""
        K = self.expected
        shape = (1 - a) ** 2 / np.abs(1 - a * np.exp(-1j * self.omega)) ** 2
        ratio = 1 + K * (_SHARES[:, None] * shape - 1)
        worth = np.sum(self.found, axis=1) / K
        return np.sum(worth * (1 - 1 / ratio) - self.found.shape[1] * np.log(ratio), axis=1)


def _turns(start: Float[np.ndarray, "places dof dof"], end: Float[np.ndarray, "places dof dof"]) -> np.ndarray:
    """What takes whitened residuals from the independent velocities of the first step to those of each."""
    U, _, V = np.linalg.svd(-start[1:] @ np.linalg.inv(end[:-1]))
    turns = [np.eye(start.shape[1])]
    for turn in U @ V:
        turns.append(turn @ turns[-1])
    return np.stack(turns)


def _lagged(
    start: Float[np.ndarray, "places dof nx"],
    end: Float[np.ndarray, "places dof nx"],
    steps: Float[np.ndarray, "steps nx nx"],
    pairs: Float[np.ndarray, "places nx nx"],
) -> Float[np.ndarray, " lags"]:
    """Sums over all places of tr cov(ε(t+l), ε(t) | readings) for l = 1, 2, …"""
    size = steps.shape[-1]
    start, end = start[..., :size], end[..., :size]
    unit = np.sqrt(np.maximum(np.diagonal(steps, axis1=1, axis2=2), np.finfo(float).tiny))
    scaled = steps / unit[:, :, None] / unit[:, None, :]
    onward = np.linalg.solve(scaled[:-1], (pairs / unit[1:, :, None] / unit[:-1, None, :]).mT).mT
    onward = onward * unit[1:, :, None] / unit[:-1, None, :]
    ahead = pairs @ start.mT + steps[1:] @ end.mT
    alone = np.einsum("kax,kxa->", end, ahead) + np.einsum("kax,kxy,kay->", start, steps[:-1], start)
    alone += np.einsum("kax,kyx,kay->", start, pairs, end)
    least, first, sums = _NONE * (start.shape[0] * start.shape[1] - alone), start + end @ onward, []
    for lag in range(1, min(_LAGS, len(start) // 4)):
        sums.append(np.einsum("kax,kxa->", first[lag:], ahead[: len(first) - lag]))
        ahead = onward[lag:] @ ahead[: len(first) - lag]
        if len(sums) > 8 and np.max(np.abs(sums[-8:])) < least:
            break
    return np.array(sums)
