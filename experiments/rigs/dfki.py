"""The actuated pendulums of DFKI and their recordings.

The double one is from https://github.com/dfki-ric-underactuated-lab/double_pendulum, in two designs: A.0 with arms of
0.3 m and 0.2 m, C.1 with 0.2 m and 0.3 m; the simple one from
https://github.com/dfki-ric-underactuated-lab/torque_limited_simple_pendulum.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

import fgmbs
from fgmbs.mechanisms import lagrangian
from fgmbs.mechanisms.base import AbstractMechanism
from rigs.friction import WIDTH
from rigs.recordings import recorded

GEAR_RATIO = 6.0


def as_array(x):
    return jnp.asarray(x, dtype=float)


class DoublePendulum(AbstractMechanism):
    """Two arms with a motor at each joint, the second motor on the first arm.

    Coordinates: the angle of the first arm from hanging, and that of the second relative to the first. The actuators
    are torques at the joints [N·m].
    """

    l1: Float[Array, ""] = eqx.field(converter=as_array)
    """From shoulder to elbow [m]."""
    masses: Float[Array, "2"] = eqx.field(converter=as_array)
    """[kg]"""
    centres: Float[Array, "2"] = eqx.field(converter=as_array)
    """From each arm's joint to its centre of mass [m]."""
    inertias: Float[Array, "2"] = eqx.field(converter=as_array)
    """About each arm's joint [kg·m²]."""
    rotor: Float[Array, ""] = eqx.field(converter=as_array)
    """Inertia of a motor's rotor, on the motor's side of its gear [kg·m²]."""
    viscous: Float[Array, "2"] = eqx.field(converter=as_array)
    """Viscous friction of the joints [N·m·s]."""
    coulomb: Float[Array, "2"] = eqx.field(converter=as_array)
    """Coulomb friction of the joints [N·m]."""
    gravity: Float[Array, ""] = eqx.field(converter=as_array, default=9.81)
    """[m/s²]"""

    @property
    def coordinate_names(self) -> tuple[str, ...]:
        return "shoulder", "elbow"

    @property
    def constraint_names(self) -> tuple[str, ...]:
        return ()

    @property
    def actuator_names(self) -> tuple[str, ...]:
        return "shoulder", "elbow"

    @property
    def reference(self) -> Float[Array, "2"]:
        return jnp.zeros_like(self.masses)

    def evaluated(self) -> "DoublePendulum":
        return self

    def constraints(self, q, t):
        return q[:0]

    def kinetic(self, q: Float[Array, "2"], dq: Float[Array, "2"]) -> Float[Array, ""]:
        """Kinetic energy [J]."""
        first, second = dq[0], dq[0] + dq[1]
        arms = self.inertias[0] * first**2 + self.inertias[1] * second**2
        elbow = self.masses[1] * self.l1 * (self.l1 * first + 2 * self.centres[1] * jnp.cos(q[1]) * second) * first
        # The published model has the elbow's rotor turn against its joint.
        rotors = self.rotor * ((GEAR_RATIO * dq[0]) ** 2 + (first - GEAR_RATIO * dq[1]) ** 2)
        return 0.5 * (arms + elbow + rotors)

    def potential(self, q):
        first = (self.masses[0] * self.centres[0] + self.masses[1] * self.l1) * jnp.cos(q[0])
        return -self.gravity * (first + self.masses[1] * self.centres[1] * jnp.cos(q[0] + q[1]))

    def mass_matrix(self, q):
        return lagrangian.mass_matrix(self.kinetic, q)

    def forces(self, q, dq, t):
        friction = fgmbs.Friction(self.viscous, self.coulomb, width=WIDTH)
        return lagrangian.forces(self.kinetic, self.potential, q, dq) - friction(dq)

    def actuation(self, q, t):
        return jnp.eye(2, dtype=q.dtype)


