"""Friction and motors in descriptions of planar mechanisms: those of `Friction` and `Motor`, by the same numbers."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fgmbs
from fgmbs import Friction, Motor, Unknown, planar
from fgmbs.errors import DescriptionError
from fgmbs.io.planar.load import parse_mechanism, to_yaml

RUB = dict(coulomb=0.4, stribeck=0.2, stribeck_speed=0.5, quadratic=0.03, asymmetry=0.1, offset=0.05, width=0.02)
WAVES = dict(cosines=[0.1, 0.02], sines=[-0.05])
DRIVE = dict(gain=0.3, gear=5.0, rotor_inertia=2e-3, back_emf=0.01, cosines=[0.02], sines=[0.01, 0.003], periods=7)


def pendulum(*parts):
    return planar.mechanism(
        planar.point("A", 0, 0, fixed=True),
        planar.point("C", 1.0, 1.0, fixed=True),
        planar.point("B", 1, 0),
        planar.body("rod", "A", "B", mass=2.0, I0=0.7, cog=(0.5, 0.0)),
        planar.absolute_angle("theta", "A", "B"),
        *parts,
    )


@eqx.filter_jit
def forces(mechanism):
    return mechanism.forces(Q, DQ, 0.0)


Q, DQ = jnp.array([0.8, 0.6, np.arctan2(0.6, 0.8)]), jnp.array([0.3, -0.4, 0.5])


@pytest.mark.parametrize("shape", ["tanh", "clip"])
def test_friction_on_an_angle(shape):
    damper = planar.angular_damper("bearing", "theta", 0.1, **RUB, **WAVES, shape=shape)
    change = forces(pendulum(damper)) - forces(pendulum())
    expected = Friction(0.1, **RUB, **WAVES, shape=shape)(DQ[2], angle=Q[2])
    np.testing.assert_allclose(change, [0, 0, -expected], atol=1e-14)


def test_friction_between_points_acts_along_their_line():
    several = (
        planar.damper("guide", "C", "B", 0.1, **RUB),
        planar.damper("other", "A", "B", 0.2, coulomb=0.3, width=0.05),
        planar.damper("oil", "C", "B", 0.7),
    )
    change = forces(pendulum(*several)) - forces(pendulum())
    e, along = (Q[:2] - 1.0) / jnp.linalg.norm(Q[:2] - 1.0), Q[:2]
    force = -(Friction(0.1, **RUB)(e @ DQ[:2]) + 0.7 * e @ DQ[:2]) * e
    force -= Friction(0.2, 0.3, width=0.05)(along @ DQ[:2]) * along
    np.testing.assert_allclose(change, [*force, 0], atol=1e-14)


def test_a_motor():
    rig, motor = pendulum(planar.actuator("motor", angle="theta", **DRIVE)), Motor(**DRIVE)
    assert float(motor.per_command) == pytest.approx(1.5) and float(motor.inertia) == pytest.approx(0.05)
    np.testing.assert_allclose(rig.actuation(Q, 0.0), [[0], [0], [1.5]])
    np.testing.assert_allclose(rig.mass_matrix(Q) - pendulum().mass_matrix(Q), np.diag([0, 0, 0.05]), atol=1e-15)
    phi = 7 * 5.0 * float(Q[2])
    rotor = 0.02 * np.cos(phi) + 0.01 * np.sin(phi) + 0.003 * np.sin(2 * phi) - 0.01 * 5 * 0.5
    change = forces(rig) - forces(pendulum())
    np.testing.assert_allclose(change, [0, 0, 5 * rotor], atol=1e-14)
    assert rig.actuator_units == ("SI",) and pendulum(planar.actuator("m", angle="theta")).actuator_units == ("N m",)


def test_a_rotor_slows_the_pendulum_down():
    """θ'' = −m g l cos θ / (I + n² J)."""
    rig = pendulum(planar.actuator("motor", angle="theta", gear=5.0, rotor_inertia=2e-3))
    ddq, _ = fgmbs.acceleration(rig, Q, 0 * DQ, 0.0)
    assert float(ddq[2]) == pytest.approx(-2.0 * 9.81 * 0.5 * 0.8 / (0.7 + 0.05), rel=1e-12)


def test_two_motors_of_which_one_has_fewer_numbers():
    parts = planar.actuator("motor", angle="theta", gain=0.3, sines=[0.1]), planar.actuator("push", coordinate="x_B")
    rig = pendulum(*parts[::-1], planar.actuator("other", coordinate="y_B", gear=2.0))
    np.testing.assert_allclose(rig.actuation(Q, 0.0), [[1, 0, 0], [0, 0, 2], [0, 0.3, 0]])
    change = forces(rig) - forces(pendulum())
    np.testing.assert_allclose(change, [0, 0, 0.1 * np.sin(Q[2])], atol=1e-14)


def test_every_number_is_a_parameter_by_name():
    damper = planar.angular_damper("bearing", "theta", 0.1, **RUB, **WAVES)
    rig = pendulum(damper, planar.actuator("motor", angle="theta", **DRIVE))
    waves = ["bearing.cosines.1", "bearing.cosines.2", "bearing.sines.1"]
    assert {*(f"bearing.{key}" for key in ("damping", *RUB)), *waves} <= set(rig.parameters)
    more = {f"motor.{key}" for key in ("gain", "gear", "rotor_inertia", "back_emf", "cosines.1", "sines.2")}
    assert more <= set(rig.parameters) and "motor.periods" not in rig.parameters

    def torque(values):
        moved = rig.with_parameters(dict(zip(names, values, strict=True)))
        return moved.evaluated().forces(Q, 0.05 * DQ, 0.0)[2] + moved.evaluated().actuation(Q, 0.0)[2, 0]

    names = sorted(name for name in rig.parameters if name.partition(".")[0] in ("bearing", "motor"))
    at = jnp.array([float(rig.parameters[name]) for name in names])
    slopes = jax.jit(jax.jacfwd(torque))(at)
    for k, name in enumerate(names):
        e = 1e-6 * np.eye(len(names))[k]
        difference = float(torque(at + e) - torque(at - e)) / 2e-6
        assert float(slopes[k]) == pytest.approx(difference, rel=1e-5, abs=1e-8), name
        assert slopes[k] != 0 or name == "motor.rotor_inertia"
    unknown = rig.with_parameters({"bearing.coulomb": Unknown(0.3, log=True), "motor.gear": Unknown(4.0)})
    assert isinstance(unknown.parameters["bearing.coulomb"], Unknown)


def test_damping_alone_is_the_program_that_it_was():
    """No friction is computed where there is none."""
    plain = pendulum(planar.angular_damper("bearing", "theta", 0.1), planar.actuator("motor", angle="theta"))
    plain = plain.evaluated()
    operations = [
        str(jax.make_jaxpr(f)(Q)).count("\n") for f in (lambda q: plain.forces(q, DQ, 0.0), plain.mass_matrix)
    ]
    assert operations[1] <= 2 and "tanh" not in str(jax.make_jaxpr(lambda q: plain.forces(q, DQ, 0.0))(Q))
    assert plain.numbers.frictions == () and plain.numbers.motor is None


FILE = """\
points:
  - {name: A, x: 0, y: 0, fixed: true}
  - {name: B, x: 1, y: 0}
