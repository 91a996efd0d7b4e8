"""Friction of joints and guides by their speed, angle and load; for mechanisms of one's own and those of files.

A class derived from `AbstractMechanism` has one as a field, and takes it off its forces:

    friction: Friction = Friction(viscous=1e-3, coulomb=0.02, width=0.05)

    def forces(self, q, dq, t):
        return lagrangian.forces(self.kinetic, self.potential, q, dq) - self.friction(dq)
"""

from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fgmbs.algebra.turning import TURNS, turned
from fgmbs.arguments import Numbers, choice, refuse
from fgmbs.compiled.tracing import is_traced
from fgmbs.errors import ArgumentError
from fgmbs.unknowns import Unknown, known, number

DRY = ("coulomb", "stribeck", "load", "cosines", "sines")
"""Numbers of friction that does not vanish with the speed, but for its sign: these need a width."""
_SIZES = ("viscous", "coulomb", "stribeck", "quadratic", "load")
_WIDTHS = ("stribeck_speed", "width")


class Friction(eqx.Module):
    """The force (1 + a s) (d v + c |v| v + D s) + b against a speed v, its sign s = tanh(v / width) or a clipped one.

    Dry friction is D = coulomb + stribeck exp(−(v / stribeck_speed)²) + load |N| + Σ (cosines cos kθ + sines sin kθ)
    for a load N and an angle θ. Without offset it feeds no energy in: D ≥ 0 and |a| ≤ 1. All derivatives are finite,
    also at rest. Numbers that are not given are not there; each may be `Unknown`, and an array over several joints.
    """

    viscous: Float[Array, "*joints"] | Unknown | None
    """d [N·s/m, N·m·s]"""
    coulomb: Float[Array, "*joints"] | Unknown | None
    """[N, N·m]"""
    stribeck: Float[Array, "*joints"] | Unknown | None
    """Static friction beyond Coulomb's [N, N·m]."""
    stribeck_speed: Float[Array, "*joints"] | Unknown | None
    """Speed at which 1/e of that is left [m/s, rad/s]."""
    quadratic: Float[Array, "*joints"] | Unknown | None
    """c, drag of air or oil [N·s²/m², N·m·s²]."""
    load: Float[Array, "*joints"] | Unknown | None
    """Coulomb friction per unit of the load [1, m]."""
    cosines: Float[Array, "*amplitudes"] | Unknown | None
    """Coulomb friction that varies with the angle: amplitudes of cos θ, cos 2θ, … along the first axis [N, N·m] …"""
    sines: Float[Array, "*amplitudes"] | Unknown | None
    """… and of sin θ, sin 2θ, …"""
    asymmetry: Float[Array, "*joints"] | Unknown | None
    """a: of friction in the positive direction 1 + a counts, in the negative one 1 − a."""
    offset: Float[Array, "*joints"] | Unknown | None
    """b: a constant force that is found as if it were friction [N, N·m]."""
    width: Float[Array, "*joints"] | Unknown | None
    """Speed within which dry friction turns its sign [m/s, rad/s]."""
    shape: str = eqx.field(static=True)

    def __init__(
        self,
        viscous: Numbers | Unknown | None = None,
        coulomb: Numbers | Unknown | None = None,
        *,
        stribeck: Numbers | Unknown | None = None,
        stribeck_speed: Numbers | Unknown | None = None,
        quadratic: Numbers | Unknown | None = None,
        load: Numbers | Unknown | None = None,
        cosines: Numbers | Unknown | None = None,
        sines: Numbers | Unknown | None = None,
        asymmetry: Numbers | Unknown | None = None,
        offset: Numbers | Unknown | None = None,
        width: Numbers | Unknown | None = None,
        shape: str = "tanh",
    ):
        """See the class.

        Raises:
            ArgumentError: Invalid numbers; dry friction without a width, or one of stribeck and its speed without the
                other.
        """
        self.viscous, self.coulomb = given("viscous", viscous), given("coulomb", coulomb)
        self.stribeck, self.stribeck_speed = given("stribeck", stribeck), given("stribeck_speed", stribeck_speed)
        self.quadratic, self.load = given("quadratic", quadratic), given("load", load)
        self.cosines, self.sines = harmonics("cosines", cosines), harmonics("sines", sines)
        self.asymmetry, self.offset = given("asymmetry", asymmetry), given("offset", offset)
        self.width, self.shape = given("width", width), shape
        choice("shape", shape, TURNS)
        for key in _SIZES:
            _refused(key, getattr(self, key), lambda x: x < 0, "numbers of at least 0")
        for key in _WIDTHS:
            _refused(key, getattr(self, key), lambda x: x <= 0, "positive numbers")
        _refused("asymmetry", self.asymmetry, lambda x: abs(x) > 1, "numbers from -1 to 1")
        if (self.stribeck is None) != (self.stribeck_speed is None):
            there, missing = ("stribeck_speed", "stribeck") if self.stribeck is None else ("stribeck", "stribeck_speed")
            raise ArgumentError(f"{missing}: expected a number, because {there} is given; found none")
        dry = [key for key in (*DRY, "asymmetry") if getattr(self, key) is not None]
        if dry and self.width is None:
            raise ArgumentError(
                f"width: expected the speed within which friction turns its sign, because {dry[0]} is given; found none"
            )

    def __call__(
        self,
        speed: Numbers,
        *,
        angle: Numbers | None = None,
        load: Numbers | None = None,
    ) -> Float[Array, "*joints"]:
        """Generalized force against the motion [N, N·m].

        Args:
            speed: [m/s, rad/s]
            angle: What friction that varies with the angle is taken at [rad].
            load: Normal force, torque … that loads the joint; its sign does not matter [N, N·m].

        Raises:
            ArgumentError: There is no angle or load, though the friction depends on it.
        """
        of, speed = known(self), jnp.asarray(speed, dtype=float)
        force = jnp.zeros_like(speed)
        if of.viscous is not None:
            force = force + of.viscous * speed
        if of.quadratic is not None:
            # |v| v has a derivative at rest, |v| alone has none.
            force = force + of.quadratic * jnp.abs(speed) * speed
        if of.width is not None:
            sign = turned(speed / of.width, of.shape)
            force = force + of.dry(speed, angle, load) * sign
            if of.asymmetry is not None:
                force = (1 + of.asymmetry * sign) * force
        return force if of.offset is None else force + of.offset

    def dry(self, speed: Array, angle: Numbers | None, load: Numbers | None) -> Array:
        """D, dry friction at this speed with its sign left out [N, N·m]."""
        size = jnp.zeros_like(speed)
        if self.coulomb is not None:
            size = size + self.coulomb
        if self.stribeck is not None:
            size = size + self.stribeck * jnp.exp(-((speed / self.stribeck_speed) ** 2))
        if self.load is not None:
            size = size + self.load * jnp.abs(_needed("load", load, "load"))
        for function, key in ((jnp.cos, "cosines"), (jnp.sin, "sines")):
            if (amplitudes := getattr(self, key)) is not None:
                size = size + periodic(function, amplitudes, _needed("angle", angle, key))
        return size


