"""Weighted inverse dynamics against dense algebra in numpy on exact motions."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fgmbs.errors import ArgumentError
from fgmbs.io.planar.load import load, parse_mechanism
from fgmbs.mechanisms.planar.mechanism import PlanarMechanism
from fgmbs.problems.driven import weighted_tracking as module
from fgmbs.problems.driven.weighted_tracking import weighted_tracking
from fgmbs.status import Status

pytestmark = pytest.mark.slow

STEPS = 200
DT = 5e-3
THETA = 4
"""Index of the crank's angle."""


def pose(theta):
    """[P1, P2, theta, phi] of the four-bar by the triangle of coupler (2 m) and rocker (√13 m), exact to rounding."""
    p1 = jnp.stack([jnp.cos(theta), jnp.sin(theta)])
    d = jnp.array([4.0, 0.0]) - p1
    along = (d @ d + 4.0 - 13.0) / (2 * (d @ d))
    across = jnp.sqrt(4.0 / (d @ d) - along**2)
    p2 = p1 + along * d + across * jnp.stack([-d[1], d[0]])
    return jnp.stack([*p1, *p2, theta, jnp.arctan2(p2[1], p2[0] - 4.0)])


@jax.jit
@jax.vmap
def motion(theta, dtheta, ddtheta):
    """q, dq, ddq."""
    slope = jax.jacfwd(pose)
    return pose(theta), slope(theta) * dtheta, slope(theta) * ddtheta + jax.jacfwd(slope)(theta) * dtheta**2


@eqx.filter_jit
def equations(mechanism, q, dq):
    """Φ, M, Φ_q, Q, c and A at every step."""

    def at(q, dq):
        return (
            mechanism.constraints(q, 0.0),
            mechanism.mass_matrix(q),
            mechanism.constraint_jacobian(q, 0.0),
            mechanism.forces(q, dq, 0.0),
            mechanism.constraint_bias(q, dq, 0.0),
            mechanism.actuation(q, 0.0),
        )

    return jax.vmap(at)(q, dq)


