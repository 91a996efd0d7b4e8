"""A rotary (Furuta) pendulum on a gimbal motor, https://github.com/macstepien/furuta_pendulum, and its recordings."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

import fgmbs
from fgmbs.mechanisms import lagrangian
from fgmbs.mechanisms.base import AbstractMechanism
from rigs.friction import WIDTH
from rigs.recordings import recorded


def _number(default: float | tuple[float, float]):
    return eqx.field(converter=lambda x: jnp.asarray(x, dtype=float), default=default)


class Furuta(AbstractMechanism):
    """An arm that turns about the vertical carries a slender pendulum that turns about the arm's axis.

    Coordinates: the angle of the arm about the vertical, and that of the pendulum about the outward axis of the arm, 0
    where it hangs; both right-handed. The motor turns the arm [N·m]. Geometry and masses by default are the authors'
    CAD values; the inertia of the arm and friction are those that reproduce their recordings, see the fields.
    """

    m1: Float[Array, ""] = _number(0.040466)
    """Mass of the arm [kg]."""
    l1: Float[Array, ""] = _number(0.05415)
    """From the axis to the arm's centre of mass [m]."""
    L1: Float[Array, ""] = _number(0.093525)
    """From the axis to the pendulum [m]."""
    J1: Float[Array, ""] = _number(1.35e-4)
    """Arm and rotor about the arm's centre of mass [kg·m²]; from sine_4V. The arm alone has 2.4054e-5 by CAD."""
    m2: Float[Array, ""] = _number(0.009801)
    """Mass of the pendulum [kg]."""
    l2: Float[Array, ""] = _number(0.096608)
    """From its pivot to its centre of mass [m]."""
    J2: Float[Array, ""] = _number(1.479e-5)
    """About any axis across it through its centre of mass [kg·m²]; it fits the frequency in free_2024 too."""
    viscous: Float[Array, "2"] = _number((1.19e-2, 1.06e-5))
    """Viscous friction of arm and pendulum [N·m·s]; that of the arm holds the motor's back-EMF."""
    coulomb: Float[Array, "2"] = _number((6.5e-3, 1.03e-5))
    """Coulomb friction [N·m]."""
    drag: Float[Array, "2"] = _number((0.0, 4.8e-7))
    """Drag of the air, quadratic in the speed [N·m·s²]."""
    gravity: Float[Array, ""] = _number(9.81)
    """[m/s²]"""
    tilt: Float[Array, "2"] = _number((0.0, 0.0))
    """How far the arm's axis leans to where the arm points at 0, and at a quarter of a turn [rad]."""
    clamp: Float[Array, "2"] = _number((0.0, 0.0))
    """Stiffness and damping of what holds the arm at 0 [N·m, N·m·s]."""
    motor_gain: Float[Array, ""] = _number(0.0469)
    """Torque of the motor by voltage, for whoever commands a voltage [N·m/V]; from sine_4V."""

    @property
    def coordinate_names(self) -> tuple[str, ...]:
        return "arm", "pendulum"

    @property
    def constraint_names(self) -> tuple[str, ...]:
        return ()

    @property
    def actuator_names(self) -> tuple[str, ...]:
        return ("motor",)

    @property
    def reference(self) -> Float[Array, "2"]:
        return jnp.zeros_like(self.viscous)

    def evaluated(self) -> "Furuta":
        return self

    def constraints(self, q, t):
        return q[:0]

    def centre(self, q: Float[Array, "2"]) -> Float[Array, "3"]:
        """Where the pendulum's centre of mass is [m]."""
        c, s = jnp.cos(q[0]), jnp.sin(q[0])
        outward, ahead = jnp.array([c, s, 0.0]), jnp.array([-s, c, 0.0])
        hanging = self.l2 * (jnp.sin(q[1]) * ahead - jnp.cos(q[1]) * jnp.array([0.0, 0.0, 1.0]))
        return self.L1 * outward + hanging

    def kinetic(self, q: Float[Array, "2"], dq: Float[Array, "2"]) -> Float[Array, ""]:
        """Kinetic energy [J]."""
        v = jax.jvp(self.centre, (q,), (dq,))[1]
        arm = (self.J1 + self.m1 * self.l1**2) * dq[0] ** 2
        # A slender body has no inertia about its own axis: of the turn of the arm, the part across it counts.
        turning = self.J2 * (dq[1] ** 2 + (jnp.sin(q[1]) * dq[0]) ** 2)
        return 0.5 * (arm + self.m2 * v @ v + turning)

    def potential(self, q):
        (s_x, s_y), (c_x, c_y) = jnp.sin(self.tilt), jnp.cos(self.tilt)
        up = jnp.array([-s_x, -c_x * s_y, c_x * c_y])
        arm = self.l1 * jnp.array([jnp.cos(q[0]), jnp.sin(q[0]), 0.0])
        return self.gravity * up @ (self.m1 * arm + self.m2 * self.centre(q))

    def mass_matrix(self, q):
        return lagrangian.mass_matrix(self.kinetic, q)

    def forces(self, q, dq, t):
        friction = fgmbs.Friction(self.viscous, self.coulomb, quadratic=self.drag, width=WIDTH)
        stiffness, damping = self.clamp
        held = jnp.zeros_like(dq).at[0].set(stiffness * q[0] + damping * dq[0])
        return lagrangian.forces(self.kinetic, self.potential, q, dq) - friction(dq) - held

    def actuation(self, q, t):
        return jnp.array([[1.0], [0.0]], q.dtype)


def recording(name: str) -> fgmbs.Recording:
    """Angles `arm` and `pendulum`, speeds `arm_speed` and `pendulum_speed` of the drives, and the command `u` if any.

    The command is a voltage in the files of 2024, a nominal torque in those of 2023 (a volt each 0.103375 N·m).
    """
    columns = {"arm": "q0", "pendulum": "q1", "arm_speed": "v0", "pendulum_speed": "v1"}
    units = {"arm": "rad", "pendulum": "rad", "arm_speed": "rad/s", "pendulum_speed": "rad/s"}
    motion = fgmbs.read_recording(recorded("furuta_macstepien", f"{name}.csv.gz"), columns, units=units)
    if name.startswith("free"):
        return motion
    return motion.merged(fgmbs.read_recording(recorded("furuta_macstepien", f"{name}_u.csv.gz"), {"u": "u"}))
