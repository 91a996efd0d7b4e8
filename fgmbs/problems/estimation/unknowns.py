"""Unknown numbers of an estimate: where they may stand, what is asked of them before and after."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from jaxtyping import Array, Float

from fgmbs.errors import ArgumentError
from fgmbs.inputs import AbstractInput
from fgmbs.kinematics.names import listed
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.sensors.base import AbstractSensor, attribute
from fgmbs.unknowns import Free, Path, freed, is_unknown

_NOTHING = 1e-9
"""Change of all residuals together, in their standard deviations, by one standard deviation of a number's prior."""
_ONE = 1e-11
"""Eigenvalue of the information, with a diagonal of ones, of a combination of numbers that nothing tells …"""
_PART = 0.05
"""… and how much of it a number is at least."""


def freed_model(
    mechanism: AbstractMechanism,
    sensors: Sequence[AbstractSensor],
    inputs: Sequence[AbstractInput],
    recordings: int = 1,
) -> tuple[AbstractMechanism, tuple[AbstractSensor, ...], tuple[AbstractInput, ...], Free]:
    """Mechanism, sensors and inputs with the values of their unknown numbers, and which these are.

    Raises:
        ArgumentError: Two of one name, one where there is no number, or a delay that is own to each recording.
    """
    for part in (mechanism, *sensors, *inputs):
        for place in _static(part):
            where = place if isinstance(part, AbstractMechanism) else f"{part.name}.{place}"
            raise ArgumentError(f"unknown {where!r}: expected the place of a number; found one of structure")

    parts = mechanism, {part.name: part for part in (*sensors, *inputs)}
    (mechanism, shared), free = freed(parts, lambda path: name_of(mechanism, path), recordings)
    for place in free.places:
        if place.copies > 1 and place.path[0].idx == 1 and attribute(place.path) == "delay":
            raise ArgumentError(
                f"unknown {place.name!r}: own: expected a delay that all recordings share, as samples are placed by "
                "it; found True; share it, or estimate the recordings one by one"
            )
    for k, twice in enumerate(free.names):
        if twice in free.names[:k]:
            raise ArgumentError(f"unknowns: expected different names; found {twice!r} twice; rename the sensor")
    sensors, inputs = (tuple(shared[part.name] for part in parts) for parts in (sensors, inputs))
    return mechanism, sensors, inputs, free


def name_of(mechanism: AbstractMechanism, path: Path) -> str:
    """What the number at a path in (mechanism, sensors and inputs by name) is called."""
    return mechanism.parameter_name(path[1:]) if path[0].idx == 0 else f"{path[1].key}.{attribute(path)}"


def _static(part: Any) -> Iterator[str]:
    """Where in a module there is `Unknown` in place of what is no number."""
    if is_unknown(part) or not dataclasses.is_dataclass(part):
        return
    for field in dataclasses.fields(part):
        value = getattr(part, field.name, None)
        if not field.metadata.get("static", False):
            yield from (f"{field.name}.{place}" for place in _static(value))
        elif is_unknown(value):
            yield field.name


def checked_priors(free: Free) -> None:
    """Refuses unknown numbers that a fixed-lag smoother, which begins with nothing but priors, cannot start with.

    Raises:
        ArgumentError: One of infinite standard deviation.
    """
    for name, sigma in free.named(free.sigma).items():
        if not np.all(np.isfinite(sigma)):
            raise ArgumentError(
                f"unknown {name!r}: sigma: expected a finite standard deviation, as a fixed-lag smoother needs; "
                "found inf; find it without a window first"
            )


def checked_findable(
    free: Free, theta: Float[Array, " p"], influence: Float[Array, " p"], information: Float[Array, "p p"]
) -> None:
    """Refuses unknown numbers that recordings cannot tell.

    Args:
        free: Which numbers these are.
        theta: Where they were looked for.
        influence: How much each changes all residuals, in their standard deviations.
        information: Of the recordings and of the priors about θ, the motion being found, too.

    Raises:
        ArgumentError: One that changes no residual, or some of which only a combination does, without a prior.
    """
    sigma = np.asarray(free.sigma)
    names = free.number_names
    scale = np.where(np.isfinite(sigma), sigma, np.maximum(np.abs(np.asarray(theta)), 1.0))
    without = np.asarray(influence) * scale < _NOTHING
    if without.any():
        raise ArgumentError(
            f"unknown {_those(names, without)}: expected numbers that the readings depend on; "
            "found no influence on any of them"
        )
    information = np.asarray(information)
    if not np.isfinite(information).all():
        return
    unit = np.sqrt(np.maximum(np.diagonal(information), np.finfo(float).tiny))
    values, directions = np.linalg.eigh(information / np.outer(unit, unit))
    for value, direction in zip(values, directions.T, strict=True):
        parts = np.abs(direction) > _PART
        if value >= _ONE or np.isfinite(sigma[parts]).all():
            continue
        found = (
            "found that only a combination of them matters; give one of them its value, or sigma"
            if parts.sum() > 1
            else "found that some motion takes its place; give its value, or sigma"
        )
        raise ArgumentError(f"unknown {_those(names, parts)}: expected numbers that the recording can tell; {found}")


def _those(names: Sequence[str], which: np.ndarray) -> str:
    return listed(names[k] for k in np.flatnonzero(which))
