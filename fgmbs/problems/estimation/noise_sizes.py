"""Sizes of noise that are found from the data: of sensors and of unknown forces."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType, ModuleType
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from fgmbs.compiled.program import ONCE, program
from fgmbs.errors import ArgumentError
from fgmbs.inputs import AbstractInput, Disturbance, white
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.problems.estimation.scales import own_scale, travel
from fgmbs.sensors.base import AbstractSensor
from fgmbs.unknowns import Free, Unknown, freed, is_unknown

_SETTLED = 0.01
"""Relative change of all sizes at which they are found."""
_FEWEST, _SEVERAL = 0.1, 3.0
"""Steps that are taken at once, at least and at most."""
_LARGEST_CHANGE = np.log(30.0)
"""Of a size at once."""
_FARTHEST, _FARTHEST_KNOWN = np.log(1e3), np.log(1e6)
"""Change of a size in all: of one without a prior, and of one with a prior, which holds it where data say nothing."""
VAGUE = np.log(1e3)
"""Standard deviation of the logarithm of a size of which nothing is known but the scale of what it belongs to."""
_MOST_ROUNDS = 40
"""In which they are looked for."""
_PROBE = 0.02
"""Change of a logarithm by which the slope of the likelihood is differenced."""
_CORRECTIONS = 3
"""By that, each of which leaves a few percent of the error before."""
_NEAR = 0.1
"""Largest correction of a logarithm by that."""
_NEWTON = 20
"""Steps towards the size that a prior and the residuals agree on: they converge from below, quadratically."""
_POWER = 1e-3
"""First size of a disturbance, relative to the power of the mechanism's own motion …"""
_SHARES = {"density": (0.03, 0.5), "rate": (1.0, -0.5), "sigma": (0.3, 0.0)}
"""… and of other forces, relative to the force that does its work, times a power of its time."""
_NOTHING = 1e-9
"""Degrees of freedom of residuals that tell no size."""


def freed_sizes(
    mechanism: AbstractMechanism,
    sensors: Sequence[AbstractSensor],
    inputs: Sequence[AbstractInput],
    duration: float,
    stamps: Mapping[str, float] = MappingProxyType({}),
) -> tuple[tuple[AbstractSensor, ...], tuple[AbstractInput, ...], Free]:
    """Sensors and inputs with first values of their unknown sizes of noise, and which these are.

    Sizes are positive: what is looked for are their logarithms. One whose value is 0 begins at the mechanism's own
    scale in a motion of this duration [s], large rather than small; that of stamps, unknown by default where they are
    irregular, at how irregular they are. Where data say nothing they stay there.

    Args:
        mechanism: The mechanism.
        sensors: Its sensors.
        inputs: Unknown forces on it.
        duration: Of the motion [s].
        stamps: How irregular the stamps of each sensor by name are [s]; of those that are not named, not at all.

    Raises:
        ArgumentError: Two white forces, one of them of unknown size: their residuals cannot be told apart; or a size
            that is own to each recording.
    """
    for name, size in _sizes(sensors, inputs).items():
        if is_unknown(size) and size.own:
            raise ArgumentError(
                f"unknown {name!r}: own: expected False, as recordings share sizes of noise; found True; share it, or "
                "estimate the recordings one by one"
            )
    alike = white(inputs)
    if len(alike) > 1 and any(is_unknown(force.size) for force in alike):
        names = ", ".join(repr(force.name) for force in alike)
        raise ArgumentError(f"inputs: expected sizes of all white forces, or a single one of them; found {names}")
    sensors = tuple(_with_unknown_stamps(sensor, stamps.get(sensor.name, 0.0)) for sensor in sensors)
    first = _first_sizes(mechanism, inputs, duration)
    first |= {f"{name}.time_sigma": value for name, value in stamps.items()}
    sizes = {
        name: _positive(size, first.get(name)) if is_unknown(size) else size
        for name, size in _sizes(sensors, inputs).items()
    }
    sizes, free = freed(sizes, lambda path: path[0].key)
    return *with_sizes(sensors, inputs, sizes), free


