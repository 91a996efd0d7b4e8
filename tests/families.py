"""Families of a user's own on manifolds: rigid bodies with unit quaternions, n = 7, nv = 6."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from fgmbs.mechanisms.base import AbstractMechanism


def product(a, b):
    """Product of quaternions (w, x, y, z)."""
    return jnp.concatenate([(a[0] * b[0] - a[1:] @ b[1:])[None], a[0] * b[1:] + b[0] * a[1:] + jnp.cross(a[1:], b[1:])])


def exponential(v):
    """Unit quaternion of a rotation vector."""
    square = v @ v
    safe = jnp.where(square > 1e-12, square, 1.0)
    half = jnp.sqrt(safe) / 2
    sinc = jnp.where(square > 1e-12, jnp.sin(half) / jnp.sqrt(safe), 0.5 - square / 48)
    cos = jnp.where(square > 1e-12, jnp.cos(half), 1 - square / 8)
    return jnp.concatenate([cos[None], sinc * v])


def logarithm(u):
    """Rotation vector of a quaternion, of length π at most."""
    u = jnp.where(u[0] < 0, -u, u)
    square = u[1:] @ u[1:]
    safe = jnp.where(square > 1e-12, square, 1.0)
    angle = 2 * jnp.arctan2(jnp.sqrt(safe), u[0]) / jnp.sqrt(safe)
    return jnp.where(square > 1e-12, angle, 2 / u[0] - 2 * square / (3 * u[0] ** 3)) * u[1:]


def rotation(u):
    """Matrix of a unit quaternion."""
    w, v = u[0], u[1:]
    cross = jnp.array([[0.0, -v[2], v[1]], [v[2], 0.0, -v[0]], [-v[1], v[0], 0.0]])
    return jnp.eye(3, dtype=u.dtype) + 2 * w * cross + 2 * cross @ cross


class RigidBody(AbstractMechanism):
    """A rigid body: place of its centre of mass and unit quaternion; velocity of the centre, seen from the ground, and
    angular velocities in the axes of the body."""

    mass: Float[Array, ""]
    inertia: Float[Array, "3"]
    """Principal moments of inertia."""
    weight: Float[Array, "3"]
    """Acceleration of free fall, seen from the ground."""

    @property
    def coordinate_names(self):
        return "x", "y", "z", "e0", "e1", "e2", "e3"

    @property
    def velocity_names(self):
        return "v_x", "v_y", "v_z", "w_x", "w_y", "w_z"

    @property
    def coordinate_units(self):
        return ("m",) * 3 + ("1",) * 4

    @property
    def velocity_units(self):
        return ("m/s",) * 3 + ("rad/s",) * 3

    @property
    def body_names(self):
        return ("body",)

    @property
    def constraint_names(self) -> tuple[str, ...]:
        return ()

    @property
    def reference(self):
        return jnp.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0])

    def evaluated(self):
        return self

    def retract(self, q, v):
        u = product(q[3:], exponential(v[3:]))
        return jnp.concatenate([q[:3] + v[:3], u / jnp.sqrt(u @ u)])

    def local(self, q0, q1):
        conjugate = q0[3:] * jnp.array([1.0, -1.0, -1.0, -1.0])
        return jnp.concatenate([q1[:3] - q0[:3], logarithm(product(conjugate, q1[3:]))])

    def constraints(self, q, t):
        return q[:0]

    def mass_matrix(self, q):
        return jnp.diag(jnp.concatenate([jnp.full(3, self.mass), self.inertia]))

    def forces(self, q, dq, t):
        w = dq[3:]
        return jnp.concatenate([self.mass * self.weight, -jnp.cross(w, self.inertia * w)])

    def potential(self, q):
        return -self.mass * self.weight @ q[:3]

    def body_frame(self, body, q, t):
        return rotation(q[3:]), q[:3]

    @property
    def gravity(self):
        return self.weight


class SphericalPendulum(AbstractMechanism):
    """A rigid body that hangs from a fixed point, in maximal coordinates: the point is a constraint."""

    body: RigidBody
    arm: Float[Array, "3"]
    """From the centre of mass to the point, in the axes of the body [m]."""

    @property
    def coordinate_names(self):
        return self.body.coordinate_names

    @property
    def velocity_names(self):
        return self.body.velocity_names

    @property
    def constraint_names(self):
        return "pivot x", "pivot y", "pivot z"

    @property
    def reference(self):
        return jnp.concatenate([-self.arm, jnp.array([1.0, 0.0, 0.0, 0.0])])

    def evaluated(self):
        return self

    def retract(self, q, v):
        return self.body.retract(q, v)

    def local(self, q0, q1):
        return self.body.local(q0, q1)

    def constraints(self, q, t):
        return q[:3] + rotation(q[3:]) @ self.arm

    def mass_matrix(self, q):
        return self.body.mass_matrix(q)

    def forces(self, q, dq, t):
        return self.body.forces(q, dq, t)

    def potential(self, q):
        return self.body.potential(q)

    def body_frame(self, body, q, t):
        return self.body.body_frame(body, q, t)

    @property
    def gravity(self):
        return self.body.weight


def rigid_body(mass=2.0, inertia=(0.02, 0.05, 0.06), weight=(0.0, 0.0, -9.81)) -> RigidBody:
    return RigidBody(jnp.asarray(mass), jnp.array(inertia), jnp.array(weight))


def spherical_pendulum(arm=(0.0, 0.0, 0.5), **options) -> SphericalPendulum:
    return SphericalPendulum(rigid_body(**options), jnp.array(arm))


class LabelledPendulum(SphericalPendulum):
    """A pendulum that tells all there is to tell: units, a body, points, a pin and the force in it."""

    @property
    def coordinate_units(self):
        return self.body.coordinate_units

    @property
    def velocity_units(self):
        return self.body.velocity_units

    @property
    def body_names(self):
        return ("body",)

    @property
    def body_points(self):
        return ((0, 1),)

    @property
    def point_names(self):
        return "pivot", "centre"

    @property
    def fixed_points(self):
        return (0,)

    def point_position(self, point, q):
        return {"pivot": jnp.zeros(3), "centre": q[:3]}[point]

    def point_coordinates(self, point):
        return {"centre": (0, 1, 2)}[point]

    @property
    def pin_names(self):
        return ("body@pivot",)

    def joint_forces(self, q, dq, ddq, lambda_, t, u=None):
        return -lambda_[None]
