"""Load cells: forces in joints."""

from typing import ClassVar, Unpack

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from fgmbs.arguments import nearest
from fgmbs.errors import ArgumentError
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.sensors.base import AbstractSensor, Reading
from fgmbs.sensors.channel import Channel, ChannelOptions
from fgmbs.sensors.places import Axes, along, checked_axes


class LoadCell(AbstractSensor):
    """Force on a body at one of its points by all that meets there, see `joint_forces` of the mechanism [N]."""

    channel: Channel
    pin: str = eqx.field(static=True)
    frame: str = eqx.field(static=True)
    axes: Axes = eqx.field(static=True)
    order: ClassVar[int] = 3

    def __init__(
        self,
        name: str,
        *,
        pin: str,
        frame: str = "ground",
        axes: Axes = ("x", "y"),
        **options: Unpack[ChannelOptions],
    ):
        """A load cell.

        Args:
            name: Its name.
            pin: BODY@POINT; a gain of −1 gives the force that the body exerts.
            frame: Whose axes the force is measured in.
            axes: What each row reads, as ("x", "y") or ("-x",).
            **options: What all sensors take, see `ChannelOptions`.

        Raises:
            ArgumentError: An invalid argument.
        """
        if frame not in ("ground", "body"):
            raise ArgumentError(f"sensor {name!r}: frame: expected 'ground' or 'body'; found {frame!r}")
        self.pin, self.frame, self.axes = pin, frame, checked_axes(name, axes)
        self.channel = Channel(name, len(self.axes), **options)

    @property
    def units(self) -> tuple[str, ...]:
        return ("N",) * self.rows

    def ideal(self, mechanism: AbstractMechanism, reading: Reading) -> Float[Array, " rows"]:
        assert reading.ddq is not None and reading.lambda_ is not None
        u = jnp.array([reading.forces.get(name, 0.0) for name in mechanism.actuator_names], reading.q.dtype)
        forces = mechanism.joint_forces(reading.q, reading.dq, reading.ddq, reading.lambda_, reading.t, u)
        if self.pin not in mechanism.pin_names:
            raise ArgumentError(f"pin: there is no pin {self.pin!r}{nearest(self.pin, mechanism.pin_names, 'pins')}")
        force = forces[mechanism.pin_names.index(self.pin)]
        if self.frame == "body":
            rotation, _ = mechanism.body_frame(self.pin.split("@")[0], reading.q, reading.t)
            force = rotation.T @ force
        return along(self.axes, force)