def _with_unknown_stamps(sensor: AbstractSensor, irregular: float) -> AbstractSensor:
    """The sensor whose noise of stamps is unknown by default where these are irregular."""
    given = sensor.time_sigma
    if given is None and irregular > 0:
        return _with(sensor, "time_sigma", Unknown(log=False))
    if is_unknown(given) and irregular == 0 and not given.value > 0:
        return _with(sensor, "time_sigma", jnp.zeros(()))
    return sensor


def _with(sensor: AbstractSensor, key: str, size: Array | Unknown) -> AbstractSensor:
    return eqx.tree_at(
        lambda s: getattr(s.channel, key), sensor, size, is_leaf=lambda leaf: leaf is None or is_unknown(leaf)
    )


def with_sizes(
    sensors: Sequence[AbstractSensor], inputs: Sequence[AbstractInput], sizes: Mapping[str, Array | Unknown]
) -> tuple[tuple[AbstractSensor, ...], tuple[AbstractInput, ...]]:
    """Sensors and inputs with these sizes, by the names of their owners and of what they are: "imu.sigma"."""
    new = []
    for sensor in sensors:
        for key in ("sigma", "time_sigma"):
            if (size := sizes.get(f"{sensor.name}.{key}")) is not None:
                sensor = _with(sensor, key, size)
        new.append(sensor)
    forces = []
    for force in inputs:
        for key in force.sizes:
            if (size := sizes.get(f"{force.name}.{key}")) is not None:
                force = force.with_size(size, key)
        forces.append(force)
    return tuple(new), tuple(forces)


def _sizes(sensors, inputs) -> dict[str, Array | Unknown]:
    found = {f"{sensor.name}.sigma": sensor.sigma for sensor in sensors}
    found |= {f"{s.name}.time_sigma": s.time_sigma for s in sensors if s.time_sigma is not None}
    return found | {f"{force.name}.{key}": size for force in inputs for key, size in force.sizes.items()}


def _first_sizes(mechanism: AbstractMechanism, inputs: Sequence[AbstractInput], duration: float) -> dict[str, float]:
    """Of the inputs whose sizes are unknown."""
    unknown = [force for force in inputs if any(map(is_unknown, force.sizes.values()))]
    if not unknown:
        return {}
    energy, time, _ = own_scale(mechanism, duration)
    found = {}
    for force in unknown:
        if isinstance(force, Disturbance):
            found[f"{force.name}.power"] = _POWER * energy / time
            continue
        share, exponent = _SHARES[str(force.size_key)]
        found[f"{force.name}.{force.size_key}"] = share * energy / travel(mechanism, force.on) * time**exponent
    return found


def _positive(size: Unknown, first: float | None) -> Unknown:
    """The unknown size as one of which the logarithm is looked for."""
    value, sigma = _first(size, None if first is None else jnp.asarray(first, dtype=float))
    return Unknown(value, sigma=sigma, lower=size.lower, upper=size.upper, log=True)


@program(**ONCE)
def _first(size: Unknown, first: Array | None) -> tuple[Array, Array]:
    """(where the search for a size begins, standard deviation of its logarithm)."""
    own = size.value == 0
    value = size.value if first is None else jnp.where(own, first, size.value)
    value = jnp.clip(value, size.lower, size.upper)
    sigma = size.sigma if size.log else size.sigma / value
    return value, jnp.where(own & jnp.isinf(sigma), VAGUE, sigma)


class Told(NamedTuple):
    """What an estimate says of sizes of noise, each of which is one of some coordinates y about where they are."""

    chi2: Float[Array, " k"]
    """Sum of squares of the whitened residuals of each …"""
    dof: Float[Array, " k"]
    """… and its expectation: minus the logarithm of the likelihood has the slopes order/2 · (dof − χ²) by y."""
    order: Float[np.ndarray, " k"]
    """χ² goes as exp(−order · y)."""
    along: Float[Array, "k k"]
    """Derivatives of the logarithms of the sizes by y."""


