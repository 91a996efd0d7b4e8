"""Force–torque sensors in the joints of robots."""

from typing import ClassVar, Unpack

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from fgmbs.errors import ArgumentError
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.sensors.base import AbstractSensor, Reading
from fgmbs.sensors.channel import Channel, ChannelOptions
from fgmbs.sensors.places import Axes, along, checked_axes

_ALL: Axes = ("x", "y", "z")


class ForceTorque(AbstractSensor):
    """What a joint of a robot transmits: force and torque on the link after it by the link before it [N, N m]."""

    channel: Channel
    joint: str = eqx.field(static=True)
    frame: str | None = eqx.field(static=True)
    force: Axes = eqx.field(static=True)
    torque: Axes = eqx.field(static=True)
    order: ClassVar[int] = 3

    def __init__(
        self,
        name: str,
        *,
        joint: str,
        frame: str | None = None,
        force: Axes = _ALL,
        torque: Axes = _ALL,
        **options: Unpack[ChannelOptions],
    ):
        """A force–torque sensor.

        Args:
            name: Its name.
            joint: Joint that it sits in, one that moves or a fixed one that is separate (see `load`); a gain of −1
                gives what the link after the joint exerts.
            frame: Link or frame in whose axes it reads, and about whose origin torques are; by default the link after
                the joint.
            force: Axes of the forces that it reads, as ("x", "-y"); () for none.
            torque: Axes of the torques that it reads; () for none.
            **options: What all sensors take, see `ChannelOptions`. Columns are NAME.force.x … NAME.torque.z by default.

        Raises:
            ArgumentError: An invalid argument.
        """
        self.joint, self.frame = joint, frame
        self.force, self.torque = (
            checked_axes(name, axes, key) if len(axes) else () for key, axes in (("force", force), ("torque", torque))
        )
        if not self.force and not self.torque:
            raise ArgumentError(f"sensor {name!r}: force: expected axes of forces or of torques; found none of both")
        rows = [("force", axis) for axis in self.force] + [("torque", axis) for axis in self.torque]
        if options.get("columns") is None:
            options["columns"] = [f"{name}.{what}.{axis[-1]}" for what, axis in rows]
        self.channel = Channel(name, len(rows), **options)

    @property
    def units(self) -> tuple[str, ...]:
        return ("N",) * len(self.force) + ("N m",) * len(self.torque)

    def ideal(self, mechanism: AbstractMechanism, reading: Reading) -> Float[Array, " rows"]:
        assert reading.ddq is not None and reading.lambda_ is not None
        q, t = reading.q, reading.t
        wrench = mechanism.joint_wrench(self.joint, q, reading.dq, reading.ddq, reading.lambda_, t)
        f, n, R = wrench.force, wrench.moment, wrench.axes
        if self.frame is not None:
            R, origin = mechanism.body_frame(self.frame, q, t)
            n = n + jnp.cross(wrench.origin - origin, f)
        parts = [along(axes, R.T @ part) for axes, part in ((self.force, f), (self.torque, n)) if axes]
        return jnp.concatenate(parts)
