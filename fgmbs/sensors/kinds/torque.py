"""Forces of motors."""

from typing import ClassVar, Unpack

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from fgmbs.errors import ArgumentError
from fgmbs.inputs import check_target
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.sensors.base import AbstractSensor, Reading
from fgmbs.sensors.channel import Channel, ChannelOptions


class Torque(AbstractSensor):
    """Force of an actuator, or along a velocity; a current of the motor if the gain tells how much."""

    channel: Channel
    of: str = eqx.field(static=True)
    unit: str = eqx.field(static=True)
    order: ClassVar[int] = 0

    def __init__(self, name: str, *, of: str, unit: str = "N m", **options: Unpack[ChannelOptions]):
        """A sensor of a force.

        Args:
            name: Its name.
            of: Actuator, or velocity that the force acts along.
            unit: Unit of the readings; amperes need a gain [A/(N·m), A/N].
            **options: What all sensors take, see `ChannelOptions`.

        Raises:
            ArgumentError: An invalid argument.
        """
        if unit not in ("N m", "N", "A"):
            raise ArgumentError(f"sensor {name!r}: unit: expected 'N m', 'N' or 'A'; found {unit!r}")
        if unit == "A" and options.get("gain") is None:
            raise ArgumentError(f"sensor {name!r}: gain: expected the current per torque of a reading in A; found none")
        self.channel = Channel(name, 1, **options)
        self.of, self.unit = of, unit

    @property
    def units(self) -> tuple[str, ...]:
        return (self.unit,)

    @property
    def feels_forces(self) -> bool:
        return True

    def ideal(self, mechanism: AbstractMechanism, reading: Reading) -> Float[Array, "1"]:
        check_target(mechanism, self.of, "of")
        return jnp.asarray(reading.forces.get(self.of, 0.0), dtype=reading.q.dtype)[None]
