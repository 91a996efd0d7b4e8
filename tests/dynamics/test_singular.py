"""Starts in poses where motions meet: a flat parallelogram, which is a flat antiparallelogram, too."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import fgmbs
from fgmbs import planar as p
from fgmbs.dynamics.singular import nearest_to_singular, rank_margins, refuse_no_motion
from fgmbs.errors import AssemblyError, SolveError

MOTIONS = {"parallelogram": (1.0, 1.0), "antiparallelogram": (1.0, -3.0)}


def flat(L=1.0, gravity=0.0):
    def rod(name, start, end, length):
        return p.body(name, start, end, mass=1.0, I0=length**2 / 3, cog=(length / 2, 0.0))

    return p.mechanism(
        *(
            p.point("A", 0, 0, fixed=True),
            p.point("B", L, 0),
            p.point("C", 3 * L, 0),
            p.point("D", 2 * L, 0, fixed=True),
        ),
        *(rod("crank", "A", "B", L), rod("beam", "B", "C", 2 * L), rod("second", "D", "C", L)),
        *(p.absolute_angle("theta", "A", "B"), p.absolute_angle("phi", "D", "C")),
        gravity=(0.0, -gravity),
    )


def turning(mechanism, theta, phi, L=1.0):
    return jnp.array([0.0, L * theta, 0.0, L * phi, theta, phi])


@pytest.mark.parametrize("L", (1.0, 1e-4, 1e4))
def test_velocities_between_motions_are_refused_and_the_motions_named(L):
    mechanism = flat(L)
    q = mechanism.reference
    for velocities in MOTIONS.values():
        refuse_no_motion(mechanism, q, turning(mechanism, *velocities, L), 0.0)
    refuse_no_motion(mechanism, q, jnp.zeros(6), 0.0)  # it rests: nothing pushes it
    with pytest.raises(AssemblyError) as caught:
        refuse_no_motion(mechanism, q, turning(mechanism, 1.0, 0.0, L), 0.0)
    assert "singular pose with 2 degrees of freedom, of which the mechanism has 1 elsewhere" in str(caught.value)
    assert "the motions through it have (theta 1, phi 1) or (theta -0.3333, phi 1)" in str(caught.value)


def test_the_margin_of_rank():
    """The sine of the angle between the cranks and the beam, about: along 1100 poses through the flat one."""
    mechanism = flat()
    angles = np.linspace(-0.3, 0.8, 1101)
    places = [1 + 0 * angles, 0 * angles, 3 + 0 * angles, 0 * angles, angles, angles]
    q = np.stack(places, axis=1)
    q[:, 0], q[:, 2], q[:, 1] = np.cos(angles), 2 + np.cos(angles), np.sin(angles)
    q[:, 3] = q[:, 1]
    found = rank_margins(mechanism, jnp.asarray(q), jnp.zeros(1101))
    assert np.argmin(found.margins) == 300 and found.margins[300] < 1e-12 and found.margins[[0, -1]].min() > 0.02
    assert np.corrcoef(found.margins, np.abs(np.sin(angles)))[0, 1] > 0.99
    for name in ("crank", "beam", "second"):
        assert f"distance of body '{name}'" in found.dependent
    refuse_no_motion(mechanism, jnp.asarray(q[-1]), jnp.ones(6), 0.0)  # elsewhere there is nothing to choose


def test_a_singular_pose_between_two_steps_is_seen():
    mechanism, angles = flat(), np.linspace(-0.25, 0.45, 8)
    c, s = np.cos(angles), np.sin(angles)
    q, t = np.stack([c, s, 2 + c, s, angles, angles], axis=1), angles + 1.25
    margins = rank_margins(mechanism, jnp.asarray(q), t).margins
    near = nearest_to_singular(mechanism, q, t, margins)
    assert margins.min() > 4e-3 and near.margin < 1e-6 and near.t == pytest.approx(1.25) and near.steps < 1e-3


def test_in_how_many_steps_the_least_margin_grows_by_itself():
    """It is as the sine of the angle, which begins at five times its change in a step."""
    mechanism, angles = flat(), 0.05 + 0.01 * np.arange(40)
    c, s = np.cos(angles), np.sin(angles)
    q = np.stack([c, s, 2 + c, s, angles, angles], axis=1)
    near = nearest_to_singular(mechanism, q, angles, rank_margins(mechanism, jnp.asarray(q), angles).margins)
    assert near.t == pytest.approx(0.05) and near.steps == pytest.approx(5.0, rel=0.01)
    still = nearest_to_singular(mechanism, q[:1].repeat(9, 0), angles[:9], np.full(9, near.margin))
    assert still.steps == np.inf


@pytest.mark.slow
def test_motions_through_it_are_followed():
    """By the velocities that the message names; with no other force than of the joints, energy is kept."""
    mechanism = flat()
    for name, (theta, phi) in MOTIONS.items():
        motion = fgmbs.simulate(mechanism, 0.2, 1e-3, start_velocities={"theta": theta, "phi": phi})
        np.testing.assert_allclose(motion.kinetic, motion.kinetic[0], rtol=1e-6)
        turned = np.asarray(motion.q)[-1, 4:]
        assert turned[1] / turned[0] == pytest.approx(1.0, abs=1e-9) if name == "parallelogram" else turned[1] < -0.3
    with pytest.raises(AssemblyError, match="its velocities lie between the motions"):
        fgmbs.simulate(mechanism, 0.2, 1e-3, start_velocities={"theta": 1.0})


def test_from_rest_it_moves_as_gravity_pushes_it():
    """Both cranks alike, as a parallelogram: 5/3 θ'' = -2 g cos θ."""
    motion = fgmbs.simulate(flat(gravity=9.81), 0.2, 1e-3)
    fall = solve_ivp(lambda t, y: (y[1], -1.2 * 9.81 * np.cos(y[0])), (0, 0.2), (0, 0), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(motion.q[-1, 4:], fall.y[0, -1], rtol=0, atol=1e-8)


def test_a_motion_that_gets_stuck_there_says_so():
    with pytest.raises(SolveError, match="nearly singular .* a smaller dt does not help: start beside it"):
        fgmbs.simulate(flat(gravity=9.81), 0.2, 1e-3, start_velocities={"theta": 1e-2, "phi": -3e-2})


def isosceles(theta, a=1.0):
    """A crank and a rod as long as it, whose end slides through the crank's pivot at θ = π/2."""
    tip, end = (a * np.cos(theta), a * np.sin(theta)), 2 * a * np.cos(theta)
    return p.mechanism(
        *(p.point("O", 0, 0, fixed=True), p.point("A", *tip), p.point("B", end, 0)),
        p.body("crank", "O", "A", mass=1.0, I0=a**2 / 3, cog=(a / 2, 0.0)),
        p.body("rod", "A", "B", mass=0.5, I0=0.5 * a**2 / 3, cog=(a / 2, 0.0)),
        *(p.absolute_angle("theta", "O", "A"), p.fixed_slider("guide", "B", (0, 0), (1, 0))),
    )


@pytest.mark.parametrize("distance", (1e-1, 1e-2, 1e-3, 3e-4, 1e-4))
def test_accelerations_beside_a_change_point(distance, a=1.0, g=9.81):
    """Against Lagrange's equation of the angle, which has nothing singular."""
    theta, rate = np.pi / 2 - distance, 3.0
    mechanism = isosceles(theta, a)
    q = mechanism.reference
    turning = np.array([-np.sin(theta), np.cos(theta), -2 * np.sin(theta), 0.0, 1 / a])
    dq = jnp.asarray(rate * a * turning)
    s, c = np.sin(theta), np.cos(theta)
    inertia = a**2 * (1 / 3 + 0.5 * (2.25 * s**2 + 0.25 * c**2 + 1 / 12))
    slope = a**2 * 0.5 * 4 * s * c
    expected = -(0.5 * slope * rate**2 + 1.5 * g * a / 2 * c) / inertia
    ddq, _ = mechanism.accelerations(q, dq, 0.0)
    assert ddq[-1] == pytest.approx(expected, rel=1e-15 / distance**2)
