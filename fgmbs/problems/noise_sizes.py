"""Sizes of noise that are found from the data: of sensors and of unknown forces."""

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from fgmbs.errors import ArgumentError
from fgmbs.inputs import AbstractInput, Disturbance, WhiteNoise
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.problems.estimation_graph import EstimationModel
from fgmbs.problems.smoothed_motion import Group

_SETTLED = 0.01
"""Relative change of all sizes at which they are found."""
_LARGEST_CHANGE = np.log(30.0)
"""Of a size at once."""
_FARTHEST = np.log(1e3)
"""Change of a size in all."""


def to_be_found(inputs: Sequence[AbstractInput]) -> frozenset[str]:
    """Names of the unknown forces without a size.

    Raises:
        ArgumentError: Two white forces, one of them without size: their residuals cannot be told apart.
    """
    found = [force for force in inputs if force.size_key is not None and not force.has_size]
    white = [force for force in inputs if isinstance(force, Disturbance | WhiteNoise)]
    if len(white) > 1 and any(force in found for force in white):
        names = ", ".join(repr(force.name) for force in white)
        raise ArgumentError(f"inputs: expected sizes of all white forces, or a single one of them; found {names}")
    return frozenset(force.name for force in found)


def with_first_sizes(mechanism: AbstractMechanism, inputs: Sequence[AbstractInput]) -> tuple[AbstractInput, ...]:
    """The inputs with something in the place of sizes that are to be found, large rather than small."""
    q = mechanism.reference
    weight = float(jnp.max(jnp.abs(mechanism.forces(q, jnp.zeros(mechanism.nv, q.dtype), jnp.zeros((), q.dtype)))))
    inertia = float(jnp.max(jnp.abs(mechanism.mass_matrix(q))))
    force = max(weight, inertia)
    first = {"power": 1e-3 * force, "density": 0.03 * force, "rate": force, "sigma": 0.3 * force}
    return tuple(
        force if force.size_key is None or force.has_size else force.with_size(first[force.size_key])
        for force in inputs
    )


class Search:
    """Brings residuals to their degrees of freedom, group by group.

    σ² ← σ² χ²/(degrees of freedom): where it stands still, the marginal likelihood of linear problems is stationary
    (Helmert's variance components; restricted maximum likelihood). It converges linearly; while the steps shrink evenly
    their geometric series is summed, up to three steps, and where they turn round they are halved. A size that runs off
    stops at a thousandth or a thousandfold of where it began.
    """

    def __init__(self, names: frozenset[str]):
        self.names = names
        self.steps: dict[str, float] = {}
        self.travelled: dict[str, float] = {}

    def update(self, model: EstimationModel, groups: Sequence[Group]) -> tuple[EstimationModel, bool]:
        """The model with better sizes, and whether they have settled."""
        logs = {}
        for group in groups:
            if group.name in self.names and group.dof > 1e-9 and group.chi2 > 0:
                step = 0.5 * np.log(group.chi2 / group.dof)
                last = self.steps.get(group.name)
                self.steps[group.name] = step
                ratio = 0.0 if last is None else float(np.clip(step / last, -1.0, 2 / 3))
                step = step / (1 - ratio)
                way = self.travelled.get(group.name, 0.0)
                step = (
                    float(np.clip(way + np.clip(step, -_LARGEST_CHANGE, _LARGEST_CHANGE), -_FARTHEST, _FARTHEST)) - way
                )
                self.travelled[group.name] = way + step
                logs[group.name] = step
        sensors = tuple(
            eqx.tree_at(lambda s: s.channel.sigma, sensor, sensor.sigma * np.exp(logs.get(sensor.name, 0.0)))
            for sensor in model.sensors
        )
        inputs = tuple(
            # Power goes with the square of a force.
            force.with_size(force.size * np.exp((2 if isinstance(force, Disturbance) else 1) * logs[force.name]))
            if force.name in logs
            else force
            for force in model.inputs
        )
        settled = all(abs(step) < _SETTLED for step in logs.values())
        return eqx.tree_at(lambda m: (m.sensors, m.inputs), model, (sensors, inputs)), settled

    @property
    def notes(self) -> tuple[str, ...]:
        """Sizes that ran off."""
        return tuple(
            f"the size of {name!r} ran off to {np.exp(way):.3g} times where it began: the data do not tell it"
            for name, way in self.travelled.items()
            if abs(way) > _FARTHEST - _SETTLED
        )
