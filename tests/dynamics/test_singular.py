"""Starts in poses where motions meet: a flat parallelogram, which is a flat antiparallelogram, too."""

import jax.numpy as jnp
import numpy as np
import pytest

import fgmbs
from fgmbs import planar as p
from fgmbs.dynamics.singular import rank_margins, refuse_no_motion
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


def test_a_motion_that_gets_stuck_there_says_so():
    with pytest.raises(SolveError, match="nearly singular .* a smaller dt does not help: start beside it"):
        fgmbs.simulate(flat(gravity=9.81), 0.2, 1e-3)
