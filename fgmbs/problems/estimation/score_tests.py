"""Score tests of an estimate: which of the numbers that it takes as known its data would change."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fgmbs.factors.base import Factor
from fgmbs.graph.given import Given
from fgmbs.graph.places import over_time
from fgmbs.graph.time_graph import Look, Unknowns
from fgmbs.linear import LeastSquares, unfollowed
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.problems.estimation.graph import SENSORS, EstimationModel, StepData
from fgmbs.problems.estimation.unknowns import name_of
from fgmbs.sensors.base import AbstractSensor
from fgmbs.unknowns import Free, Path, Place

_CHANNEL = frozenset({"sigma", "resolution", "time_sigma", "delay", "loss"})
"""What a sensor has on which its readings of an instant do not depend."""
_FOLLOWED = 1e-9
"""Share of the effect of a number, squared, that the motion and the unknown numbers do not follow; less is rounding."""
_EFFECT = 1e-6
"""Change of all residuals together, in their standard deviations, by a number as large as it is, or if it is 0 as the
largest one; less is rounding."""


class Scores(eqx.Module):
    """What every number that was taken as known would be if it were the only one more that is found."""

    names: tuple[str, ...] = eqx.field(static=True)
    value: Float[Array, " m"]
    """As it was taken."""
    change: Float[Array, " m"]
    """To where the cost is least, by one linearization."""
    std: Float[Array, " m"]
    """Of what would be found, the other known numbers being right; infinite where the data cannot tell."""


def scores(model: EstimationModel, x: Unknowns, data: StepData) -> Scores:
    """The score test of every known number of mechanism and sensors at an estimate x.

    Each is freed without a prior in the linearized problem and all else, motion and unknown numbers, eliminated. Where
    it is right, change / std is a standard normal number (Rao's score test), and half its square what the cost would
    fall by. Of sensors bias, gain, misalignment and delay are tested, too, where they were not given.
    """
    sensors = tuple(map(_calibrated, model.sensors))
    shared = {sensor.name: sensor for sensor in sensors}
    free = _every_number(model.free, model.given, model.mechanism.bare(), shared)
    p, values = model.free.size, free.value[model.free.size :]
    model = eqx.tree_at(lambda model: (model.sensors, model.free), model, (sensors, free))
    x = Unknowns(x.steps, jnp.concatenate([x.globals, values]))
    graph = model.graph(x, data)
    look = graph.look(x)
    late = [k for k, sensor in enumerate(sensors) if f"{sensor.name}.delay" not in free.names]
    system = _with_columns(look.system, *_delays(model, x, data, graph.factors, look, late))

    values = jnp.concatenate([values, model.delays[np.asarray(late, int)]])
    information, slope = unfollowed(system, values.size)
    arrows = (system.initial_arrow, system.step_arrow, system.pair_arrow)
    effect = sum(jnp.sum(arrow**2, axis=tuple(range(arrow.ndim - 1))) for arrow in arrows)[p:]
    size = jnp.where(values == 0, jnp.max(jnp.abs(values), initial=1.0), jnp.abs(values))
    told = (information > _FOLLOWED * effect) & (effect * size**2 > _EFFECT**2)
    information = jnp.where(told, information, 1.0)
    return Scores(
        (*free.number_names[p:], *(f"{sensors[k].name}.delay" for k in late)),
        values,
        jnp.where(told, -slope / information, 0.0),
        jnp.where(told, 1 / jnp.sqrt(information), jnp.inf),
    )


def _calibrated(sensor: AbstractSensor) -> AbstractSensor:
    """The sensor with all calibration numbers, those of a perfect one where none were given."""
    group = sensor.group
    perfect = {"bias": jnp.zeros(group), "gain": jnp.ones(())}
    if group in (2, 3):
        perfect["misalignment"] = jnp.zeros((3,) if group == 3 else ())
    return eqx.tree_at(lambda s: s.channel.calibration, sensor, perfect | sensor.channel.calibration)


def _every_number(free: Free, given: Given, mechanism: AbstractMechanism, sensors: dict[str, AbstractSensor]) -> Free:
    """θ with all known numbers of mechanism and sensors behind it that recordings share, without a prior."""
    leaves, _ = jax.tree_util.tree_flatten_with_path((mechanism, sensors))
    taken = {place.path for place in free.places}
    taken |= {path for path, _ in leaves if path[0].idx == 0 and path[1:] in given.paths}

    def is_read(path: Path) -> bool:
        return path[0].idx == 0 or not _CHANNEL & {jax.tree_util.keystr((part,), simple=True) for part in path}

    found = [
        (Place(path, name_of(mechanism, path), leaf.shape, log=False, bounded=False), leaf)
        for path, leaf in leaves
        if eqx.is_inexact_array(leaf) and path not in taken and is_read(path)
    ]
    values = jnp.concatenate([jnp.zeros(0), *(jnp.ravel(leaf) for _, leaf in found)])
    endless = jnp.full(values.shape, jnp.inf)
    numbers = (free.value, values), (free.sigma, endless), (free.lower, -endless), (free.upper, endless)
    return Free((*free.places, *(place for place, _ in found)), *map(jnp.concatenate, numbers), free.index)


def _delays(
    model: EstimationModel, x: Unknowns, data: StepData, factors: Sequence[Factor], look: Look, late: Sequence[int]
) -> tuple[Float[Array, "*places rows late"], Float[Array, "*intervals others late"]]:
    """Derivatives of all rows (on steps, between steps) by the delays of these sensors.

    A sensor that reads later than was said reads what was there before: −rate of its reading.
    """

    def of_one(model, steps, data, factors, residuals):
        here, T = model.at(x.globals), steps.shape[0]
        columns = {"step": [jnp.zeros((T, 0, len(late)))], "interval": [jnp.zeros((T - 1, 0, len(late)))]}
        for k, (factor, r) in enumerate(zip(factors, residuals, strict=True)):
            if factor.scope not in columns:
                continue
            column = jnp.zeros((*r.shape, len(late)))
            if k - SENSORS in late:
                sensor = here.sensors[k - SENSORS]
                rate = over_time(
                    lambda x, t, c, sensor=sensor: here.rate_of(sensor, x, t, c), steps, data.times, data.acting
                )
                slots = r.shape[-1] // sensor.rows
                rows = factor.weights * jnp.tile(rate / sensor.noise_sigma(), slots)
                column = column.at[..., late.index(k - SENSORS)].set(-rows[T - r.shape[0] :])
            columns[factor.scope].append(factor.reweighted(r, column)[1])
        return tuple(jnp.concatenate(column, axis=1) for column in columns.values())

    residuals = [None if f.scope == "global" else r for f, r in zip(factors, look.residuals, strict=True)]
    return model.each(of_one, x.steps, data, factors, residuals)


def _with_columns(system: LeastSquares, steps: Array, pairs: Array) -> LeastSquares:
    """The system with further globals, of which these are the derivatives of rows on steps and between them."""
    of = lambda system: (system.initial_arrow, system.step_arrow, system.pair_arrow, system.global_jacobian)
    initial, step, pair, alone = of(system)
    none = lambda arrow: jnp.zeros((*arrow.shape[:-1], steps.shape[-1]))
    new = zip((initial, step, pair, alone), (none(initial), steps, pairs, none(alone)), strict=True)
    return eqx.tree_at(of, system, tuple(jnp.concatenate(both, axis=-1) for both in new))
