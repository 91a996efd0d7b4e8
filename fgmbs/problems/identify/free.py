"""Which numbers are to be identified, by their names: of the mechanism, of sensors, of forces."""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from fgmbs.arguments import nearest, of_type
from fgmbs.compiled.tracing import is_traced
from fgmbs.errors import ArgumentError
from fgmbs.inputs import AbstractInput, Command
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.sensors.base import AbstractSensor
from fgmbs.unknowns import Free, Unknown, is_unknown, known

FreeNumbers: TypeAlias = Mapping[str, Any] | Sequence[str]
"""Names, or names with bounds, a first value, an `Unknown` or a mapping of its arguments; True: from the value they
have."""

_CALIBRATION = ("bias", "gain", "delay", "misalignment")
_NEUTRAL = {"bias": 0.0, "gain": 1.0, "delay": 0.0, "misalignment": 0.0}
_OF_COMMANDS = {"lag": 0.0, "limit": None}
"""The same of what a command may lack; no limit is none."""
_POSITIVE = frozenset({"mass", "I0", "stiffness", "length", "limit"})
"""Last parts of names of numbers that are positive; equations of motion are linear in most of them, so that they are
looked for as they are …"""
_LEAST = 1e-4
"""… down to this part of their first value."""
_SIZES = frozenset({"sigma", "power", "density", "rate"})
"""The same of sizes of noise, whose logarithm is looked for."""
_OWN_SCALE = _SIZES | {"time_sigma"}
"""Sizes that begin at the mechanism's own scale, or at how irregular stamps are, where their value is 0."""
_NOT_NEGATIVE = frozenset(
    {"damping", "coulomb", "friction", "stribeck", "quadratic", "rotor_inertia", "back_emf", "lag"}
)
_ROUGH = 10.0
"""Factor by which rough first values are larger or smaller than what is given."""
_ALL_FORMS = "True, a first value, a pair of bounds, or an Unknown"
_OF_UNKNOWN = tuple(field.name for field in dataclasses.fields(Unknown))


class Parts(NamedTuple):
    """What an identification is about."""

    mechanism: AbstractMechanism
    sensors: tuple[AbstractSensor, ...]
    inputs: tuple[AbstractInput, ...]


def freed_by_name(parts: Parts, free: FreeNumbers, recordings: int = 1) -> Parts:
    """Mechanism, sensors and inputs with `Unknown` at the numbers that are free.

    A name is that of a parameter of the mechanism ("coupler.mass", of a class of one's own that of a field), of a
    number of a sensor ("gyro.bias") or of a force ("motor.gain", "disturbance.power"). Numbers that are positive by
    their kind stay so unless a lower bound is given, friction may become 0; `Unknown(…, log=True)` looks for a
    logarithm. Of what is own to each of several recordings there may be a row for each.

    Raises:
        ArgumentError: There is no such number; bounds are crossed, or the value is not between them.
    """
    if isinstance(free, str) or not hasattr(free, "keys"):
        of_type("free", free, (list, tuple, set, frozenset), f"names, or {_ALL_FORMS} by name")
    for name in free:
        of_type("a name in free", name, str, "a text")
    free = free if hasattr(free, "keys") else dict.fromkeys(free, True)
    parts = parts._replace(mechanism=parts.mechanism.with_own_leaves(free))
    names = numbers_of(parts)
    changes: dict[tuple[str, Any], Unknown] = {}
    for name, wanted in free.items():
        if name not in names:
            advice = nearest(name, {**parts.mechanism.physical_parameters(), **names}, "numbers that may be free")
            raise ArgumentError(f"free: there is no number {name!r}{advice}")
        place = names[name]
        changes[place.owner, place.key] = _unknown(name, place, wanted, recordings)
    return _put(parts, changes)


class _Place(NamedTuple):
    owner: str
    """"" for the mechanism, else the name of a sensor or of an input."""
    key: Any
    """Path of a leaf of the mechanism, else the name of an attribute."""
    value: Any


