"""Robots: trees of bodies in the coordinates of their joints, loops closed by constraints."""

from collections.abc import Iterable, Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fgmbs.algebra.kkt import solve_kkt
from fgmbs.arguments import Numbers, by_name, choice, nearest
from fgmbs.compiled.tracing import computed_now, is_traced
from fgmbs.errors import ArgumentError
from fgmbs.mechanisms.base import AbstractMechanism, BodyFrame, Wrench
from fgmbs.mechanisms.tree import coordinates
from fgmbs.mechanisms.tree.checks import MAY_BE_INFINITE, checked
from fgmbs.mechanisms.tree.description import RobotDescription
from fgmbs.mechanisms.tree.kernels import closures, compiled, frames, motion
from fgmbs.mechanisms.tree.kernels.numbers import TreeNumbers, TreeParameters, tree_parameters
from fgmbs.mechanisms.tree.kernels.vectors import times
from fgmbs.mechanisms.tree.single import places, put, refuse_impossible, taken, with_laws
from fgmbs.mechanisms.tree.topology import TreeTopology, merged
from fgmbs.typing import Constraints, Coordinates, Scalar, Velocities
from fgmbs.unknowns import Path, Unknown, is_unknown, known, number


class Origin:
    """Where a robot comes from. All are equal: nothing that is compiled depends on it."""

    compared = ()
    """By what; see `fgmbs.compiled.identity`."""

    def __init__(self, description: RobotDescription):
        self.description = description

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Origin)

    def __hash__(self) -> int:
        return hash(Origin)