class SizeSearch(NamedTuple):
    """Where the search for sizes of noise is."""

    logs: Float[Array, " k"]
    """Logarithms of the sizes."""
    last: Float[Array, " k"]
    """The last change of each that was asked for; 0 before the first one …"""
    taken: Float[Array, " k"]
    """… and the one that was made."""
    probe: Int[Array, ""]
    """−1: they are looked for. 0: the slope of the likelihood there is asked for; then that on both sides of each."""
    slopes: Float[Array, "probes k"]
    """The slopes that were found."""
    rounds: Int[Array, ""]
    rough: Bool[Array, ""]
    """Whether to a hundredth is enough, and how sure they are does not matter: all else is on the way, too."""

    @classmethod
    def of(cls, free: Free) -> "SizeSearch":
        """The search before its first round."""
        probes, size = 2 * free.size + 1, free.size
        probe = jnp.asarray(-1 if size else probes + _CORRECTIONS, int)
        nothing, slopes = jnp.zeros(size), jnp.zeros((probes, size))
        return cls(free.value, nothing, nothing, probe, slopes, jnp.asarray(0, int), jnp.asarray(False))

    def ended(self) -> "SizeSearch":
        """The search as if it had found what it begins with."""
        return self._replace(probe=jnp.asarray(self.slopes.shape[0] + _CORRECTIONS, self.probe.dtype))

    @property
    def most(self) -> int:
        """Rounds, at most."""
        return _MOST_ROUNDS + self.slopes.shape[0] + _CORRECTIONS

    @property
    def settled(self) -> Bool[Array, ""]:
        """Whether they are found, and how sure they are."""
        return self.probe >= self.slopes.shape[0] + _CORRECTIONS

    def update(self, free: Free, told: Told) -> "SizeSearch":
        """Brings residuals to their degrees of freedom, group by group.

        σ² ← σ² χ²/(degrees of freedom): where it stands still, the marginal likelihood of linear problems is stationary
        (Helmert's variance components; restricted maximum likelihood), or with a prior the posterior. It converges
        linearly: as many steps at once are taken as the last change tells that there are to go, a tenth of one to
        three. A size that runs off stops at a thousandth or a thousandfold of where it began. In the end the slope of
        the likelihood is taken around the sizes: its differences are their information, by which they are corrected.

        Args:
            free: The sizes.
            told: What the estimate with these sizes says of them.
        """
        looking = self.probe < 0
        step = _asked(free, self.logs, told)
        # By the last change, whose slope tells how much was to go; where more is asked for than before, far.
        fell = self.last - step
        known = (self.taken != 0) & (fell != 0)
        several = jnp.where(known, self.taken / jnp.where(known, fell, 1.0), 1.0)
        several = jnp.where(several > 0, jnp.clip(several, _FEWEST, _SEVERAL), _SEVERAL)
        change = jnp.clip(several * step, -_LARGEST_CHANGE, _LARGEST_CHANGE)
        change = _within(free, self.logs + change) - self.logs
        better = _within(free, self.logs + told.along @ change)
        arrived = jnp.all(jnp.abs(better - self.logs) < _SETTLED) | (self.rounds >= _MOST_ROUNDS)

        here, probes = slope(free, self.logs, told), self.slopes.shape[0]
        first = jnp.where(self.rough, probes + _CORRECTIONS, 0)
        slopes = self.slopes.at[jnp.where(looking, probes, self.probe)].set(here, mode="drop")
        base = self.logs - self._aside(self.probe)
        probe = jnp.where(looking, jnp.where(arrived, first, -1), self.probe + 1)
        found = self._replace(logs=base, slopes=slopes)
        corrected = base + found.correction(free, jnp.where(probe > probes, here, slopes[0]))
        probed = jnp.where(probe >= probes, _within(free, corrected), base + self._aside(probe))
        return SizeSearch(
            logs=jnp.where(looking, better, probed),
            last=jnp.where(looking, step, self.last),
            taken=jnp.where(looking, change, self.taken),
            probe=probe,
            slopes=slopes,
            rounds=self.rounds + 1,
            rough=self.rough,
        )

    def _aside(self, probe: Int[Array, ""]) -> Float[Array, " k"]:
        """Where a probe lies from the sizes."""
        size = self.logs.shape[0]
        beside = (probe > 0) & (probe < self.slopes.shape[0])
        sign = jnp.where(probe % 2 == 1, _PROBE, -_PROBE)
        return jnp.where(beside & (jnp.arange(size) == (probe - 1) // 2), sign, 0.0)

    def information(self) -> Float[Array, "k k"]:
        """Of the logarithms: second derivatives of minus the logarithm of the likelihood, priors included."""
        curvature = (self.slopes[1::2] - self.slopes[2::2]) / (2 * _PROBE)
        return (curvature + curvature.T) / 2

    def covariance(self) -> Float[Array, "k k"]:
        """Of the logarithms; infinite variances of those that the data do not tell."""
        information = self.information()
        determined = jnp.all(jnp.linalg.eigvalsh(information) > 0)
        unknown = jnp.diag(jnp.full(information.shape[0], jnp.inf))
        return jnp.where(
            determined, jnp.linalg.inv(jnp.where(determined, information, jnp.eye(*information.shape))), unknown
        )

    def correction(self, free: Free, slope: Float[Array, " k"]) -> Float[Array, " k"]:
        """A step of Newton's method from where the slope is this; nothing where that is far."""
        held, information = self.held(free), self.information()
        information = jnp.where(held[:, None] | held, jnp.eye(held.size), information)
        determined = jnp.all(jnp.linalg.eigvalsh(information) > 0)
        information = jnp.where(determined, information, jnp.eye(held.size))
        step = -jnp.linalg.solve(information, jnp.where(held | ~determined, 0.0, slope))
        return jnp.where(jnp.max(jnp.abs(step), initial=0.0) < _NEAR, step, 0.0)

    def notes(self, free: Free) -> tuple[str, ...]:
        """Sizes that ran off or have not settled."""
        ways, farthest = np.asarray(self.logs) - np.asarray(free.value), _farthest(np, free)
        names = [place.name for place in free.places for _ in range(place.size)]
        ran = tuple(
            f"the size {name!r} ran off to {np.exp(way):.3g} times where it began: the data do not tell it"
            for name, way, far in zip(names, ways, farthest, strict=True)
            if abs(way) > far - _SETTLED
        )
        unsettled = int(self.rounds) > self.most
        return (*ran, *((f"the sizes of noise have not settled after {_MOST_ROUNDS} rounds",) * unsettled))

    def held(self, free: Free) -> Bool[Array, " k"]:
        """Which of them are as small or as large as they may be."""
        low, high = (_within(free, free.value + side) for side in (-jnp.inf, jnp.inf))
        return (self.logs <= low) | (self.logs >= high)


def _within(free: Free, logs: Float[Array, " k"]) -> Float[Array, " k"]:
    """Within bounds, and not too far from where they began."""
    far = _farthest(jnp, free)
    return jnp.clip(free.value + jnp.clip(logs - free.value, -far, far), free.lower, free.upper)


def _farthest(xp: ModuleType, free: Free) -> Float[Array | np.ndarray, " k"]:
    """Change of a size in all."""
    return xp.where(xp.isfinite(free.sigma), _FARTHEST_KNOWN, _FARTHEST)


def slope(free: Free, logs: Float[Array, " k"], told: Told) -> Float[Array, " k"]:
    """Derivatives of minus the logarithm of the likelihood by the logarithms of the sizes, priors included."""
    by_y = told.order / 2 * (told.dof - told.chi2)
    return (logs - free.value) / free.sigma**2 + jnp.linalg.solve(told.along.T, by_y)


def _asked(free: Free, logs: Float[Array, " k"], told: Told) -> Float[Array, " k"]:
    """Change of y at which the likelihood has no slope if χ² goes as exp(−order · change); priors are taken as if each
    were that of one of y."""
    order, determined = told.order, (told.dof > _NOTHING) & (told.chi2 != 0)
    dof = jnp.where(determined, told.dof, 1.0)
    # Of a time constant χ² may be negative, far from where it is most likely.
    chi2 = jnp.where(determined, jnp.maximum(told.chi2, dof * jnp.exp(-order * _LARGEST_CHANGE)), 1.0)

    def newton(_, change):
        left = chi2 * jnp.exp(-order * change)
        bend = 1 / free.sigma**2 + order**2 / 2 * left
        return change - ((logs + change - free.value) / free.sigma**2 + order / 2 * (dof - left)) / bend

    # Without a prior this is the answer; with one, it and the answer to the prior alone have the answer between them.
    step = jnp.log(chi2 / dof) / order
    below = jnp.where(jnp.isfinite(free.sigma), jnp.minimum(step, free.value - logs), step)
    return jnp.where(determined, jax.lax.fori_loop(0, _NEWTON, newton, below), 0.0)
