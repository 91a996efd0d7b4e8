"""Single numbers of robots by name."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fgmbs
from fgmbs import Unknown, robots, tree
from fgmbs.problems.identify.free import Parts, freed_by_name
from fgmbs.unknowns import known

Q, DQ, DDQ = np.random.default_rng(1).normal(size=(3, 2))


@pytest.fixture(scope="module")
def arm():
    return robots.robot(
        robots.link("upper", mass=2.0, center=(0.1, 0.0, 0.2), inertia=(0.03, 0.04, 0.02)),
        robots.link("fore", mass=1.0, center=(0.0, 0.1, 0.15), inertia=(0.01, 0.02, 0.015)),
        robots.link("tool", mass=0.3, center=(0.0, 0.0, 0.1), inertia=(0.001, 0.001, 0.001)),
        robots.revolute("shoulder", "world", "upper", axis=(0, 1, 0), xyz=(0, 0, 0.5), rpy=(0.1, 0.2, 0.3)),
        robots.revolute("elbow", "upper", "fore", axis=(1, 1, 0), xyz=(0, 0, 0.4), rotor_inertia=1e-4, gear_ratio=50),
        robots.fixed("flange", "fore", "tool", xyz=(0, 0, 0.3)),
    )


def torques(arm):
    return tree.inverse_dynamics(arm, Q, DQ, DDQ)


def test_inertial_numbers_are_those_of_the_regressor(arm):
    """The torque is linear in a mass, whose centre and inertia about it are known."""
    numbers = arm.physical_parameters()
    c, m = (jnp.asarray([numbers[f"upper.center.{x}"] for x in "xyz"]), 2.5)
    J = (c @ c) * jnp.eye(3) - jnp.outer(c, c)
    pi = jnp.concatenate([jnp.ones(1), c, J[jnp.array([0, 1, 2, 0, 0, 1]), jnp.array([0, 1, 2, 1, 2, 2])]])
    slope = tree.regressor(arm, Q, DQ, DDQ)[:, 0] @ pi
    found = jax.jacfwd(lambda mass: torques(arm.with_parameters({"upper.mass": mass})))(jnp.asarray(m))
    np.testing.assert_allclose(found, slope, rtol=1e-12)
    change = torques(arm.with_parameters({"upper.mass": m})) - torques(arm)
    np.testing.assert_allclose(change, (m - 2.0) * slope, rtol=1e-11)


def test_laws_that_a_description_lacks_act_where_their_numbers_are_given(arm):
    rubbing = arm.with_parameters({"elbow.friction": 0.7, "shoulder.stiffness": 3.0, "shoulder.damping": 0.2})
    change = torques(rubbing) - torques(arm)
    np.testing.assert_allclose(change, [3.0 * Q[0] + 0.2 * DQ[0], 0.7 * np.sign(DQ[1])], rtol=1e-9)


def test_links_that_are_fixed_to_others_are_part_of_these(arm):
    assert float(arm.physical_parameters()["fore.mass"]) == pytest.approx(1.3)
    with pytest.raises(fgmbs.ArgumentError, match=r"expected names of parameters; found 'tool.mass'"):
        arm.with_parameters({"tool.mass": 1.0})


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"upper.mas": 1.0}, r"found 'upper.mas'; did you mean 'upper.mass'"),
        ({"upper.mass": -1.0}, r"values\['upper.mass'\]: expected zero or a positive number; found -1"),
        ({"upper.mass": [1.0, 2.0]}, r"values\['upper.mass'\]: expected one number; found shape \(2,\)"),
        ({"elbow.friction": float("nan")}, r"values\['elbow.friction'\]: expected finite numbers"),
    ],
)
def test_what_is_refused(arm, values, text):
    with pytest.raises(fgmbs.ArgumentError, match=text):
        arm.with_parameters(values)


def test_unknown_numbers_are_leaves_of_their_own(arm):
    parts = Parts(arm, (), ())
    free = {"upper.mass": (0.1, 10.0), "elbow.friction": True, "fore.inertia.xx": 0.011}
    freed = freed_by_name(parts, free).mechanism
    assert freed.topology.has_friction and not arm.topology.has_friction
    assert {name: float(known(one)) for name, one in freed.single.items()} == pytest.approx(
        {"elbow.friction": 0.0, "fore.inertia.xx": 0.011, "upper.mass": 2.0}
    )
    assert all(isinstance(one, Unknown) for one in freed.single.values())
    assert float(freed.single["elbow.friction"].lower) == 0.0
    np.testing.assert_allclose(torques(arm.with_parameters({"fore.inertia.xx": 0.011})), torques(freed), rtol=1e-13)
    with pytest.raises(fgmbs.ArgumentError, match=r"no number 'uper.mass'; did you mean 'upper.mass'"):
        freed_by_name(parts, ["uper.mass"])


@pytest.mark.slow
def test_a_mass_and_dampings_are_found_from_torques(arm):
    """Their errors are about what is told, and free friction goes where there is none."""
    t = 5e-3 * np.arange(301)
    truth = {"upper.mass": 2.4, "shoulder.damping": 0.5, "elbow.damping": 0.2}
    phases = np.array([0.3, 1.1])
    q, dq, ddq = (
        np.stack([f(2 * np.pi * (k + 1) * t + phases[k]) * (2 * np.pi * (k + 1)) ** d for k in range(2)], axis=1)
        for d, f in enumerate((np.sin, np.cos, lambda x: -np.sin(x)))
    )
    tau = jax.vmap(lambda *state: tree.inverse_dynamics(arm.with_parameters(truth), *state))(q, dq, ddq)
    rng, joints = np.random.default_rng(0), arm.joint_names
    columns = {f"at_{name}": q[:, k] + 1e-4 * rng.standard_normal(t.size) for k, name in enumerate(joints)}
    columns |= {f"by_{name}": tau[:, k] + 0.1 * rng.standard_normal(t.size) for k, name in enumerate(joints)}
    sensors = [fgmbs.sensors.Encoder(f"at_{name}", of=name, sigma=1e-4) for name in joints]
    inputs = [fgmbs.inputs.Command(name, f"by_{name}", hold="linear") for name in joints]
    inputs += [fgmbs.inputs.WhiteNoise(name, 0.1 * 5e-3**0.5, name=f"noise_{name}") for name in joints]
    start = dict(zip(joints, q[0], strict=True))
    free = [*truth, "elbow.friction"]
    fit = fgmbs.identify(arm, fgmbs.Recording.of(t, columns), sensors, inputs, free=free, start=start)
    for name, value in {**truth, "elbow.friction": 0.0}.items():
        assert abs(fit.parameters[name] - value) < 4 * fit.std[name] + 1e-9, name
    assert fit.std["upper.mass"] < 0.05 and fit.parameters["elbow.friction"] < 0.05
    found = arm.with_parameters({name: fit.parameters[name] for name in free})
    np.testing.assert_allclose(torques(found), torques(fit.mechanism), rtol=1e-12)
