"""What every family of mechanisms answers."""

import abc
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from fgmbs.algebra.kkt import solve_kkt
from fgmbs.arguments import Numbers, by_name, nearest, of_type
from fgmbs.errors import ArgumentError
from fgmbs.kinematics.base import AbstractKinematics
from fgmbs.kinematics.mobility import degrees_of_freedom
from fgmbs.typing import Constraints, Coordinates, Scalar, Velocities
from fgmbs.unknowns import Path, Unknown, filled, is_unknown, known, number

BodyFrame: TypeAlias = tuple[Float[Array, "d d"], Float[Array, " d"]]
"""(rotation, origin) of the frame of a body, or a time derivative of both."""


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


class AbstractMechanism(AbstractKinematics):
    """A mechanism: array leaves are its physical parameters, everything else is static topology."""

    @property
    def vectors(self) -> tuple[int, ...]:
        """A number for each velocity; the components of one vector, as those of a point along x and y, share theirs."""
        return tuple(range(self.nv))

    @property
    def dof(self) -> int:
        """Degrees of freedom in a generic configuration, by numerical rank; needs a mechanism of concrete numbers.

        Raises:
            AssemblyError: The mechanism cannot be assembled.
        """
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

    def body_frame(self, body: str, q: Coordinates, t: Scalar) -> BodyFrame:
        """(rotation, origin) of the frame of a body; the columns of the rotation are its axes, seen from the ground.

        Raises:
            ArgumentError: There is no such body, or the family does not tell.
        """
        raise ArgumentError(f"body: expected a mechanism of bodies with frames; {self._lacks('body_frame')}")

    def body_motion(
        self, body: str, q: Coordinates, dq: Velocities, t: Scalar, ddq: Velocities | None = None
    ) -> tuple[BodyFrame, ...]:
        """The frame of a body, its first and, given accelerations, its second time derivative along a motion.

        Raises:
            ArgumentError: There is no such body, or the family does not tell.
        """

        def at(q, dq, t):
            return self.rate(lambda q, t: self.body_frame(body, q, t), q, dq, t)

        if ddq is None:
            return at(q, dq, t)
        # The derivative of the first rate along dq/dt = E dq, d(dq)/dt = ddq: that of `retract` is needed at 0 only.
        zero = jnp.zeros_like(q[0])
        later = lambda s: at(self.retract(q, s * dq), dq + s * ddq, t + s)
        (frame, first), (_, second) = jax.jvp(later, (zero,), (jnp.ones_like(zero),))
        return frame, first, second

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

    def with_parameters(self, values: Mapping[str, Numbers | Unknown]) -> "AbstractMechanism":
        """The mechanism with other values of some parameters, a differentiable function of them; any may be `Unknown`.

        Raises:
            ArgumentError: A name that is no parameter, a value of another shape, or one that it cannot have.
        """
        by_name("values", values, "numbers by name, as in {'L': 1.0}")
        found = self.named_leaves()
        changed = {name: number(f"values[{name!r}]", value) for name, value in values.items()}
        for name, value in known(changed).items():
            if name not in found:
                advice = nearest(name, found, "parameters")
                raise ArgumentError(f"values: expected names of parameters; found {name!r}{advice}")
            if value.shape != (shape := known(found[name][1]).shape):
                raise ArgumentError(f"values[{name!r}]: expected shape {shape}; found shape {value.shape}")
        return filled(self.bare(), [found[name][0] for name in changed], list(changed.values()))

    def named_leaves(self) -> dict[str, tuple[Path, Array | Unknown]]:
        """(path, leaf) of its parameters that are leaves by themselves, by name."""
        leaves, _ = jax.tree_util.tree_flatten_with_path(self.bare(), is_leaf=is_unknown)
        numbers = ((path, leaf) for path, leaf in leaves if is_unknown(leaf) or eqx.is_inexact_array(leaf))
        return {self.parameter_name(path): (path, leaf) for path, leaf in numbers}

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

    def margin_in_words(self, margin: float) -> str:
        """What is so of a number of `margins` that is zero, or negative, for texts."""
        return f"short by {-margin:.4g} of what can be made" if margin < 0 else "at the limit of what can be made"

    def _lacks(self, member: str) -> str:
        return f"found {type(self).__name__}, which does not define {member}"

    def bare(self) -> "AbstractMechanism":
        """The same mechanism without derived quantities, which each use computes from its parameters then."""
        return self

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
            self.constraint_sizes,
        )

    @property
    def has_own_accelerations(self) -> bool:
        """Whether the family has a way of its own to its accelerations."""
        return type(self).accelerations is not AbstractMechanism.accelerations


def checked_mechanism(mechanism: object) -> None:
    """Refuses what is no mechanism, or one in which nothing moves.

    Raises:
        ArgumentError: It is none, or has no coordinates.
    """
    of_type("mechanism", mechanism, AbstractMechanism, "a mechanism, as fgmbs.load makes one of a file")
    if mechanism.nv == 0:
        raise ArgumentError(
            f"mechanism: expected one with coordinates; found '{mechanism.title}', in which nothing moves. A robot "
            "moves by its joints, or where its root floats (floating=True)"
        )
