"""What sensors see of a motion, what they do not, and which sensor would help."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fgmbs.compiled.program import program
from fgmbs.errors import ArgumentError
from fgmbs.graph.model import of_mechanism
from fgmbs.graph.time_graph import Unknowns
from fgmbs.inputs import AbstractInput
from fgmbs.kinematics.names import listed
from fgmbs.linear import METHODS
from fgmbs.mechanisms.base import AbstractMechanism, checked_mechanism
from fgmbs.problems.estimation.arguments import checked_inputs, checked_sensors, chosen_coordinates, nominal_delays
from fgmbs.problems.estimation.graph import EstimationModel, Samples, StepData
from fgmbs.problems.estimation.noise_sizes import freed_sizes
from fgmbs.problems.estimation.scales import own_scale
from fgmbs.problems.estimation.unknowns import freed_model
from fgmbs.sensors.base import AbstractSensor
from fgmbs.sensors.kinds.encoder import Encoder
from fgmbs.sensors.kinds.gyroscope import Gyroscope
from fgmbs.sensors.kinds.position import Position
from fgmbs.sensors.kinds.velocity import Velocity
from fgmbs.sensors.readings import checked_motion

_UNSEEN = 0.5
"""A variable of which more than this share of what is unknown without sensors is left is not seen."""
_ANY_SPEED = 1e3
"""Velocity of which nothing is known, relative to the reach of the mechanism in the time that moves it so far."""
_MOST_STEPS = 2000
_PLACE, _RATE = 1e-3, 1e-2
"""Noise of candidates: of angles [rad], or of places relative to the reach of the mechanism, and of rates relative to
those in the time that moves it so far."""
_SPACE = ("x", "y", "z")


@dataclass(frozen=True)
class Candidate:
    """A sensor that is not there, and what it would tell."""

    name: str
    information: float
    """How much less uncertain the motion would be, all steps taken together [nats]."""
    variable: str
    """The variable whose standard deviation it would lower most …"""
    factor: float
    """… and by how much, over its steps in the median."""


@dataclass(frozen=True, eq=False)
class Observability:
    """What is known of a motion from sensors, whatever they happen to read."""

    names: tuple[str, ...]
    """Coordinates; velocities, with `d_` in front where they go by the name of a coordinate; unknown forces."""
    t: Float[np.ndarray, " steps"]
    """[s]"""
    std: Float[np.ndarray, "steps names"]
    """Standard deviations with the sensors."""
    blind_std: Float[np.ndarray, "steps names"]
    """The same if nothing was known but the size of the mechanism."""
    unknowns: Mapping[str, float]
    """Standard deviation of each unknown number of mechanism and sensors, as a share of that of its prior."""
    candidates: tuple[Candidate, ...]
    """Other sensors, the most useful first."""

    @property
    def share(self) -> Float[np.ndarray, "steps names"]:
        """What is left of the standard deviations, 1 at most; nan for what cannot move."""
        moves = self.blind_std > 1e-9 * np.max(self.blind_std)
        return np.where(moves, np.minimum(self.std / np.where(moves, self.blind_std, 1.0), 1.0), np.nan)

    @property
    def unseen(self) -> dict[str, list[tuple[float, float]]]:
        """Variables that no sensor sees, and from when to when [s]."""
        found = {}
        for name, share in zip(self.names, self.share.T, strict=True):
            blind = np.concatenate([[False], share > _UNSEEN, [False]])
            edges = np.flatnonzero(np.diff(blind.astype(int)))
            if len(edges):
                found[name] = [(float(self.t[a]), float(self.t[b - 1])) for a, b in edges.reshape(-1, 2)]
        return found

    def report(self) -> str:
        """In words."""
        lines = []
        unseen = self.unseen
        always = [name for name, spans in unseen.items() if spans == [(float(self.t[0]), float(self.t[-1]))]]
        if len(always) == np.count_nonzero(np.any(np.isfinite(self.share), axis=0)):
            lines.append("no sensor sees anything of the motion")
        elif always:
            lines.append(f"no sensor ever sees {listed(always)}")
        for name, spans in unseen.items():
            if name not in always:
                when = listed(f"{a:.4g} to {b:.4g} s" if b > a else f"at {a:.4g} s" for a, b in spans[:3])
                more = f" and {len(spans) - 3} more times" if len(spans) > 3 else ""
                lines.append(f"no sensor sees {name} from {when}{more}".replace("from at", "at"))
        if not unseen:
            lines.append("the sensors see all of the motion, all the time")
        worst = [
            f"{name} {np.nanmedian(share):.1%}"
            for name, share in sorted(
                zip(self.names, self.share.T, strict=True),
                key=lambda item: -np.nan_to_num(np.nanmedian(item[1]), nan=-1),
            )[:3]
            if np.isfinite(share).any()
        ]
        lines.append(f"least well known, as a share of what is unknown without sensors: {', '.join(worst)}")
        for name, share in self.unknowns.items():
            if share > _UNSEEN:
                lines.append(f"{name} cannot be told from this motion: {share:.0%} of its prior uncertainty is left")
        if self.candidates:
            lines.append("sensors that would help most:")
            width = max(len(one.name) for one in self.candidates[:5])
            for one in self.candidates[:5]:
                gain = f"{one.information:8.1f} nats; {one.variable} {one.factor:.3g} times better known"
                lines.append(f"  {one.name:<{width}} {gain}")
        return "\n".join(lines)


def observability(
    mechanism: AbstractMechanism,
    motion: Any,
    sensors: Sequence[AbstractSensor],
    inputs: Sequence[AbstractInput] = (),
    *,
    rates: Mapping[str, float] | None = None,
    candidates: Sequence[AbstractSensor] | None = None,
) -> Observability:
    """What sensors can tell of a motion: which coordinates none of them sees, when, and which other sensor would help.

    Nothing is measured here: the covariance of an estimate along a given motion does not depend on what is read. It is
    compared with that of a motion of which nothing is known but that its coordinates, and their changes in the time in
    which its own weight and springs move it so far, stay within the reach of the mechanism.

    Args:
        mechanism: The mechanism.
        motion: A motion that it makes, with attributes t, q and dq at equal steps: a simulation or an estimate.
        sensors: The sensors there are.
        inputs: Unknown forces as in `smooth`; sizes that are None count as large.
        rates: How often sensors read, by name, at most once a step; every step by default [Hz].
        candidates: Sensors that might be added. By default gyroscopes on all bodies, encoders of their angles in the
            plane, and the positions of all points that move, in space of all bodies; or, of a family that tells
            neither bodies nor points, encoders of all coordinates and speeds.

    Raises:
        ArgumentError: An argument is invalid.
    """
    checked_mechanism(mechanism)
    sensors = checked_sensors(mechanism, sensors)
    checked_motion(motion)
    inputs = checked_inputs(mechanism, inputs, sensors)
    t, q, dq = (np.asarray(getattr(motion, key)) for key in ("t", "q", "dq"))
    if len(t) < 3 or np.ptp(np.diff(t)) > 1e-6 * (t[1] - t[0]):
        raise ArgumentError("motion: expected at least three equal steps in time")
    t, q, dq = t[:_MOST_STEPS], q[:_MOST_STEPS], dq[:_MOST_STEPS]
    duration = float(t[-1] - t[0])
    if candidates is None:
        taken = {sensor.name for sensor in sensors}
        candidates = [sensor for sensor in candidate_sensors(mechanism, duration) if sensor.name not in taken]
    every = checked_sensors(mechanism, (*sensors, *candidates))
    for name in rates or {}:
        if name not in [sensor.name for sensor in every]:
            raise ArgumentError(f"rates: expected names of sensors; found {name!r}")

    every, inputs, _ = freed_sizes(mechanism, every, inputs, duration)
    mechanism, every, inputs, free = freed_model(mechanism, every, inputs)
    mechanism = mechanism.evaluated()
    chart = chosen_coordinates(mechanism, None)
    dt = jax.device_put(np.asarray(t[1] - t[0], float))
    at_steps = tuple(f"{sensor.name}.delay" not in free.names for sensor in every)
    model = EstimationModel(mechanism, every, inputs, free, dt, chart, nominal_delays(every), at_steps)
    steps = jax.device_put(np.concatenate([q, dq, np.zeros((len(t), model.memory))], axis=1))
    data, masks = _blank(model, steps, t, rates or {}), np.zeros((1 + len(candidates), len(every)))
    masks[:, : len(sensors)] = 1.0
    masks[1:, len(sensors) :] = np.eye(len(candidates))

    own, *others = [_known(model, steps, data, mask) for mask in masks]
    blind = np.asarray(own.blind_std)
    names = (
        *mechanism.coordinate_names,
        *(f"d_{name}" if name in mechanism.coordinate_names else name for name in mechanism.velocity_names),
        *(force.name for force in model.augmented),
    )
    moves = blind > 1e-9 * np.max(blind)
    ranking = []
    for sensor, other in zip(candidates, others, strict=True):
        gain = np.where(moves, np.asarray(own.std) / np.where(moves, np.asarray(other.std), 1.0), np.nan)
        median = np.nanmedian(np.where(moves.any(axis=0), gain, 1.0), axis=0)
        best = int(np.argmax(np.nan_to_num(median)))
        information = float(other.half_log_determinant - own.half_log_determinant)
        ranking.append(Candidate(sensor.name, information, names[best], float(median[best])))
    ranking.sort(key=lambda one: -one.information)
    own_sensors = tuple(sensor.name for sensor in sensors)
    shares = free.named(jax.device_put(np.asarray(own.unknowns_std) / np.asarray(free.sigma)))
    unknowns = {
        place.name: float(np.max(shares[place.name]))
        for place in free.places
        if of_mechanism(place) or place.path[1].key in own_sensors
    }
    return Observability(names, t, np.asarray(own.std), blind, unknowns, tuple(ranking))


def candidate_sensors(mechanism: AbstractMechanism, duration: float) -> list[AbstractSensor]:
    """Sensors that one might think of for a motion of this duration [s]: of every body and free point, or else of every
    coordinate and velocity."""
    found: list[AbstractSensor] = []
    length = _size(mechanism)
    close, rate = _PLACE * length, _RATE / own_scale(mechanism, duration).time
    for body in mechanism.body_names:
        _, origin = jax.eval_shape(lambda q, body=body: mechanism.body_frame(body, q, 0.0), mechanism.reference)
        if origin.shape == (2,):
            found.append(Encoder(f"angle of {body}", body=body, sigma=_PLACE))
            found.append(Gyroscope(f"gyroscope on {body}", body=body, sigma=rate))
        else:
            found.append(Position(f"position of body {body}", body=body, axes=_SPACE, sigma=close))
            found.append(Gyroscope(f"gyroscope on {body}", body=body, axes=_SPACE, sigma=rate))
    for k, point in enumerate(mechanism.point_names):
        if k not in mechanism.fixed_points:
            place = jax.eval_shape(lambda q, point=point: mechanism.point_position(point, q), mechanism.reference)
            found.append(Position(f"position of {point}", point=point, axes=_SPACE[: place.size], sigma=close))
    if found:
        return found
    for name, unit in zip(mechanism.coordinate_names, mechanism.coordinate_units, strict=True):
        if unit in ("m", "rad", "SI"):
            size = length if unit == "m" else 1.0
            found.append(Encoder(f"encoder of {name}", of=name, unit=unit.replace("SI", "rad"), sigma=_PLACE * size))
    for name, unit in zip(mechanism.velocity_names, mechanism.velocity_units, strict=True):
        if unit in ("m/s", "rad/s", "SI"):
            size = length if unit == "m/s" else 1.0
            found.append(Velocity(f"speed of {name}", of=name, unit=unit.replace("SI", "rad/s"), sigma=rate * size))
    return found


class _Known(eqx.Module):
    """What is known with some of the sensors."""

    std: Float[Array, "steps nx"]
    blind_std: Float[Array, "steps nx"]
    half_log_determinant: Float[Array, ""]
    unknowns_std: Float[Array, " p"]


def _size(mechanism: AbstractMechanism) -> float:
    """The largest reach of coordinates that are lengths, or of all if none is [m]."""
    kinds = zip(np.asarray(mechanism.reach), mechanism.velocity_units, strict=True)
    reach = [float(far) for far, unit in kinds if unit == "m/s"]
    return max(reach, default=float(np.max(mechanism.reach)))


@program
def _known(model: EstimationModel, steps, data: StepData, active: Float[Array, " sensors"]) -> _Known:
    samples = tuple(s._replace(mask=s.mask * on) for s, on in zip(data.samples, active, strict=True))
    x = Unknowns(steps, model.free.value)
    graph = model.graph(x, data._replace(samples=samples))
    system, _ = graph.linearize(x)
    factorization = METHODS["sqrt"](system, *graph.zeros(x))
    marginals = factorization.marginals()
    E = graph.tangents(x)
    assert E is not None
    variance = jnp.einsum("kxa,kab,kxb->kx", E, model.covariances(marginals), E)
    E = E[..., : model.local_size]
    dof = model.chart.dof
    sigma = 1 / data.prior_weights[0]
    sigma = sigma.at[dof : 2 * dof].divide(_ANY_SPEED)
    blind = jnp.sqrt(jnp.einsum("kxa,a->kx", E**2, sigma**2))
    unknowns = jnp.sqrt(jnp.diag(marginals.globals))
    return _Known(jnp.sqrt(jnp.maximum(variance, 0.0)), blind, factorization.log_determinant() / 2, unknowns)


def _blank(model: EstimationModel, steps, t, rates: Mapping[str, float]) -> StepData:
    """Steps at which every sensor reads something, as often as it does."""
    T = len(t)
    extent = float(np.max(model.mechanism.reach))
    speed = extent / own_scale(model.mechanism, float(t[-1] - t[0])).time
    dof = model.chart.dof
    forces = [force.size for force in model.augmented] + [np.ones(dof)] * (model.remembered is not None)
    # A prior of velocities would tell of directions, and so of positions, where the speed is known.
    sigma = np.concatenate([np.full(dof, extent), np.full(dof, _ANY_SPEED * speed), *map(np.atleast_1d, forces)])
    weights = np.zeros((T, model.local_size))
    weights[0] = 1 / sigma
    samples = []
    for sensor in model.sensors:
        ticks = np.floor((t - t[0]) * rates.get(sensor.name, np.inf) + 1e-6) if sensor.name in rates else np.arange(T)
        reads = np.concatenate([[True], np.diff(ticks) > 0])
        mask = np.broadcast_to(reads.astype(float)[:, None, None], (T, 1, sensor.rows))
        none = np.zeros((T, 1, len(model.commands)))
        samples.append(Samples(np.zeros((T, 1, sensor.rows)), np.ones((T, 1)), mask, none))
    commands = np.zeros((T, 2, len(model.commands)))
    linked = (np.arange(T) > 0).astype(float)
    return jax.device_put(StepData(t, linked, steps, weights, commands, commands[:, 1], tuple(samples)))
