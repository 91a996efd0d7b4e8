"""Rigs as other tools want them: in MJCF, and as rates of a state."""

import jax.numpy as jnp
import mujoco
from jaxtyping import Array, Float

from rigs.friction import WIDTH
from rigs.furuta import Furuta

_GIVEN = Furuta()
_OPTIONS = """<compiler angle="radian" inertiafromgeom="false"/>
  <option gravity="0 0 -9.81" integrator="RK4" timestep="{dt}"><flag contact="disable"/></option>"""

FURUTA = f"""<mujoco>
  {_OPTIONS.format(dt=1e-3)}
  <worldbody><body name="arm">
    <joint name="arm" axis="0 0 1"/>
    <inertial pos="{_GIVEN.l1} 0 0" mass="{_GIVEN.m1}" diaginertia="1e-4 1e-4 1e-4"/>
    <body name="pendulum" pos="{_GIVEN.L1} 0 0">
      <joint name="pendulum" axis="1 0 0"/>
      <inertial pos="0 0 -{_GIVEN.l2}" mass="{_GIVEN.m2}" diaginertia="1e-5 1e-5 1e-14"/>
    </body>
  </body></worldbody>
  <actuator><general name="motor" joint="arm"/></actuator>
  <sensor><jointpos joint="arm" name="arm"/><jointpos joint="pendulum" name="pendulum"/></sensor>
</mujoco>"""


def build_furuta(numbers: dict[str, float], spec: mujoco.MjSpec) -> None:
    """Writes numbers of the rotary pendulum into its model; MuJoCo's dry friction is a constraint."""
    spec.body("arm").inertia = [numbers["J1"]] * 3
    spec.body("pendulum").inertia = [numbers["J2"], numbers["J2"], 1e-14]
    for k, name in enumerate(("arm", "pendulum")):
        joint = spec.joint(name)
        joint.damping[0], joint.frictionloss = numbers[f"viscous[{k}]"], numbers[f"coulomb[{k}]"]
    spec.joint("pendulum").ref = numbers["pendulum.bias"]
    spec.actuator("motor").gainprm[0] = numbers["motor.gain"]


def furuta_rates(numbers: dict[str, Array], state: Float[Array, "4"], u: Array) -> Float[Array, "4"]:
    """d/dt of (arm, pendulum) and their speeds."""
    m2, L1, l2 = _GIVEN.m2, _GIVEN.L1, _GIVEN.l2
    q, dq = state[:2], state[2:]
    s, c = jnp.sin(q[1]), jnp.cos(q[1])
    K, coupling = numbers["J2"] + m2 * l2**2, m2 * L1 * l2
    viscous, coulomb = (jnp.stack([numbers[f"{kind}[{k}]"] for k in (0, 1)]) for kind in ("viscous", "coulomb"))
    friction = viscous * dq + coulomb * jnp.tanh(dq / WIDTH)
    M11, M12 = numbers["J1"] + _GIVEN.m1 * _GIVEN.l1**2 + m2 * L1**2 + K * s**2, coupling * c
    arm = numbers["motor.gain"] * u - 2 * K * s * c * dq[0] * dq[1] + coupling * s * dq[1] ** 2 - friction[0]
    pendulum = K * s * c * dq[0] ** 2 - m2 * _GIVEN.gravity * l2 * s - friction[1]
    det = M11 * K - M12**2
    return jnp.concatenate([dq, jnp.stack([K * arm - M12 * pendulum, M11 * pendulum - M12 * arm]) / det])


L1, COG, I0_UPPER, GRAVITY = 0.0913, 0.05, 7.185e-4, 9.81
"""Of configs/mechanisms/double_pendulum_ibm.yaml, what is not free."""

IBM = f"""<mujoco>
  {_OPTIONS.format(dt=1e-3)}
  <worldbody><body name="upper">
    <joint name="theta" axis="0 -1 0"/>
    <inertial pos="{COG} 0 0" mass="0.1" diaginertia="1e-4 1e-4 1e-4"/>
    <body name="lower" pos="{L1} 0 0">
      <joint name="phi" axis="0 -1 0"/>
      <inertial pos="{COG} 0 0" mass="0.1" diaginertia="1e-4 1e-4 1e-4"/>
    </body>
  </body></worldbody>
  <sensor><jointpos joint="theta" name="theta"/><jointpos joint="phi" name="phi"/></sensor>
</mujoco>"""
_THINNEST = 1e-8
"""Inertia about a centre of mass that MuJoCo is given at least [kg·m²]."""


def build_ibm(numbers: dict[str, float], spec: mujoco.MjSpec) -> None:
    """Writes numbers of the double pendulum into its model; MuJoCo has inertias about centres of mass."""
    for name, I0 in (("upper", I0_UPPER), ("lower", numbers["lower.I0"])):
        body, mass = spec.body(name), numbers[f"{name}.mass"]
        body.mass, body.inertia = mass, [max(I0 - mass * COG**2, _THINNEST)] * 3
    for k, name in enumerate(("theta", "phi")):
        spec.joint(name).damping[0] = numbers[f"damper{k}.damping"]


def ibm_rates(numbers: dict[str, Array], state: Float[Array, "4"], u: Array) -> Float[Array, "4"]:
    """d/dt of (upper arm from the horizontal, lower one from the upper) and of their speeds."""
    (theta, phi), (wa, wphi) = state[:2], state[2:]
    wb = wa + wphi
    upper, lower, I2 = numbers["upper.mass"], numbers["lower.mass"], numbers["lower.I0"]
    I1, coupling = I0_UPPER + lower * L1**2, lower * COG * L1
    c, s = coupling * jnp.cos(phi), coupling * jnp.sin(phi)
    joint = numbers["damper1.damping"] * wphi
    ra = s * wb**2 - GRAVITY * (upper * COG + lower * L1) * jnp.cos(theta) - numbers["damper0.damping"] * wa + joint
    rb = -s * wa**2 - GRAVITY * lower * COG * jnp.cos(theta + phi) - joint
    det = I1 * I2 - c**2
    a, b = (I2 * ra - c * rb) / det, (I1 * rb - c * ra) / det
    return jnp.stack([wa, wphi, a, b - a])