def numbers_of(parts: Parts) -> dict[str, _Place]:
    """All numbers that may be free, by name."""
    found = {}
    for name, (path, leaf) in parts.mechanism.named_leaves().items():
        found[name] = _Place("", path, leaf)
    for sensor in parts.sensors:
        for key in _CALIBRATION:
            value = getattr(sensor, key)
            if key == "misalignment" and value is None and sensor.group not in (2, 3):
                continue
            value = np.full(_shape(sensor, key), _NEUTRAL[key]) if value is None else value
            found.setdefault(f"{sensor.name}.{key}", _Place(sensor.name, key, value))
        found.setdefault(f"{sensor.name}.sigma", _Place(sensor.name, "sigma", sensor.sigma))
        stamps = 0.0 if sensor.time_sigma is None else sensor.time_sigma
        found.setdefault(f"{sensor.name}.time_sigma", _Place(sensor.name, "time_sigma", stamps))
        own = {name: leaf for name, leaf in vars(sensor).items() if name != "channel" and _is_number(leaf)}
        for key, value in own.items():
            found.setdefault(f"{sensor.name}.{key}", _Place(sensor.name, key, value))
    for force in parts.inputs:
        for key, value in vars(force).items():
            # Of unknown forces the sizes are found; what else shapes their noise has no slope.
            if _is_number(value) and (force.size_key is None or key in force.sizes):
                found.setdefault(f"{force.name}.{key}", _Place(force.name, key, value))
        for key, neutral in _OF_COMMANDS.items() if isinstance(force, Command) else ():
            found.setdefault(f"{force.name}.{key}", _Place(force.name, key, neutral))
    return found


def _shape(sensor: AbstractSensor, key: str) -> tuple[int, ...]:
    """Of a number of its calibration."""
    return (sensor.group,) if key == "bias" or (key == "misalignment" and sensor.group == 3) else ()


def _is_number(leaf: Any) -> bool:
    return is_unknown(leaf) or eqx.is_inexact_array(leaf)


def _unknown(name: str, place: _Place, wanted: Any, recordings: int) -> Unknown:
    """What is known of a free number before."""
    kind = re.sub(r"\[\d+\]$", "", name).rsplit(".", 1)[-1]
    try:
        unknown = _wanted(place, kind, wanted)
        shape, found = np.shape(known(place.value)), unknown.value.shape
        unknown = _bounded(kind, unknown)
        if found in ((), shape):
            return unknown
        if unknown.own and found in ((recordings,), (recordings, *shape)):
            return unknown.by_recording()
        rows = f", or one for each of {recordings} recordings" if unknown.own and recordings > 1 else ""
        raise ArgumentError(f"expected {_numbers(shape)}{rows}; found shape {found}")
    except ArgumentError as error:
        raise ArgumentError(f"free[{name!r}]: {error}") from None


def _wanted(place: _Place, kind: str, wanted: Any) -> Unknown:
    """What is said of a number: all forms of it as an `Unknown`."""
    if is_unknown(wanted):
        own = known(place.value)
        if kind in _POSITIVE | {"sigma"} and np.all(own) and not is_traced(wanted) and not np.any(wanted.value):
            raise ArgumentError(f"value: expected a positive number, where the search begins; found 0; it has {own}")
        return wanted
    free = wanted is True or wanted is None
    if free and is_unknown(place.value):
        return place.value
    value = known(place.value)
    if isinstance(wanted, Mapping):
        said = dict(wanted)
        if strange := [key for key in said if key not in _OF_UNKNOWN]:
            raise ArgumentError(f"there is no argument {strange[0]!r}{nearest(strange[0], _OF_UNKNOWN, 'arguments')}")
    elif isinstance(wanted, tuple | list):
        if len(wanted) != 2 or not all(isinstance(side, Real) and not isinstance(side, bool) for side in wanted):
            raise ArgumentError(f"expected a pair of bounds; found {wanted!r}")
        said = {"lower": float(wanted[0]), "upper": float(wanted[1])}
    elif isinstance(wanted, Real | np.ndarray | jax.Array) and not isinstance(wanted, bool):
        given, shape = np.asarray(wanted), np.shape(value)
        if given.shape not in ((), shape) or not np.issubdtype(given.dtype, np.number):
            pair = "; a pair of bounds is a tuple" if given.shape == (2,) else ""
            raise ArgumentError(f"expected {_numbers(shape)} as first value; found {given!r}{pair}")
        said = {"value": np.broadcast_to(given.astype(float), shape)}
    elif free:
        said = {}
    else:
        raise ArgumentError(f"expected {_ALL_FORMS}; found {wanted!r}")
    if "value" not in said:
        if value is None:
            raise ArgumentError(f"expected a first value, as the command has no {kind}; found none; say {kind}=… of it")
        said["value"] = np.asarray(value, float)
        if place.owner and kind in _OWN_SCALE and np.all(said["value"] == 0):
            return _size_of_own_scale(said)
    if not isinstance(wanted, Mapping):
        said["log"] = kind in _SIZES and bool(np.all(said["value"] > 0))
    return Unknown(**said)


