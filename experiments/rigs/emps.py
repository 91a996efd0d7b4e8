"""The positioning system EMPS of Janot, Gautier and Brunot (nonlinearbenchmark.org), and its recordings."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

import fgmbs
from fgmbs.mechanisms.base import AbstractMechanism
from rigs.recordings import recorded

GAIN = 35.15065
"""Force of the motor by voltage [N/V], as published."""
WIDTH = 1e-3
"""Speed within which Coulomb friction turns its sign [m/s]; the carriage moves at up to 0.2 m/s."""


def _number(default: float):
    return eqx.field(converter=lambda x: jnp.asarray(x, dtype=float), default=default)


class Carriage(AbstractMechanism):
    """A carriage on a ball screw: mass, viscous and Coulomb friction, and a constant force. It moves along `x`."""

    mass: Float[Array, ""] = _number(80.0)
    """Of the carriage, with the inertia of screw and motor [kg]."""
    viscous: Float[Array, ""] = _number(150.0)
    """[N s/m]"""
    coulomb: Float[Array, ""] = _number(10.0)
    """[N]"""
    offset: Float[Array, ""] = _number(0.0)
    """Constant force against positive motion: friction is not the same in both directions [N]."""

    @property
    def coordinate_names(self) -> tuple[str, ...]:
        return ("x",)

    @property
    def constraint_names(self) -> tuple[str, ...]:
        return ()

    @property
    def coordinate_units(self) -> tuple[str, ...]:
        return ("m",)

    @property
    def actuator_names(self) -> tuple[str, ...]:
        return ("motor",)

    @property
    def reference(self) -> Float[Array, "1"]:
        return jnp.zeros(1, self.mass.dtype)

    def evaluated(self) -> "Carriage":
        return self

    def constraints(self, q, t):
        return q[:0]

    def mass_matrix(self, q):
        return self.mass * jnp.eye(1, dtype=q.dtype)

    def potential(self, q):
        return jnp.zeros((), q.dtype)

    def forces(self, q, dq, t):
        return -fgmbs.Friction(self.viscous, self.coulomb, offset=self.offset, width=WIDTH)(dq)

    def actuation(self, q, t):
        return jnp.ones((1, 1), q.dtype)


def recording(name: str) -> fgmbs.Recording:
    """Position `x`, voltage `u`, and of "validation_pulses" the force `pulse` that was added."""
    columns, units = {"x": "q", "u": "u"}, {"x": "m", "u": "V"}
    if name == "validation_pulses":
        columns["pulse"], units["pulse"] = "f_pulse", "N"
    return fgmbs.read_recording(recorded("emps", f"{name}.csv.gz"), columns, units=units)
