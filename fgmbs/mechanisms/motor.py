"""Motors: what a command does behind a gear; for mechanisms of one's own and those of files.

A class derived from `AbstractMechanism` has one as a field, and three places where it counts:

    motor: Motor = Motor(0.05, rotor_inertia=2e-5, back_emf=2e-3)

    def mass_matrix(self, q):
        return lagrangian.mass_matrix(self.kinetic, q) + jnp.diag(jnp.array([self.motor.inertia, 0.0]))

    def forces(self, q, dq, t):
        return … + jnp.array([self.motor.force(dq[0], q[0]), 0.0])

    def actuation(self, q, t):
        return jnp.array([[self.motor.per_command], [0.0]])

What limits a command, and how late it acts, is said where it is recorded: `fgmbs.inputs.Command`.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fgmbs.arguments import Numbers, refuse, whole_number
from fgmbs.compiled.tracing import is_traced
from fgmbs.errors import ArgumentError
from fgmbs.mechanisms.friction import given, harmonics, periodic
from fgmbs.unknowns import Unknown, known


class Motor(eqx.Module):
    """A drive of torque n (g u − k n ω + cogging(n θ)) and inertia n² J at a joint of angle θ and speed ω, n its gear.

    Numbers that are not given are not there; each may be `Unknown`, and an array over several joints.
    """

    gain: Float[Array, "*joints"] | Unknown
    """g, torque of the rotor per unit of the command [N·m/V …]."""
    gear: Float[Array, "*joints"] | Unknown
    """n, turns of the rotor per turn of the joint."""
    rotor_inertia: Float[Array, "*joints"] | Unknown | None
    """J, of the rotor about its axis [kg·m²]."""
    back_emf: Float[Array, "*joints"] | Unknown | None
    """k, torque that the rotor loses by its speed: by a given voltage, what back-EMF takes of it [N·m·s]."""
    cosines: Float[Array, "*amplitudes"] | Unknown | None
    """Cogging: amplitudes of cos(p φ), cos(2 p φ), … of the angle φ = n θ of the rotor along the first axis [N·m] …"""
    sines: Float[Array, "*amplitudes"] | Unknown | None
    """… and of sin(p φ), sin(2 p φ), …"""
    periods: int | tuple[int, ...] = eqx.field(static=True)
    """p, periods of cogging in a turn of the rotor; of each joint, if they differ."""

    def __init__(
        self,
        gain: Numbers | Unknown = 1.0,
        *,
        gear: Numbers | Unknown = 1.0,
        rotor_inertia: Numbers | Unknown | None = None,
        back_emf: Numbers | Unknown | None = None,
        cosines: Numbers | Unknown | None = None,
        sines: Numbers | Unknown | None = None,
        periods: int | tuple[int, ...] = 1,
    ):
        """See the class.

        Raises:
            ArgumentError: Invalid numbers.
        """
        self.gain, self.gear = given("gain", gain), given("gear", gear)
        if self.gain is None or self.gear is None:
            raise ArgumentError(f"{'gain' if self.gain is None else 'gear'}: expected numbers; found None")
        self.rotor_inertia, self.back_emf = given("rotor_inertia", rotor_inertia), given("back_emf", back_emf)
        self.cosines, self.sines = harmonics("cosines", cosines), harmonics("sines", sines)
        if isinstance(periods, tuple):
            self.periods = tuple(whole_number("periods", one, 1) for one in periods)
        else:
            self.periods = whole_number("periods", periods, 1)
        for key, bad, expected in (
            ("gear", np.equal, "numbers other than 0"),
            ("rotor_inertia", np.less, "numbers of at least 0"),
        ):
            value = known(getattr(self, key))
            if value is not None and not is_traced(value):
                refuse(key, np.asarray(value), bad(value, 0), expected)

    @property
    def per_command(self) -> Float[Array, "*joints"]:
        """Torque at the joint per unit of the command: a column of `actuation`."""
        of = known(self)
        return of.gear * of.gain

    @property
    def inertia(self) -> Float[Array, "*joints"]:
        """What the rotor adds to the mass matrix in the place of the joint [kg·m²]."""
        of = known(self)
        return jnp.zeros_like(of.gear) if of.rotor_inertia is None else of.gear**2 * of.rotor_inertia

    def force(self, speed: Numbers, angle: Numbers | None = None) -> Float[Array, "*joints"]:
        """Torque at the joint without a command [N·m].

        Args:
            speed: Of the joint [rad/s].
            angle: Of the joint, if there is cogging [rad].

        Raises:
            ArgumentError: There is none, though there is cogging.
        """
        of, speed = known(self), jnp.asarray(speed, dtype=float)
        torque = jnp.zeros_like(speed)
        if of.back_emf is not None:
            torque = torque - of.gear**2 * of.back_emf * speed
        for function, amplitudes in ((jnp.cos, of.cosines), (jnp.sin, of.sines)):
            if amplitudes is not None:
                if angle is None:
                    raise ArgumentError("angle: expected numbers, because the motor has cogging; found none")
                phase = of.gear * jnp.asarray(of.periods, dtype=float) * jnp.asarray(angle, dtype=float)
                torque = torque + of.gear * periodic(function, amplitudes, phase)
        return torque