class Case:
    """A motion of the four-bar and the commands that it takes."""

    def __init__(self, mechanism, t, crank):
        self.mechanism = mechanism.evaluated()
        self.t = jnp.asarray(t)
        self.q, self.dq, self.ddq = (x[:, : mechanism.n] for x in motion(*map(jnp.asarray, crank)))

    @classmethod
    def exact(cls, mechanism, dt=DT, middle=0.5):
        t = middle + dt * np.arange(-STEPS // 2, STEPS // 2)
        return cls(mechanism, t, (1.2 * (1 - np.cos(2 * t)), 2.4 * np.sin(2 * t), 4.8 * np.cos(2 * t)))

    def commands(self):
        """u of [M Φ_qᵀ −A; Φ_q 0 0; B 0 0] [ddq; λ; u] = [Q; c; ddθ], one step after the other."""
        result = []
        for Phi, M, Phi_q, Q, c, A, ddq in zip(*self.equations(), np.asarray(self.ddq), strict=True):
            m, nu, B = len(Phi), A.shape[1], np.eye(len(M))[[THETA]]
            K = np.block([[M, Phi_q.T, -A], [Phi_q, np.zeros((m, m + nu))], [B, np.zeros((1, m + nu))]])
            result.append(np.linalg.lstsq(K, np.r_[Q, c, ddq[THETA]], rcond=None)[0][-nu:])
        return np.array(result)

    def equations(self):
        return [np.asarray(x) for x in equations(self.mechanism, self.q, self.dq)]

    @property
    def start(self):
        """The exact motion, while nothing is known of the commands."""
        return self.q, self.dq, self.ddq, jnp.zeros((STEPS, len(self.mechanism.actuator_names)))


def follow(case, y=None, sigma=1e-6, effort=1e4, smoothness=3e3):
    """The motion of the crank alone, compiled once."""
    y = case.q[:, [THETA]] if y is None else y
    return weighted_tracking(
        case.mechanism, case.t, (THETA,), y, sigma, case.start, effort, smoothness, covariance=True
    )


NOISY = {"sigma": 1e-3, "effort": 100.0, "smoothness": 300.0}


@pytest.fixture(scope="module")
def fourbar_motor(configs):
    return load(configs / "mechanisms" / "fourbar_crank_angle.yaml")


@pytest.fixture(scope="module")
def case(fourbar_motor):
    return Case.exact(fourbar_motor)


@pytest.fixture(scope="module")
def exact(case):
    return follow(case)


@pytest.fixture(scope="module")
def noisy(case):
    """Angles measured to 1 mrad: (measurements, result)."""
    y = case.q[:, [THETA]] + 1e-3 * np.random.default_rng(0).standard_normal((STEPS, 1))
    return y, follow(case, y, **NOISY)


def test_exact_motion_takes_the_torque_of_inverse_dynamics(case, exact):
    torque = case.commands()
    assert exact.status == Status.converged
    error = np.abs(exact.u - torque)[:, 0]
    # dt²/6 times the fourth derivative of the angle, 80 rad/s⁴, and an inertia of 10 kg m² is 3e-3 N m.
    assert np.max(error) < 1e-2 < 1e-3 * np.max(np.abs(torque))
    assert np.max(error[[0, 1, -2, -1]]) < 1e-2
    assert np.max(np.abs(exact.q - case.q)) < 1e-9


def test_torque_is_of_second_order(fourbar_motor):
    """Around t = 0.5 s. What alternates depends on the ends, which move for as many steps: it is averaged out."""
    errors = []
    for dt in (4 * DT, 2 * DT, DT, DT / 2):
        case = Case.exact(fourbar_motor, dt)
        error = (np.asarray(follow(case, sigma=1e-8).u) - case.commands())[:, 0]
        smooth = np.convolve(error, [0.25, 0.5, 0.25], "same")
        errors.append(np.max(np.abs(smooth[np.abs(case.t - 0.5) < 0.2])))
    slopes = -np.diff(np.log2(errors))
    np.testing.assert_allclose(slopes, 2, atol=0.2)


def _dynamics_left(mechanism, result):
    """Largest |Φ|, |Φ_q dq|, |Φ_q ddq − c| and of what no reaction force explains in M ddq − Q − A u."""
    Phi, M, Phi_q, Q, c, A = (np.asarray(x) for x in equations(mechanism, result.q, result.dq))
    dq, ddq, u = (np.asarray(x)[..., None] for x in (result.dq, result.ddq, result.u))
    forces = (M @ ddq - A @ u)[..., 0] - Q
    reaction = np.swapaxes(Phi_q, 1, 2)
    forces = forces - (reaction @ np.linalg.pinv(reaction) @ forces[..., None])[..., 0]
    return [np.max(np.abs(x)) for x in (Phi, Phi_q @ dq, (Phi_q @ ddq)[..., 0] - c, forces)]


def test_equations_hold(case, exact, noisy):
    for result in (exact, noisy[1]):
        position, velocity, acceleration, force = _dynamics_left(case.mechanism, result)
        assert position < 1e-9
        # A displacement of 1e-9 of one in a step of 5 ms, and of two.
        assert velocity < 1e-8
        assert acceleration < 1e-4
        assert force < 1e-4


def test_noisy_angles_give_better_torques_than_their_differences(case, noisy):
    y, result = noisy
    assert result.status == Status.converged
    torque = case.commands()
    rate = np.gradient(y[:, 0], DT)
    differentiated = Case(case.mechanism, case.t, (y[:, 0], rate, np.gradient(rate, DT))).commands()
    error, naive = (np.sqrt(np.mean((np.asarray(u) - torque) ** 2)) for u in (result.u, differentiated))
    assert error < naive / 8
    assert error < 0.2 * np.sqrt(np.mean(torque**2))
    # The prior is broader than this motion: torques are better than they claim, and by far not all at their 2σ.
    assert np.mean(np.abs(np.asarray(result.u) - torque)[:, 0] < 2 * np.sqrt(result.covariance_u[:, 0, 0])) > 0.95


def test_results_do_not_depend_on_how_tight_the_equations_are(case, noisy, monkeypatch):
    y, result = noisy
    monkeypatch.setattr(module, "_TIGHT", module._TIGHT / 10)
    tighter = follow(case, y, **NOISY)
    assert tighter.status == Status.converged
    assert np.max(np.abs(tighter.u - result.u)) < 1e-6 * np.max(np.abs(result.u))
    np.testing.assert_allclose(tighter.covariance_u, result.covariance_u, rtol=1e-4)


def test_covariance_is_that_of_the_dense_information(case, noisy):
    y, result = noisy
    effort, smoothness, sigma = (jnp.array([NOISY[key]]) for key in ("effort", "smoothness", "sigma"))
    start = module.Motion(*case.start)
    x = {"q": result.q, "dq": result.dq, "ddq": result.ddq, "u": result.u}

    @eqx.filter_jit
    def information(mechanism, x):
        tight = module._TIGHT * module._least_displacement(
            mechanism, mechanism.actuator_names, case.t, start, sigma, effort, smoothness
        )
        weights = (tight, sigma, start, effort, smoothness, None)
        graph = module._graph(mechanism, mechanism.actuator_names, case.t, (THETA,), jnp.asarray(y), *weights)
        return graph.linearize(graph.pack(x))[0].information().to_dense()

    H = np.asarray(information(case.mechanism, x))
    scale = 1 / np.sqrt(np.diag(H))
    cov = scale[:, None] * np.linalg.inv(scale[:, None] * H * scale) * scale
    nx = H.shape[0] // STEPS
    blocks = cov.reshape(STEPS, nx, STEPS, nx)[np.arange(STEPS), :, np.arange(STEPS)]
    np.testing.assert_allclose(result.covariance_u, blocks[:, -1:, -1:], rtol=1e-5)
    np.testing.assert_allclose(result.covariance_q, blocks[:, :5, :5], rtol=1e-5, atol=1e-5 * np.max(blocks[:, :5, :5]))


def test_two_motors_share_the_load_by_their_efforts(configs):
    """u ∝ σ² · (what the motor does per unit): the pseudo-inverse weighted by the efforts. Both angles are followed."""
    case = Case.exact(load(configs / "mechanisms" / "fourbar_two_motors.yaml"))
    effort = np.array([1e4, 2e4])
    result = weighted_tracking(
        case.mechanism, case.t, (4, 5), case.q[:, 4:], np.array([1e-7, 2e-7]), case.start, effort
    )
    assert result.status == Status.converged
    assert result.covariance_u is None
    moving = np.abs(np.asarray(case.dq)[:, THETA]) > 1e-3
    u, rates = np.asarray(result.u)[moving], np.asarray(case.dq)[moving, 4:]
    turn = rates / rates[:, :1]  # of either motor for a turn of the crank
    share = effort**2 * turn / np.sum(effort**2 * turn**2, axis=1, keepdims=True)
    total = np.sum(turn * u, axis=1, keepdims=True)
    np.testing.assert_allclose(u, share * total, atol=1e-6)
    # One motor alone would do what both do together: the power of all commands is what the motion takes.
    expected = np.sum(turn * case.commands()[moving], axis=1, keepdims=True)
    assert np.max(np.abs(total - expected)) < 0.1


DOUBLE_PENDULUM = """
points:
  - {name: A, x: 0, y: 0, fixed: true}
  - {name: P1, x: 0, y: -1}
  - {name: P2, x: 0, y: -2}
planar_bodies:
  - {name: upper, points: [A, P1], length: 1, mass: 2, I0: 2/3, cog: [0.5, 0]}
  - {name: lower, points: [P1, P2], length: 1, mass: 1, I0: 1/3, cog: [0.5, 0]}
relative_coordinates:
  - {name: theta, type: RelativeAngleAbsoluteDOF, points: [A, P1]}
actuators:
  - {name: motor, angle: theta}
"""


def test_pendulum_with_one_motor_for_two_joints_is_swung():
    """The angle of the upper link is followed, with its rate; what the lower one does is found out."""
    mechanism = PlanarMechanism.from_description(parse_mechanism(DOUBLE_PENDULUM)).evaluated()
    t = DT * np.arange(STEPS)
    theta, dtheta, ddtheta = -np.pi / 2 + 0.3 * (1 - np.cos(3 * t)), 0.9 * np.sin(3 * t), 2.7 * np.cos(3 * t)
    arm = np.stack([np.cos(theta), np.sin(theta)], axis=1)
    across = np.stack([-arm[:, 1], arm[:, 0]], axis=1)
    below = np.array([0.0, -1.0])
    velocity = across * dtheta[:, None]
    acceleration = across * ddtheta[:, None] - arm * dtheta[:, None] ** 2
    # The lower link hangs down all the time: assembled, but no motion under its weight.
    start = (
        np.column_stack([arm, arm + below, theta]),
        np.column_stack([velocity, velocity, dtheta]),
        np.column_stack([acceleration, acceleration, ddtheta]),
        np.zeros((STEPS, 1)),
    )
    result = weighted_tracking(
        mechanism, t, (4,), theta[:, None], 1e-4, start, 100.0, 1000.0, rates=(dtheta[:, None], 1e-2)
    )
    assert result.status == Status.converged
    position, velocity, acceleration, force = _dynamics_left(mechanism, result)
    assert position < 1e-9
    assert max(velocity, acceleration, force) < 1e-6
    assert np.max(np.abs(result.q[:, 4] - theta)) < 1e-3


def test_derivatives_equal_differences(case, noisy):
    y, _ = noisy
    direction = np.random.default_rng(3).standard_normal((STEPS, 1))

    def commands(s):
        parameters = {"rocker.mass": 4.0 + s, "L_coupler": 2.0 + 0.01 * s}
        changed = case.mechanism.with_parameters(parameters)
        return weighted_tracking(
            changed, case.t, (THETA,), y + 1e-3 * s * direction, 1e-3, case.start, 100.0, 300.0, covariance=True
        ).u

    slope = (commands(1e-3) - commands(-1e-3)) / 2e-3
    tangent = jax.jvp(commands, (0.0,), (1.0,))[1]
    # The linear system of the derivatives is squared: five digits.
    assert np.max(np.abs(tangent - slope)) < 1e-4 * np.max(np.abs(slope))


def test_sizes_that_do_not_agree_are_refused(case, fourbar_motor, configs):
    y, start = case.q[:, [THETA]], case.start
    with pytest.raises(ArgumentError, match=r"y: expected shape \(200, 1\); found \(200, 2\)"):
        weighted_tracking(fourbar_motor, case.t, (THETA,), case.q[:, :2], 1e-3, start, 1.0)
    with pytest.raises(ArgumentError, match=r"start: expected u of shape \(200, 1\); found \(200, 2\)"):
        weighted_tracking(fourbar_motor, case.t, (THETA,), y, 1e-3, (*start[:3], np.zeros((STEPS, 2))), 1.0)
    with pytest.raises(ArgumentError, match="effort: expected one number or 1; found shape"):
        weighted_tracking(fourbar_motor, case.t, (THETA,), y, 1e-3, start, np.ones(2))
    with pytest.raises(ArgumentError, match="rates: expected shape"):
        weighted_tracking(fourbar_motor, case.t, (THETA,), y, 1e-3, start, 1.0, rates=(y[1:], 1.0))
    with pytest.raises(ArgumentError, match="followed: expected indices of coordinates, 0 to 4; found"):
        weighted_tracking(fourbar_motor, case.t, (5,), y, 1e-3, start, 1.0)
    with pytest.raises(ArgumentError, match="t: expected at least 3 times"):
        weighted_tracking(fourbar_motor, case.t[:2], (THETA,), y[:2], 1e-3, start, 1.0)
    without = load(configs / "mechanisms" / "fourbar.yaml")
    with pytest.raises(ArgumentError, match="mechanism: expected one with actuators; found none"):
        weighted_tracking(without, case.t, (0,), y, 1e-3, start, 1.0)