planar_bodies:
  - {name: rod, points: [0, 1], mass: 2, I0: 0.7, cog: [0.5, 0]}
relative_coordinates:
  - {name: theta, type: RelativeAngleAbsoluteDOF, points: [0, 1]}
"""


def test_files_have_them_and_survive_a_round_trip():
    text = FILE + (
        "parameters: {c: 0.2}\n"
        "dampers: [{angle: theta, damping: 0.1, coulomb: 2*c, width: 1e-3, sines: [c, 0.1], shape: clip}]\n"
        "actuators: [{name: motor, angle: theta, gain: c, periods: 7}]\n"
    )
    description = parse_mechanism(text)
    assert description.dampers[0].coulomb == "2*c" and description.dampers[0].sines == ("c", 0.1)
    assert parse_mechanism(to_yaml(description)) == description


@pytest.mark.parametrize(
    ("section", "text"),
    [
        ("dampers: [{angle: theta, damping: 0, coulomb: 1}]", "expected width, because there is coulomb; found none"),
        ("dampers: [{angle: theta, damping: 0, sines: [1]}]", "expected width, because there is sines; found none"),
        (
            "dampers: [{angle: theta, damping: 0, stribeck: 1, width: 1}]",
            "expected stribeck_speed, because there is stribeck; found none",
        ),
        (
            "dampers: [{angle: theta, damping: 0, coulomb: -1, width: 1}]",
            "coulomb: expected zero or a positive number; found -1",
        ),
        ("dampers: [{angle: theta, damping: 0, coulomb: 1, width: 0}]", "width: expected a positive number; found 0"),
        (
            "dampers: [{angle: theta, damping: 0, asymmetry: 2, width: 1}]",
            "asymmetry: expected a number from -1 to 1; found 2",
        ),
        ("dampers: [{points: [0, 1], damping: 0, sines: [1], width: 1}]", "sines"),
        ("actuators: [{angle: theta, gear: 0}]", "gear: expected a ratio other than zero; found 0"),
        ("actuators: [{angle: theta, rotor_inertia: -1}]", "rotor_inertia: expected zero or a positive number"),
        ("actuators: [{angle: theta, periods: 0}]", "periods"),
        ("actuators: [{body: 0, gain: 2}]", "gain"),
    ],
)
def test_what_files_cannot_mean(section, text):
    with pytest.raises(DescriptionError) as error:
        parse_mechanism(FILE + section)
    assert text in str(error.value)
    assert section.partition(":")[0] + "[0]" in str(error.value)


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda: Motor("x"), "gain: expected numbers; found 'x'"),
        (lambda: Motor(gear=0), "gear: expected numbers other than 0; found 0"),
        (lambda: Motor(rotor_inertia=-1), "rotor_inertia: expected numbers of at least 0; found -1"),
        (lambda: Motor(periods=0), "periods: expected an integer of at least 1; found 0"),
        (lambda: Motor(sines=[0.1]).force(1.0), "angle: expected numbers, because the motor has cogging; found none"),
    ],
)
def test_what_a_motor_cannot_mean(build, text):
    with pytest.raises(fgmbs.ArgumentError, match=text):
        build()
