"""What kinematics ask of a mechanism: configurations, velocities and constraints."""

import abc
from collections.abc import Callable
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from fgmbs.compiled.program import ONCE, program
from fgmbs.typing import Constraints, Coordinates, Scalar, Velocities
from fgmbs.unknowns import known

_Mechanism = TypeVar("_Mechanism", bound="AbstractKinematics")
_FLAT = 1e-3
"""Slope of a row, relative to the steepest one, that does not tell how far the row is open."""


class AbstractKinematics(eqx.Module):
    """A mechanism without masses and forces.

    Configurations q are points of a manifold, n numbers each; velocities dq are nv numbers, the rates of local
    coordinates v of q ⊞ v. Here both are the same vector space. A family of another kind overrides `retract`, `local`
    and `velocity_names` (as a unit quaternion with angular velocities does); everything else follows from them.
    """

    coordinate_names: eqx.AbstractVar[tuple[str, ...]]
    constraint_names: eqx.AbstractVar[tuple[str, ...]]
    """One name per row of Φ, in its order, as it stands in error texts."""
    reference: eqx.AbstractVar[Float[Array, " n"]]
    """A configuration near which the mechanism is meant to be assembled; its branch is the default one [m, rad]."""

    @property
    def n(self) -> int:
        """Number of coordinates."""
        return len(self.coordinate_names)

    @property
    def velocity_names(self) -> tuple[str, ...]:
        """Names of the velocities dq; forces and accelerations go by the same names."""
        return self.coordinate_names

    @property
    def nv(self) -> int:
        """Number of velocities."""
        return len(self.velocity_names)

    @property
    def m(self) -> int:
        """Number of constraint rows, redundant ones included."""
        return jax.eval_shape(self.constraints, self.reference, jax.ShapeDtypeStruct((), self.reference.dtype)).shape[0]

    @property
    def local_sizes(self) -> Velocities | None:
        """Size of each velocity, for a family that has metres beside radians: its own length and 1.

        By these numbers, which must not be differentiated, coordinates of several kinds are compared: in any unit of
        length the answer is the same then. None where all coordinates are of one kind.
        """
        return None

    @property
    def coordinate_sizes(self) -> Coordinates:
        """Size of each coordinate: that of its velocity. A family of n ≠ nv with `local_sizes` says its own."""
        return jnp.ones(self.n, self.reference.dtype) if self.local_sizes is None else self.local_sizes

    @property
    def constraint_sizes(self) -> Constraints | float:
        """How much each row of Φ changes, about, by a change of size 1, so that rows in m², m and radians compare."""
        return 1.0

    @property
    def rows_are_gaps(self) -> bool:
        """Whether the rows of Φ are lengths and angles by which the mechanism is open, zero only where it is closed.

        By default it is not taken for granted: a row such as the sine of an angle is zero half a turn off, too.
        """
        return False

    @property
    def reach(self) -> Velocities:
        """How far each local coordinate moves at most, about: how far a search throws it."""
        return _reach(self)

    def extent(self, q: Coordinates) -> Scalar:
        """The largest coordinate by its size, what rounding is relative to; no less than 1 where sizes differ."""
        if self.local_sizes is not None:
            return jnp.max(jnp.abs(q / self.coordinate_sizes), initial=1.0)
        extent = jnp.max(jnp.abs(q), initial=0.0)
        return jnp.where(extent > 0, extent, 1.0)

    def relative(self, v: Float[Array, "*rows nv"]) -> Float[Array, "*rows nv"]:
        """Changes of coordinates by their sizes."""
        return v if self.local_sizes is None else v / self.local_sizes

    def sized(self, v: Float[Array, "*rows nv"]) -> Float[Array, "*rows nv"]:
        """The inverse of `relative`; of a derivative by velocities it makes one by changes by their sizes."""
        return v if self.local_sizes is None else v * self.local_sizes

    def moved(self, q: Coordinates, v: Velocities) -> Coordinates:
        """q ⊞ v for changes by their sizes."""
        return self.retract(q, self.sized(v))

    @property
    def coordinate_units(self) -> tuple[str, ...]:
        """Unit of each coordinate: "m", "rad" or "1"; "SI" where the family does not tell."""
        return ("SI",) * self.n

    @property
    def velocity_units(self) -> tuple[str, ...]:
        """Unit of each velocity: "m/s" or "rad/s"; "SI" where the family does not tell."""
        if not self.is_vector_space:
            return ("SI",) * self.nv
        return tuple(unit if unit == "SI" else f"{unit}/s" for unit in self.coordinate_units)

    @abc.abstractmethod
    def evaluated(self: _Mechanism) -> _Mechanism:
        """The same mechanism with all derived quantities computed anew from its parameters; call it once, before a
        loop."""

    @abc.abstractmethod
    def constraints(self, q: Coordinates, t: Scalar) -> Constraints:
        """Holonomic constraints Φ(q, t) [m², m, rad]. [Blanco21] eq. (1)"""

    def constraint_jacobian(self, q: Coordinates, t: Scalar) -> Float[Array, "m nv"]:
        """Φ_q, with respect to velocities."""
        return jax.jacfwd(lambda v: self.constraints(self.retract(q, v), t))(jnp.zeros(self.nv, q.dtype))

    def openings(self, q: Coordinates, t: Scalar) -> Constraints:
        """How far each constraint is open, |Φ_i| / |∂Φ_i/∂q|: how far q would have to move to close it [m, rad].

        A row that does not change to first order is compared with the one that changes most.
        """
        if self.rows_are_gaps:
            return jnp.abs(self.constraints(q, t))
        sizes = self.constraint_sizes
        slopes = jnp.linalg.norm(self.constraint_jacobian(q, t), axis=1) / sizes
        steepest = jnp.max(slopes, initial=0.0)
        slopes = jnp.where(slopes < _FLAT * steepest, steepest, slopes) * sizes
        return jnp.abs(self.constraints(q, t)) / jnp.where(slopes > 0, slopes, 1.0)

    def constraint_rate(self, q: Coordinates, dq: Velocities, t: Scalar) -> Constraints:
        """dΦ/dt = Φ_q dq + Φ_t. [Blanco21] eq. (2)"""
        return self.rate(self.constraints, q, dq, t)[1]

    def constraint_bias(self, q: Coordinates, dq: Velocities, t: Scalar) -> Constraints:
        """c = −Φ̇_q dq − Φ̇_t, so that Φ_q ddq = c. [Blanco21] eq. (3)"""
        # c is minus the second time derivative of Φ along the motion without acceleration.
        return -self.rate(lambda q, t: self.constraint_rate(q, dq, t), q, dq, t)[1]

    def rate(
        self, function: Callable[[Coordinates, Scalar], PyTree], q: Coordinates, dq: Velocities, t: Scalar
    ) -> tuple[PyTree, PyTree]:
        """function(q, t) and its derivative with respect to time along a motion with velocities dq."""
        t = jnp.asarray(t, dtype=q.dtype)
        one = jnp.ones_like(t)
        return jax.jvp(lambda s: function(self.retract(q, s * dq), t + s), (jnp.zeros_like(t),), (one,))

    def retract(self, q: Coordinates, v: Velocities) -> Coordinates:
        """q ⊞ v."""
        return q + v

    def local(self, q0: Coordinates, q1: Coordinates) -> Velocities:
        """The v with retract(q0, v) = q1."""
        return q1 - q0

    @property
    def is_vector_space(self) -> bool:
        """Whether q ⊞ v is q + v."""
        return type(self).retract is AbstractKinematics.retract

    def coordinate_rates(self, q: Coordinates) -> Float[Array, "n nv"]:
        """E with the derivatives of the coordinates with respect to time E dq."""
        if self.is_vector_space:
            return jnp.eye(self.n, dtype=q.dtype)
        return jax.jacfwd(lambda v: self.retract(q, v))(jnp.zeros(self.nv, q.dtype))


def prepared(mechanism: _Mechanism) -> _Mechanism:
    """The mechanism with the values of its unknown numbers and all derived quantities, as calculations want it."""
    return known(mechanism).evaluated()


@program(**ONCE)
def _reach(mechanism: AbstractKinematics) -> Velocities:
    sizes = mechanism.local_sizes
    farthest = jnp.maximum(jnp.max(jnp.abs(mechanism.reference / mechanism.coordinate_sizes), initial=0.0), jnp.pi)
    return farthest * (jnp.ones(mechanism.nv, mechanism.reference.dtype) if sizes is None else sizes)