def _size_of_own_scale(said: Mapping[str, Any]) -> Unknown:
    """An unknown size of noise that begins at the mechanism's own scale, for which 0 stands, also outside of bounds."""
    lower, upper = (np.asarray(said.get(side, end), float) for side, end in (("lower", 0.0), ("upper", np.inf)))
    if np.any(upper <= 0):
        raise ArgumentError(f"upper: expected a positive number, as sizes of noise are; found {np.min(upper):g}")
    within = Unknown(**{**said, "value": np.where(lower > 0, lower, np.minimum(1.0, upper))})
    return eqx.tree_at(lambda size: size.value, within, jnp.zeros_like(within.value))


def _numbers(shape: tuple[int, ...]) -> str:
    return f"an array of shape {shape}" if shape else "a number"


def _bounded(kind: str, unknown: Unknown) -> Unknown:
    """The number with the lower bounds of its kind where it has none."""
    if unknown.log or is_traced(unknown):
        return unknown
    value, lower = np.asarray(unknown.value), np.asarray(unknown.lower)
    if kind in _POSITIVE and np.all(value > 0):
        least = _LEAST * float(np.min(value))
    elif kind in _NOT_NEGATIVE and np.all(value >= 0):
        least = 0.0
    else:
        return unknown
    return dataclasses.replace(unknown, lower=np.where(lower == -np.inf, least, lower))


def _put(parts: Parts, changes: Mapping[tuple[str, Any], Unknown]) -> Parts:
    of_mechanism = {key: unknown for (owner, key), unknown in changes.items() if owner == ""}
    mechanism = parts.mechanism.bare()
    leaves, structure = jax.tree_util.tree_flatten_with_path(mechanism, is_leaf=is_unknown)
    new = [_shaped(of_mechanism[path], leaf) if path in of_mechanism else leaf for path, leaf in leaves]
    mechanism = jax.tree.unflatten(structure, new)

    def changed(part):
        for (owner, key), unknown in changes.items():
            if owner == part.name:
                part = _with_number(part, key, unknown)
        return part

    return Parts(mechanism, tuple(map(changed, parts.sensors)), tuple(map(changed, parts.inputs)))


def _shaped(unknown: Unknown, leaf: Any) -> Unknown:
    shape = np.shape(leaf.value if is_unknown(leaf) else leaf)
    return unknown if unknown.value.shape == shape else unknown.reshaped(shape)


def _with_number(part: Any, key: str, unknown: Unknown) -> Any:
    if isinstance(part, AbstractSensor) and key in _CALIBRATION:
        calibration = {**part.channel.calibration, key: unknown.reshaped(_shape(part, key))}
        # In the order that a sensor made with it has.
        calibration = {name: calibration[name] for name in _CALIBRATION if name in calibration}
        return eqx.tree_at(lambda sensor: sensor.channel.calibration, part, calibration, is_leaf=is_unknown)
    of_channel = isinstance(part, AbstractSensor) and key in ("sigma", "time_sigma")
    where = lambda part: getattr(part.channel if of_channel else part, key)
    old = where(part)
    return eqx.tree_at(where, part, _shaped(unknown, jnp.zeros(()) if old is None else old), is_leaf=_is_place)


def _is_place(leaf: Any) -> bool:
    return leaf is None or is_unknown(leaf)


def first_thetas(free: Free, restarts: int) -> Float[np.ndarray, "starts p"]:
    """θ to begin with: as it is given, and rough ones, the same every time.

    Of a number with a prior they are within two of its standard deviations; of one that is positive from a tenth to ten
    times what is given; of another anywhere between its bounds, and where there is none as far away as it is large, or
    by one.
    """
    value, sigma, lower, upper = (np.asarray(of) for of in (free.value, free.sigma, free.lower, free.upper))
    u = np.random.default_rng(0).uniform(-1, 1, (restarts, free.size))
    own = np.where(value == 0, 1.0, np.abs(value))
    ends = np.where(np.isfinite(lower), lower, value - own), np.where(np.isfinite(upper), upper, value + own)
    rough = (ends[0] + ends[1] + u * (ends[1] - ends[0])) / 2
    rough = np.where((lower >= 0) & (value > 0), value * _ROUGH**u, rough)
    rough = np.where(free.logs, value + np.log(_ROUGH) * u, rough)
    rough = np.where(np.isfinite(sigma), value + 2 * np.where(np.isfinite(sigma), sigma, 0.0) * u, rough)
    return np.concatenate([value[None], np.clip(rough, lower, upper)])