def periodic(function: Callable, amplitudes: Float[Array, "*amplitudes"], angle: Float[Array, "*angles"]) -> Array:
    """Σ amplitude_k function(k θ), k = 1, 2, …"""
    orders = jnp.arange(1, amplitudes.shape[0] + 1).reshape(-1, *(1,) * jnp.ndim(angle))
    amplitudes = amplitudes.reshape(amplitudes.shape + (1,) * (orders.ndim - amplitudes.ndim))
    return jnp.sum(amplitudes * function(orders * angle), axis=0)


def given(argument: str, value: Numbers | Unknown | None) -> Array | Unknown | None:
    """An array, `Unknown`, or None where there is none.

    Raises:
        ArgumentError: It is no array of finite numbers.
    """
    return None if value is None else number(argument, value)


def harmonics(argument: str, value: Numbers | Unknown | None) -> Array | Unknown | None:
    """Amplitudes of harmonics.

    Raises:
        ArgumentError: They are no array of finite numbers, or have no axis of harmonics.
    """
    array = given(argument, value)
    if array is not None and not known(array).shape:
        raise ArgumentError(f"{argument}: expected a list, an amplitude for each harmonic; found {value!r}")
    return array


def _refused(argument: str, value: Array | Unknown | None, bad, expected: str) -> None:
    numbers = known(value)
    if numbers is not None and not is_traced(numbers):
        refuse(argument, np.asarray(numbers), np.asarray(bad(np.asarray(numbers))), expected)


def _needed(argument: str, value: Numbers | None, key: str) -> Array:
    if value is None:
        raise ArgumentError(f"{argument}: expected numbers, because the friction has {key}; found none")
    return jnp.asarray(value, dtype=float)