class Robot(AbstractMechanism):
    """Bodies in a tree of joints; q are the coordinates of the joints in file order, those of followers left out.

    A floating joint has position and unit quaternion (w, x, y, z) of its body, and the velocities [ω; v] seen from
    there; a spherical one has a quaternion and ω. Forces on them are moments and forces seen from the body.
    """

    topology: TreeTopology = eqx.field(static=True)
    origin: Origin = eqx.field(static=True)
    parameters: TreeParameters
    home: Float[Array, " n"]
    """The reference configuration; no parameter."""
    numbers: TreeNumbers | None = None
    """Derived numbers; None before `evaluated`."""
    single: dict[str, Array | Unknown] = eqx.field(default_factory=dict)
    """Numbers that stand by themselves, by name; they count, and not what is in their places in `parameters`."""

    @property
    def description(self) -> RobotDescription:
        """What it was made of, whatever its parameters are now."""
        return self.origin.description

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Joints that move, in file order, followers too, and fixed ones that are separate."""
        return self.topology.joints

    @property
    def frame_names(self) -> tuple[str, ...]:
        """Links, merged ones too, and named frames."""
        return self.topology.frames

    def limits(self, key: str) -> Float[np.ndarray, " joints"]:
        """Of each joint of `joint_names`: "lower", "upper", "max_velocity" or "max_effort" of the description.

        Raises:
            ArgumentError: It is none of these.
        """
        choice("key", key, MAY_BE_INFINITE)
        found = {joint.name: getattr(joint, key) for joint in self.description.joints}
        return np.array([found.get(name, np.inf if key != "lower" else -np.inf) for name in self.topology.joints])

    def evaluated(self) -> "Robot":
        parameters, single = known((self.parameters, self.single))
        return Robot(self.topology, self.origin, parameters, self.home, self._derived, single)

    def bare(self) -> "Robot":
        return Robot(self.topology, self.origin, self.parameters, self.home, None, self.single)

    @property
    def _derived(self) -> TreeNumbers:
        return compiled.numbers(self.topology, *known((self.parameters, self.single)))

    @property
    def of(self) -> tuple[TreeTopology, TreeNumbers]:
        """(topology, derived numbers)."""
        return self.topology, self._derived if self.numbers is None else self.numbers

    @property
    def described(self) -> "Robot":
        with computed_now():
            return robot(self.description)

    @property
    def title(self) -> str:
        return self.topology.name or "robot"

    @property
    def coordinate_names(self) -> tuple[str, ...]:
        return self.topology.names(velocities=False)

    @property
    def velocity_names(self) -> tuple[str, ...]:
        return self.topology.names(velocities=True)

    @property
    def constraint_names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in closures.names(self.topology))

    @property
    def coordinate_units(self) -> tuple[str, ...]:
        return self.topology.units(velocities=False)

    @property
    def velocity_units(self) -> tuple[str, ...]:
        return tuple(f"{unit}/s" for unit in self.topology.units(velocities=True))

    @property
    def actuator_names(self) -> tuple[str, ...]:
        return tuple(self.topology.joints[j] for j in self.topology.motors)

    @property
    def actuator_units(self) -> tuple[str, ...]:
        return tuple("N" if self.topology.kinds[j] == "prismatic" else "N m" for j in self.topology.motors)

    @property
    def actuator_effects(self) -> tuple[str, ...]:
        prismatic = [self.topology.kinds[j] == "prismatic" for j in self.topology.motors]
        return tuple(
            f"{'force' if p else 'torque'} on {n}" for p, n in zip(prismatic, self.actuator_names, strict=True)
        )

    @property
    def body_names(self) -> tuple[str, ...]:
        return self.topology.frames

    @property
    def point_names(self) -> tuple[str, ...]:
        return self.topology.frames

    @property
    def fixed_points(self) -> tuple[int, ...]:
        held = ~np.append(self.topology.supports.any(axis=0), False)  # the ground is body −1
        return tuple(i for i, body in enumerate(self.topology.frame_bodies) if held[body])

    @property
    def reference(self) -> Coordinates:
        return self.home

    @property
    def vectors(self) -> tuple[int, ...]:
        found, count = [], 0
        for j, kind in enumerate(self.topology.kinds):
            if self.topology.leaders[j] == j:
                parts = {"spherical": [3], "floating": [3, 3], "fixed": []}.get(kind, [1])
                for size in parts:
                    found += [count] * size
                    count += 1
        return tuple(found)

    @property
    def _length(self) -> Scalar:
        """Mean distance of joints from those before: what lengths are compared with [m]."""
        squares = jnp.sum(self.of[1].place ** 2, axis=0)
        there = squares > 0
        distances = jnp.where(there, jnp.sqrt(jnp.where(there, squares, 1.0)), 0.0)
        mean = jnp.sum(distances) / jnp.maximum(jnp.sum(there), 1)
        return jax.lax.stop_gradient(jnp.where(mean > 0, mean, 1.0))

    def _sizes(self, units: tuple[str, ...]) -> Float[Array, " units"] | None:
        if len(set(self.topology.units(velocities=True))) < 2:
            return None
        return jnp.where(np.array([unit == "m" for unit in units]), self._length, 1.0)

    @property
    def local_sizes(self) -> Velocities | None:
        return self._sizes(self.topology.units(velocities=True))

    @property
    def coordinate_sizes(self) -> Coordinates:
        sizes = self._sizes(self.coordinate_units)
        return jnp.ones(self.n, self.home.dtype) if sizes is None else sizes

    @property
    def constraint_sizes(self) -> Constraints:
        in_metres = "rad" not in self.topology.units(velocities=True)
        powers = np.where(closures.lengths(self.topology), 1, 0) - int(in_metres)
        return self._length ** jnp.asarray(powers, float)

    @property
    def rows_are_gaps(self) -> bool:
        return True

    def physical_parameters(self) -> dict[str, Array]:
        """Single numbers by name, and the arrays that have others; see `fgmbs.mechanisms.tree.single`."""
        numbers, single = known((self.parameters, self.single))
        whole = vars(put(self.topology, numbers, single))
        names = places(self.topology)
        covered = {place.array for place in names.values()}
        host = whole if is_traced(whole) else jax.tree.map(np.asarray, whole)
        found = {name: host[place.array][..., *place.index] for name, place in names.items()}
        arrays = {key: value for key, value in host.items() if key not in covered and value.size}
        return {name: jnp.asarray(value) for name, value in (found | arrays).items()}

    def with_parameters(self, values: Mapping[str, Numbers | Unknown]) -> "Robot":
        """The robot with other values of some single numbers, a differentiable function of them; any may be `Unknown`.

        Names are LINK.mass, LINK.center.x, LINK.inertia.xx (of links that a joint moves, with what is fixed to them),
        JOINT.damping, .friction, .stiffness, .spring_reference, .rotor_inertia, .gear_ratio, .pitch, .position.x,
        .rotation.x, and gravity.z.

        Raises:
            ArgumentError: A name that is none of these, a value that is not one number, a negative mass, friction,
                stiffness or rotor inertia, or a gear ratio of 0.
        """
        by_name("values", values, "numbers by name, as in {'link1.mass': 1.0}")
        names = places(self.topology)
        changed = {name: number(f"values[{name!r}]", value) for name, value in values.items()}
        for name, value in known(changed).items():
            if name not in names:
                raise ArgumentError(
                    f"values: expected names of parameters; found {name!r}{nearest(name, names, 'parameters')}"
                )
            refuse_impossible(name, value)
        settled = {name: value for name, value in changed.items() if not is_unknown(value)}
        single = {name: value for name, value in self.single.items() if name not in settled}
        single |= {name: value for name, value in changed.items() if is_unknown(value)}
        topology = with_laws(self.topology, changed)
        parameters = put(topology, self.parameters, settled) if settled else self.parameters
        return Robot(topology, self.origin, parameters, self.home, None, single)

    def with_own_leaves(self, names: Iterable[str]) -> "Robot":
        known_names, single = places(self.topology), dict(self.single)
        for name in names:
            if name in known_names and name not in single:
                single[name] = taken(self.topology, self.parameters, name)
        topology = with_laws(self.topology, {name: Unknown() for name in single})
        return Robot(topology, self.origin, self.parameters, self.home, None, single)

    def parameter_name(self, path: Path) -> str:
        return path[-1].key if path[0].name == "single" else path[-1].name

    def margins(self) -> dict[str, Scalar]:
        """By LINK.inertia: the least of what half the trace of its inertia leaves over its principal moments, all
        zero or more of a body that can be made [kg m²]."""
        J = jnp.moveaxis(self.of[1].inertia, -1, 0)
        half = jnp.trace(J, axis1=1, axis2=2)[:, None, None] / 2 * jnp.eye(3) - J
        least = jnp.linalg.eigvalsh(half)[:, 0]
        return {f"{link}.inertia": least[k] for k, link in enumerate(self.topology.links)}

    def margin_in_words(self, margin: float) -> str:
        if margin < 0:
            return f"its largest principal moment is {-2 * margin:.4g} kg m² more than the other two together"
        return (
            "its largest principal moment is as large as the other two together, which no body exceeds; if a moment is "
            "known and not free it may be wrong"
        )

    @property
    def gravity(self) -> Float[Array, "3"]:
        return self.of[1].gravity

    def constraints(self, q: Coordinates, t: Scalar) -> Constraints:
        return compiled.closure_rows(*self.of, q) if self.topology.closures else jnp.zeros(0, q.dtype)

    def constraint_jacobian(self, q: Coordinates, t: Scalar) -> Float[Array, "m nv"]:
        if not self.topology.closures:
            return jnp.zeros((0, self.nv), q.dtype)
        return compiled.closure_jacobian(*self.of, q)

    def constraint_rate(self, q: Coordinates, dq: Velocities, t: Scalar) -> Constraints:
        return self.constraint_jacobian(q, t) @ dq

    def constraint_bias(self, q: Coordinates, dq: Velocities, t: Scalar) -> Constraints:
        return compiled.closure_bias(*self.of, q, dq) if self.topology.closures else jnp.zeros(0, q.dtype)

    def mass_matrix(self, q: Coordinates) -> Float[Array, "nv nv"]:
        return compiled.mass_matrix(*self.of, q)

    def forces(self, q: Coordinates, dq: Velocities, t: Scalar) -> Velocities:
        return -compiled.inverse_dynamics(*self.of, q, dq, jnp.zeros_like(dq), None)

    def potential(self, q: Coordinates) -> Scalar:
        topology, numbers = self.of
        at = compiled.placed(topology, numbers, q)
        c = at.p + times(at.R, numbers.centre)
        energy = -jnp.sum(numbers.mass * (numbers.gravity @ c))
        if topology.has_springs:
            x = motion.taken(motion.joint_coordinates(topology, numbers, q), topology.columns)
            energy = energy + jnp.sum(numbers.stiffness * (x - numbers.rest) ** 2) / 2
        return energy

    def actuation(self, q: Coordinates, t: Scalar) -> Float[Array, "nv nu"]:
        places = self.topology.starts[1][list(self.topology.motors)]
        return jnp.asarray(np.eye(self.nv)[:, places.astype(int)], q.dtype)

    def accelerations(
        self, q: Coordinates, dq: Velocities, t: Scalar, applied: Velocities | float = 0.0
    ) -> tuple[Velocities, Constraints]:
        if not self.topology.closures:
            tau = jnp.broadcast_to(jnp.asarray(applied, dq.dtype), dq.shape)
            return compiled.forward_dynamics(*self.of, q, dq, tau, None), jnp.zeros(0, q.dtype)
        M, Phi_q, c = self.mass_matrix(q), self.constraint_jacobian(q, t), self.constraint_bias(q, dq, t)
        Q = self.forces(q, dq, t) + applied
        return solve_kkt(M, Phi_q, Q, c, self.local_sizes, self.constraint_sizes)

    def retract(self, q: Coordinates, v: Velocities) -> Coordinates:
        return coordinates.retract(self.topology, q, v)

    def local(self, q0: Coordinates, q1: Coordinates) -> Velocities:
        return coordinates.local(self.topology, q0, q1)

    @property
    def is_vector_space(self) -> bool:
        return coordinates.is_flat(self.topology)

    def body_frame(self, body: str, q: Coordinates, t: Scalar) -> BodyFrame:
        """(rotation, origin) of a link or of a named frame."""
        k = _index(body, self.topology.frames, "body", "links and frames")
        return frames.frame_at(*self.of, compiled.placed(*self.of, q), k)

    def body_motion(
        self, body: str, q: Coordinates, dq: Velocities, t: Scalar, ddq: Velocities | None = None
    ) -> tuple[BodyFrame, ...]:
        k = _index(body, self.topology.frames, "body", "links and frames")
        return compiled.frame_motion(*self.of, k, q, dq, ddq)

    def joint_wrench(
        self, joint: str, q: Coordinates, dq: Velocities, ddq: Velocities, lambda_: Constraints, t: Scalar
    ) -> Wrench:
        if joint not in self.topology.joints and joint in {j.name for j in self.description.joints}:
            raise ArgumentError(
                f"joint: expected a joint that moves, or one that is separate; found {joint!r}, which is fixed; "
                f"load the robot with separate=[{joint!r}]"
            )
        j = _index(joint, self.topology.joints, "joint", "joints")
        return compiled.transmitted(*self.of, j, q, dq, ddq, lambda_)

    @property
    def drawn_bodies(self) -> dict[str, tuple[int, ...]]:
        return self.description.drawn_links(self.point_names)

    def point_positions(self, q: Coordinates) -> Float[Array, "points 3"]:
        return jnp.stack([p for _, p in self._frames(q)])

    def point_axes(self, q: Coordinates, t: Scalar) -> Float[Array, "points 3 3"]:
        return jnp.stack([R for R, _ in self._frames(q)])

    def _frames(self, q: Coordinates) -> list[tuple[Float[Array, "3 3"], Float[Array, "3"]]]:
        """(rotation, origin) of all links and named frames."""
        at = compiled.placed(*self.of, q)
        return [frames.frame_at(*self.of, at, k) for k in range(len(self.topology.frames))]

    def point_position(self, point: str, q: Coordinates) -> Float[Array, "3"]:
        _index(point, self.topology.frames, "point", "links and frames")
        return self.body_frame(point, q, 0.0)[1]


def robot(description: RobotDescription) -> Robot:
    """The robot of a description.

    Raises:
        DescriptionError: All that is wrong with it.
    """
    whole = merged(checked(description))
    joints = whole.joints
    lower, upper = (np.array([getattr(joint, key) for joint in joints]) for key in ("lower", "upper"))
    home = jnp.asarray(coordinates.home(whole.topology, lower, upper))
    return Robot(whole.topology, Origin(description), tree_parameters(whole, description), home)


def _index(name: str, names: tuple[str, ...], argument: str, kind: str) -> int:
    if name not in names:
        raise ArgumentError(f"{argument}: there is no {argument} {name!r}{nearest(name, names, kind)}")
    return names.index(name)
