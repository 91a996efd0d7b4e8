"""Numbers of the mechanism that are known to be others in some recordings: a payload, a brake that was set."""

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from fgmbs.errors import ArgumentError
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.signals.recordings.recording import Recording
from fgmbs.unknowns import Path, filled, is_unknown


class Given(eqx.Module):
    """What each of several recordings has in the place of numbers of the mechanism that they share."""

    names: tuple[str, ...] = eqx.field(static=True, default=())
    paths: tuple[Path, ...] = eqx.field(static=True, default=())
    """Where in the mechanism they are."""
    values: tuple[Float[Array, "..."], ...] = ()
    """Of all recordings along a first axis, or of one of them."""

    def of(self, recording: Int[Array, ""] | int) -> "Given":
        """Those of a recording."""
        return Given(self.names, self.paths, tuple(value[recording] for value in self.values))

    def put(self, mechanism: AbstractMechanism) -> AbstractMechanism:
        """The mechanism with those of one recording, without what is derived from them."""
        return filled(mechanism.bare(), self.paths, self.values) if self.paths else mechanism


class Mechanisms(NamedTuple):
    """The mechanism in several recordings, or in one."""

    mechanism: AbstractMechanism
    """That which they share; of a single recording, with the numbers that it has."""
    given: Given
    """What each of several has in the place of numbers of it."""
    replaced: Given
    """What the mechanism has without those of a single recording."""


def of_recordings(mechanism: AbstractMechanism, recordings: Sequence[Recording]) -> Mechanisms:
    """The mechanism in recordings.

    Raises:
        ArgumentError: A number that the mechanism does not have, that it cannot have, or that is to be found.
    """
    names = tuple(dict.fromkeys(name for one in recordings for name in one.numbers))
    if not names:
        return Mechanisms(mechanism, Given(), Given())
    for one in recordings:
        try:
            mechanism.with_parameters(one.numbers)
        except ArgumentError as error:
            raise ArgumentError(f"{one.source}: numbers{str(error).removeprefix('values')}") from None
    mechanism = mechanism.with_own_leaves(names).bare()
    found = mechanism.named_leaves()
    for name in names:
        if is_unknown(found[name][1]):
            raise ArgumentError(
                f"recordings: expected numbers that are not to be found; found {name!r}, which is; leave it out of "
                "those to be found, or of the numbers of recordings"
            )
    paths, shared = zip(*(found[name] for name in names), strict=True)
    values = [
        np.stack([np.broadcast_to(np.asarray(one.numbers.get(name, leaf), float), leaf.shape) for one in recordings])
        for name, leaf in zip(names, shared, strict=True)
    ]
    given = Given(names, paths, tuple(jax.device_put(values)))
    if len(recordings) > 1:
        return Mechanisms(mechanism, given, Given())
    return Mechanisms(given.of(0).put(mechanism), Given(), Given(names, paths, tuple(map(jnp.asarray, shared))))
