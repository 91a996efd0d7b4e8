"""What the residuals of free runs say of the noise model, and how likely they make the readings."""

import jax
import jax.numpy as jnp
import numpy as np

from fgmbs.problems.estimation.posterior import FactorRows
from fgmbs.problems.identify.free_runs.prediction import Prediction
from fgmbs.problems.identify.free_runs.segments import PredictionProblem
from fgmbs.problems.smooth.result import group_of
from fgmbs.problems.smooth.smoothed_motion import Group


def groups_of(prediction: PredictionProblem, best: Prediction) -> tuple[Group, ...]:
    """Residuals of every sensor, and of what segments miss each other by.

    What is fitted, θ and first states, is taken from all residuals alike: a share of each in place of its leverage.
    """
    joints = np.asarray(best.joints)
    linked = np.any(np.asarray(prediction.segments.whiteners) != 0, axis=(-2, -1))
    parts = []
    for sensor, (_, weights), r in zip(
        prediction.model.sensors, _rows(prediction), map(np.asarray, best.residuals), strict=True
    ):
        weights = np.asarray(weights)
        weights = weights[..., weights.shape[-2] - r.shape[-2] :, :]
        robust = np.ones_like(r)
        if sensor.loss is not None:
            squares = np.sum(r.reshape(*r.shape[:-1], -1, sensor.group) ** 2, axis=-1)
            robust = np.repeat(np.asarray(sensor.loss.weight(jnp.asarray(squares))), sensor.group, axis=-1)
        parts.append((sensor, r, np.where(weights != 0, robust, 0.0), (weights != 0).astype(float)))
    read = sum(int(np.sum(weight > 0)) for *_, weight, _ in parts) + int(np.sum(linked)) * joints.shape[-1]
    share = min(fitted(prediction) / max(read, 1), 1.0)
    groups = [
        group_of(
            sensor.name,
            "sensor",
            FactorRows(r, weight, np.full_like(r, share), there),
            sensor.rows,
            float(np.max(np.asarray(sensor.noise_sigma()))),
            False,
            sensor.loss,
            sensor.group,
        )
        for sensor, r, weight, there in parts
    ]
    if linked.any():
        there = np.broadcast_to(linked[..., None], joints.shape).astype(float)
        rows = FactorRows(joints, there, np.full_like(joints, share), there)
        groups.append(group_of("between free runs", "force", rows, joints.shape[-1], np.nan, False))
    return tuple(groups)


def fitted(prediction: PredictionProblem) -> int:
    """Numbers that are fitted: θ, and first states."""
    weights = np.asarray(prediction.segments.weights)
    alive = np.any(np.asarray(prediction.segments.data.linked) != 0, axis=-1)
    return prediction.free.size + int(np.sum(alive)) * weights.shape[-1]


def log_likelihood(prediction: PredictionProblem, best: Prediction) -> float:
    """Logarithm of the density of the readings, and of the jumps between free runs, at what was found."""
    total = 0.0
    pairs = zip(prediction.model.sensors, _rows(prediction), map(np.asarray, best.residuals), strict=True)
    for sensor, (_, weights), r in pairs:
        weights = np.asarray(weights)
        weights = weights[..., weights.shape[-2] - r.shape[-2] :, :]
        there = weights != 0
        scale = weights / np.tile(np.asarray(sensor.noise_sigma()), r.shape[-1] // sensor.rows)
        squares = np.sum(np.where(there, r, 0.0).reshape(*r.shape[:-1], -1, sensor.group) ** 2, axis=-1)
        total -= 0.5 * float(
            np.sum(squares if sensor.loss is None else np.asarray(sensor.loss.rho(jnp.asarray(squares))))
        )
        total += float(np.sum(np.log(np.where(there, scale, 1.0))))
        total -= 0.5 * np.log(2 * np.pi) * int(there.sum())
    W = np.asarray(prediction.segments.whiteners).reshape(-1, *prediction.segments.whiteners.shape[-2:])
    W = W[np.any(W != 0, axis=(1, 2))]
    total += float(np.sum(np.linalg.slogdet(W)[1])) - 0.5 * np.log(2 * np.pi) * W.shape[0] * W.shape[-1]
    return total - 0.5 * float(np.sum(np.asarray(best.joints) ** 2))


def _rows(prediction: PredictionProblem):
    return jax.tree.map(np.asarray, prediction.segments.rows).factors
