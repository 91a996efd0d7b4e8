"""Identification beside mujoco.sysid: the rigs are the same in the words of all tools, and the answers are the same."""

import equinox as eqx
import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from jaxtyping import Array, Float
from scipy.integrate import solve_ivp

import fgmbs
from fgmbs.inputs import Disturbance
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.problems.identify.free_runs.prediction import predict_best
from fgmbs.problems.identify.free_runs.segments import prepare_prediction
from fgmbs.sensors import Encoder
from fgmbs.status import Status
from fgmbs.unknowns import is_unknown

sysid = pytest.importorskip("mujoco.sysid")
# Without its own requirements the module is there, and empty.
pytestmark = pytest.mark.skipif(not hasattr(sysid, "optimize"), reason='needs pip install "mujoco[sysid]"')

if hasattr(sysid, "optimize"):
    from rigs import compared, other_models
    from rigs.mujoco_fits import by_mujoco
    from rigs.simulation_error import Readings, by_scipy

MASS, CENTRE, GRAVITY = 1.0, 0.5, 9.81
TRUE = {"inertia": 0.3, "viscous": 0.05}
FREE = {"inertia": (0.45, 0.26, 2.0), "viscous": (0.2, 0.0, 1.0)}
SIGMA = 2e-3
MJCF = f"""<mujoco>
  <compiler inertiafromgeom="false"/>
  <option gravity="0 0 -{GRAVITY}" integrator="RK4" timestep="0.005"/>
  <worldbody><body name="rod">
    <joint name="angle" axis="1 0 0"/>
    <inertial pos="0 0 -{CENTRE}" mass="{MASS}" diaginertia="0.1 0.1 0.1"/>
  </body></worldbody>
  <sensor><jointpos joint="angle" name="angle"/></sensor>
</mujoco>"""


def _number(name):
    return eqx.field(converter=lambda x: x if is_unknown(x) else jnp.asarray(x, float), default=FREE[name][0])


class Pendulum(AbstractMechanism):
    """A body on a hinge with viscous friction; `angle` is 0 where it hangs."""

    inertia: Float[Array, ""] | fgmbs.Unknown = _number("inertia")
    viscous: Float[Array, ""] | fgmbs.Unknown = _number("viscous")

    @property
    def coordinate_names(self):
        return ("angle",)

    @property
    def constraint_names(self):
        return ()

    @property
    def actuator_names(self):
        return ()

    @property
    def reference(self):
        return jnp.zeros(1)

    def evaluated(self):
        return self

    def constraints(self, q, t):
        return q[:0]

    def mass_matrix(self, q):
        return self.inertia * jnp.eye(1)

    def potential(self, q):
        return -MASS * GRAVITY * CENTRE * jnp.cos(q[0])

    def forces(self, q, dq, t):
        return -MASS * GRAVITY * CENTRE * jnp.sin(q) - self.viscous * dq

    def actuation(self, q, t):
        return jnp.zeros((1, 0))


def build(numbers, spec):
    spec.body("rod").inertia = [numbers["inertia"] - MASS * CENTRE**2] * 3
    spec.joint("angle").damping[0] = numbers["viscous"]


def rates(numbers, state, u):
    q, dq = state
    return jnp.stack([dq, (-MASS * GRAVITY * CENTRE * jnp.sin(q) - numbers["viscous"] * dq) / numbers["inertia"]])


@pytest.fixture(scope="module")
def swing():
    """An encoder of a pendulum that swings from 1.2 rad, with noise."""
    t = np.arange(251) * 0.01
    angle = solve_ivp(lambda t, x: np.asarray(rates(TRUE, x, 0.0)), (0, t[-1]), (1.2, 0.0), t_eval=t, rtol=1e-9).y[0]
    noisy = angle + SIGMA * np.random.default_rng(5).normal(size=t.size)
    return Readings(t, noisy[:, None], ("angle",), SIGMA, (np.zeros(1), np.zeros(1)))


START = {"q": (1.2, 1.0, 1.4), "dq": (0.0, -1.0, 1.0)}


@pytest.fixture(scope="module")
def asked(swing):
    """The question as fgmbs is asked it."""
    recording = fgmbs.Recording.of(swing.t, {"angle": swing.values[:, 0]}, units={"angle": "rad"})
    return recording, [Encoder("angle", of="angle", sigma=SIGMA)], [Disturbance(1e-6)]


@pytest.fixture(scope="module")
def theirs(swing):
    """What the other tools find."""
    by_sysid = by_mujoco(mujoco.MjSpec.from_string(MJCF), build, swing, FREE, START, x_scale="jac")
    return by_sysid, by_scipy(rates, swing, FREE, START, 0.005)


def agree(values, std, theirs):
    for name, true in TRUE.items():
        assert abs(values[name] - true) < 3 * std[name], name
        for fit in theirs:
            # The same least squares of the same readings: apart by far less than what noise does.
            assert abs(values[name] - fit.values[name]) < 0.2 * std[name], name
            # Theirs are by the size of the residuals, ours by the noise that was told.
            assert std[name] == pytest.approx(fit.std[name], rel=0.15), name


def test_the_same_numbers_and_intervals_are_found(asked, theirs):
    free = {name: fgmbs.Unknown(value, lower=low, upper=high) for name, (value, low, high) in FREE.items()}
    problem = fgmbs.prepare_smooth(Pendulum(**free), *asked, start={"angle": 1.2})
    found = predict_best(prepare_prediction(problem))
    assert found.status == Status.converged
    names = problem.free.number_names
    std = np.sqrt(np.diag(found.covariance))
    agree(*(dict(zip(names, np.asarray(numbers), strict=True)) for numbers in (found.theta, std)), theirs)


@pytest.mark.slow
def test_identify_finds_them_too(asked, theirs):
    free = {name: (low, high) for name, (_, low, high) in FREE.items()}
    found = fgmbs.identify(Pendulum(), *asked, free=free, method="prediction", start={"angle": 1.2})
    agree(found.parameters, found.std, theirs)


def test_rigs_are_the_same_in_all_words():
    random = np.random.default_rng(2)
    first = {name: value for name, (value, _, _) in compared.ROTARY.items()}
    rotary = first | {"coulomb[0]": 0.0, "coulomb[1]": 0.0, "pendulum.bias": 0.0}
    double = {name: value for name, (value, _, _) in compared.DOUBLE.items()}
    for mjcf, write, own, numbers in (
        (other_models.FURUTA, other_models.build_furuta, other_models.furuta_rates, rotary),
        (other_models.IBM, other_models.build_ibm, other_models.ibm_rates, double),
    ):
        spec = mujoco.MjSpec.from_string(mjcf)
        write(numbers, spec)
        model = spec.compile()
        data, rate = mujoco.MjData(model), jax.jit(lambda x, own=own, numbers=numbers: own(numbers, x, 2.0))
        for state in random.uniform(-3, 3, (10, 4)):
            data.qpos, data.qvel = state[:2], state[2:]
            data.ctrl[:] = 2.0
            mujoco.mj_forward(model, data)
            np.testing.assert_allclose(rate(jnp.asarray(state))[2:], data.qacc, rtol=1e-6)
