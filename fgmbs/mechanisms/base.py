"""What every family of mechanisms answers."""

import abc
from collections.abc import Callable, Iterable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from fgmbs.algebra.kkt import solve_kkt
from fgmbs.arguments import of_type
from fgmbs.errors import ArgumentError
from fgmbs.typing import Constraints, Coordinates, Scalar, Velocities
from fgmbs.unknowns import Path, known


class Wrench(NamedTuple):
    """A force and a moment about a place, seen from the ground."""

    force: Float[Array, "3"]
    """[N]"""
    moment: Float[Array, "3"]
    """[N m]"""
    origin: Float[Array, "3"]
    """The place [m]."""
    axes: Float[Array, "3 3"]
    """Those of the body that it acts on, as columns."""


class AbstractMechanism(eqx.Module):
    """A mechanism: array leaves are its physical parameters, everything else is static topology.

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
    def vectors(self) -> tuple[int, ...]:
        """A number for each velocity; the components of one vector, as those of a point along x and y, share theirs."""
        return tuple(range(self.nv))

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
    def reach(self) -> Velocities:
        """How far each local coordinate moves at most, about: how far a search throws it."""
        farthest = jnp.maximum(jnp.max(jnp.abs(self.reference / self.coordinate_sizes), initial=0.0), jnp.pi)
        return farthest * (jnp.ones(self.nv, self.reference.dtype) if self.local_sizes is None else self.local_sizes)

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
    def dof(self) -> int:
        """Degrees of freedom in a generic configuration, by numerical rank; needs a mechanism of concrete numbers.

        Raises:
            AssemblyError: The mechanism cannot be assembled.
        """
        from fgmbs.kinematics.mobility import degrees_of_freedom  # kinematics build on mechanisms

        if self.m == 0:
            return self.nv
        described = self.described
        return degrees_of_freedom(self if described is None else described)

    @property
    def described(self) -> "AbstractMechanism | None":
        """The mechanism with the numbers of its description, known also while its own are traced; None without one."""
        return None

    @property
    def initial_velocities(self) -> tuple[Velocities, Bool[Array, " nv"]]:
        """Velocities that its description gives for the start, and which these are [m/s, rad/s]."""
        return jnp.zeros(self.nv, self.reference.dtype), jnp.zeros(self.nv, bool)

    @property
    def actuator_names(self) -> tuple[str, ...]:
        """Names of the commands u, in their order; a mechanism may have none."""
        return ()

    @property
    def title(self) -> str:
        """What figures and reports call it."""
        return type(self).__name__

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

    @property
    def actuator_units(self) -> tuple[str, ...]:
        """Unit of each command: "N" or "N m"; "SI" where the family does not tell."""
        return ("SI",) * len(self.actuator_names)

    @property
    def actuator_effects(self) -> tuple[str, ...]:
        """What each actuator does, in words as "torque on theta"; empty where the family does not tell."""
        return ("",) * len(self.actuator_names)

    @property
    def body_names(self) -> tuple[str, ...]:
        """Names that `body_frame` takes; none where the family does not tell."""
        return ()

    @property
    def body_points(self) -> tuple[tuple[int, ...], ...]:
        """Points of each body, by their places in `point_names`."""
        return ((),) * len(self.body_names)

    @property
    def point_names(self) -> tuple[str, ...]:
        """Names that `point_position` takes; none where the family does not tell."""
        return ()

    @property
    def drawn_bodies(self) -> dict[str, tuple[int, ...]]:
        """Points that a drawing of each body joins, by their places in `point_names`."""
        return dict(zip(self.body_names, self.body_points, strict=True))

    @property
    def fixed_points(self) -> tuple[int, ...]:
        """Points that belong to the ground, by their places in `point_names`."""
        return ()

    @property
    def pin_names(self) -> tuple[str, ...]:
        """Names of `joint_forces`, "BODY@POINT"; none where the family does not tell."""
        return ()

    @property
    def gravity(self) -> Float[Array, " d"]:
        """Acceleration of free fall [m/s²].

        Raises:
            ArgumentError: The family does not tell.
        """
        raise ArgumentError(f"mechanism: expected one that has gravity; {self._lacks('gravity')}")

    def body_frame(self, body: str, q: Coordinates, t: Scalar) -> tuple[Float[Array, "d d"], Float[Array, " d"]]:
        """(rotation, origin) of the frame of a body; the columns of the rotation are its axes, seen from the ground.

        Raises:
            ArgumentError: There is no such body, or the family does not tell.
        """
        raise ArgumentError(f"body: expected a mechanism of bodies with frames; {self._lacks('body_frame')}")

    def point_position(self, point: str, q: Coordinates) -> Float[Array, " d"]:
        """Position of a point by name [m].

        Raises:
            ArgumentError: There is no such point, or the family does not tell.
        """
        raise ArgumentError(f"point: expected a mechanism of points with names; {self._lacks('point_position')}")

    def point_positions(self, q: Coordinates) -> Float[Array, "points d"]:
        """Positions of all points, in the order of `point_names` [m]."""
        return jnp.stack([self.point_position(point, q) for point in self.point_names])

    def point_axes(self, q: Coordinates, t: Scalar) -> Float[Array, "points d d"] | None:
        """Axes of a frame at each point, as columns, seen from the ground; None where points are points alone."""
        return None

    def point_coordinates(self, point: str) -> tuple[int, ...]:
        """Which of q are the position of a point.

        Raises:
            ArgumentError: There is no such point, none of q are, or the family does not tell.
        """
        raise ArgumentError(f"point: expected a mechanism of points with names; {self._lacks('point_coordinates')}")

    def joint_forces(
        self,
        q: Coordinates,
        dq: Velocities,
        ddq: Velocities,
        lambda_: Constraints,
        t: Scalar,
        u: Float[Array, " nu"] | None = None,
    ) -> Float[Array, "pins d"]:
        """Force on each body at each of its points, in the order of `pin_names`, seen from the ground [N].

        Raises:
            ArgumentError: The family does not tell.
        """
        raise ArgumentError(f"pin: expected a mechanism of bodies with pins; {self._lacks('joint_forces')}")

    def joint_wrench(
        self, joint: str, q: Coordinates, dq: Velocities, ddq: Velocities, lambda_: Constraints, t: Scalar
    ) -> Wrench:
        """What the body before a joint exerts on the body after it.

        Raises:
            ArgumentError: There is no such joint, or the family does not tell.
        """
        raise ArgumentError(f"joint: expected a mechanism of joints in space; {self._lacks('joint_wrench')}")

    def physical_parameters(self) -> dict[str, Array]:
        """Its physical parameters by name: here its arrays, by the names of the fields [SI]."""
        leaves, _ = jax.tree_util.tree_flatten_with_path(eqx.filter(self, eqx.is_inexact_array))
        return {self.parameter_name(path): leaf for path, leaf in leaves}

    def parameter_name(self, path: Path) -> str:
        """Name of the physical parameter that is the leaf at a path."""
        return jax.tree_util.keystr(path, simple=True, separator=".")

    def with_own_leaves(self, names: Iterable[str]) -> "AbstractMechanism":
        """The same mechanism with these parameters as leaves by themselves, as they are wherever a family has single
        numbers; a name of no parameter is passed over."""
        return self

    def margins(self) -> dict[str, Scalar]:
        """What its parameters must leave, zero or more, to be those of something that can be made, by the name of the
        number that is at fault else: of the inertia of a body what is more than that of its mass in its centre. Known
        of its parameters alone; {} of a family that does not tell."""
        return {}

    def _lacks(self, member: str) -> str:
        return f"found {type(self).__name__}, which does not define {member}"

    @abc.abstractmethod
    def evaluated(self) -> "AbstractMechanism":
        """The same mechanism with all derived quantities computed anew from its parameters; call it once, before a
        loop."""

    def bare(self) -> "AbstractMechanism":
        """The same mechanism without derived quantities, which each use computes from its parameters then."""
        return self

    @abc.abstractmethod
    def constraints(self, q: Coordinates, t: Scalar) -> Constraints:
        """Holonomic constraints Φ(q, t) [m², m, rad]. [Blanco21] eq. (1)"""

    @abc.abstractmethod
    def mass_matrix(self, q: Coordinates) -> Float[Array, "nv nv"]:
        """Mass matrix M(q); singular where a coordinate carries no mass of its own."""

    @abc.abstractmethod
    def forces(self, q: Coordinates, dq: Velocities, t: Scalar) -> Velocities:
        """Generalized forces Q that need no command: gravity, springs, dampers, friction, applied forces [N, N·m]."""

    @abc.abstractmethod
    def potential(self, q: Coordinates) -> Scalar:
        """Potential energy of gravity and springs [J]."""

    def actuation(self, q: Coordinates, t: Scalar) -> Float[Array, "nv nu"]:
        """Generalized forces per unit of each actuator's command: A with Q_total = Q + A u."""
        return jnp.zeros((self.nv, 0), q.dtype)

    def constraint_jacobian(self, q: Coordinates, t: Scalar) -> Float[Array, "m nv"]:
        """Φ_q, with respect to velocities."""
        return jax.jacfwd(lambda v: self.constraints(self.retract(q, v), t))(jnp.zeros(self.nv, q.dtype))

    def constraint_rate(self, q: Coordinates, dq: Velocities, t: Scalar) -> Constraints:
        """dΦ/dt = Φ_q dq + Φ_t. [Blanco21] eq. (2)"""
        return self.rate(self.constraints, q, dq, t)[1]

    def constraint_bias(self, q: Coordinates, dq: Velocities, t: Scalar) -> Constraints:
        """c = −Φ̇_q dq − Φ̇_t, so that Φ_q ddq = c. [Blanco21] eq. (3)"""
        # c is minus the second time derivative of Φ along the motion without acceleration.
        return -self.rate(lambda q, t: self.constraint_rate(q, dq, t), q, dq, t)[1]

    def rate(
        self, function: Callable[[Coordinates, Scalar], Array], q: Coordinates, dq: Velocities, t: Scalar
    ) -> tuple[Array, Array]:
        """function(q, t) and its derivative with respect to time along a motion with velocities dq."""
        t = jnp.asarray(t, dtype=q.dtype)
        one = jnp.ones_like(t)
        return jax.jvp(lambda s: function(self.retract(q, s * dq), t + s), (jnp.zeros_like(t),), (one,))

    def accelerations(
        self, q: Coordinates, dq: Velocities, t: Scalar, applied: Velocities | float = 0.0
    ) -> tuple[Velocities, Constraints]:
        """(ddq, λ) with M ddq + Φ_qᵀ λ = Q + `applied` and Φ_q ddq = c; see `fgmbs.dynamics.acceleration`."""
        return solve_kkt(
            self.mass_matrix(q),
            self.constraint_jacobian(q, t),
            self.forces(q, dq, t) + applied,
            self.constraint_bias(q, dq, t),
            self.local_sizes,
        )

    def retract(self, q: Coordinates, v: Velocities) -> Coordinates:
        """q ⊞ v."""
        return q + v

    def local(self, q0: Coordinates, q1: Coordinates) -> Velocities:
        """The v with retract(q0, v) = q1."""
        return q1 - q0

    @property
    def is_vector_space(self) -> bool:
        """Whether q ⊞ v is q + v."""
        return type(self).retract is AbstractMechanism.retract

    @property
    def has_own_accelerations(self) -> bool:
        """Whether the family has a way of its own to its accelerations."""
        return type(self).accelerations is not AbstractMechanism.accelerations

    def coordinate_rates(self, q: Coordinates) -> Float[Array, "n nv"]:
        """E with the derivatives of the coordinates with respect to time E dq."""
        if self.is_vector_space:
            return jnp.eye(self.n, dtype=q.dtype)
        return jax.jacfwd(lambda v: self.retract(q, v))(jnp.zeros(self.nv, q.dtype))


def prepared(mechanism: AbstractMechanism) -> AbstractMechanism:
    """The mechanism with the values of its unknown numbers and all derived quantities, as calculations want it."""
    return known(mechanism).evaluated()


def checked_mechanism(mechanism: object) -> None:
    """Refuses what is no mechanism.

    Raises:
        ArgumentError: It is none.
    """
    of_type("mechanism", mechanism, AbstractMechanism, "a mechanism, as fgmbs.load makes one of a file")