class SimplePendulum(AbstractMechanism):
    """An arm with a motor at its joint, whose angle is that from hanging."""

    inertia: Float[Array, ""] = eqx.field(converter=as_array)
    """About the joint, the rotor's included [kg·m²]."""
    moment: Float[Array, ""] = eqx.field(converter=as_array)
    """Mass times the distance of its centre from the joint [kg·m]."""
    viscous: Float[Array, ""] = eqx.field(converter=as_array)
    """[N·m·s]"""
    coulomb: Float[Array, ""] = eqx.field(converter=as_array)
    """[N·m]"""
    gravity: Float[Array, ""] = eqx.field(converter=as_array, default=9.81)
    """[m/s²]"""

    coordinate_names = ("joint",)
    constraint_names = ()
    actuator_names = ("joint",)
    reference = jnp.zeros(1)

    def evaluated(self) -> "SimplePendulum":
        return self

    def constraints(self, q, t):
        return q[:0]

    def potential(self, q):
        return -self.gravity * self.moment * jnp.cos(q[0])

    def mass_matrix(self, q):
        return jnp.reshape(self.inertia, (1, 1))

    def forces(self, q, dq, t):
        friction = fgmbs.Friction(self.viscous, self.coulomb, width=WIDTH)
        return -jax.grad(self.potential)(q) - friction(dq)

    def actuation(self, q, t):
        return jnp.ones((1, 1), dtype=q.dtype)


def simple_recording(name: str) -> fgmbs.Recording:
    """The simple pendulum's angle `q` and torque `tau`, by its drive."""
    path = recorded("dfki_simple_pendulum", f"{name}.csv.gz")
    return fgmbs.read_recording(path, {"q": "q", "tau": "tau"}, units={"q": "rad", "tau": "N m"})


def design_a() -> DoublePendulum:
    """Design A.0 with the parameters of the repository's model 2.0."""
    return DoublePendulum(
        l1=0.3,
        masses=(0.5594, 0.6043),
        centres=(0.3, 0.1838),
        inertias=(0.05347, 0.02392),
        rotor=7.66e-5,
        viscous=(1e-3, 1e-3),
        coulomb=(0.093, 0.078),
    )


def design_c() -> DoublePendulum:
    """Design C.1 with the parameters of the repository's model 1.0."""
    return DoublePendulum(
        l1=0.2,
        masses=(0.5235, 0.6256),
        centres=(0.2, 0.2557),
        inertias=(0.03189, 0.05087),
        rotor=6.29e-5,
        viscous=(1e-3, 1e-3),
        coulomb=(0.16, 0.12),
    )


def fitted_a() -> DoublePendulum:
    """Design A.0 with what least squares over filtered derivatives find in A0_tracking_75s.

    They find I1 + m2 l1² = 0.0863, m2 r2 = 0.1158, I2 = 0.0195, m1 r1 + m2 l1 = 0.3295, of which the first two are 20 %
    less and 4 % more than those of model 2.0.
    """
    rig = design_a()
    (m1, m2), l1 = rig.masses, rig.l1
    centres, inertias = ((0.3295 - m2 * l1) / m1, 0.1158 / m2), (0.0863 - m2 * l1**2, 0.0195)
    return eqx.tree_at(
        lambda r: (r.centres, r.inertias), rig, (jnp.stack(centres), jnp.stack(list(map(as_array, inertias))))
    )


def without_friction(rig: DoublePendulum) -> DoublePendulum:
    """The same rig, what friction does left to unknown torques."""
    return eqx.tree_at(lambda r: (r.viscous, r.coulomb), rig, (jnp.zeros(2), jnp.zeros(2)))


def recording(name: str) -> fgmbs.Recording:
    """Angles `shoulder`, `elbow`; speeds by the drives `…_speed`, measured torques `…_torque`, commands `…_command`.

    A0_tracking_75s has no commands.
    """
    columns, units = {}, {}
    tracked = name == "A0_tracking_75s"
    for joint, k in (("shoulder", 1), ("elbow", 2)):
        columns |= {
            joint: f"q{k}",
            f"{joint}_speed": f"v{k}",
            f"{joint}_torque": f"tau{k}" if tracked else f"tau_meas{k}",
        }
        if not tracked:
            columns[f"{joint}_command"] = f"tau_cmd{k}"
    for signal in columns:
        _, _, kind = signal.partition("_")
        units[signal] = {"": "rad", "speed": "rad/s"}.get(kind, "N m")
    return fgmbs.read_recording(recorded("dfki_double_pendulum", f"{name}.csv.gz"), columns, units=units)
