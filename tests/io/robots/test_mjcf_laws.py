"""What MJCF files say of joints, flags and equalities: MuJoCo has the same torques and gaps, or a note says why not."""

import jax.numpy as jnp
import numpy as np
import pytest

import fgmbs
from fgmbs.errors import DescriptionError

mujoco = pytest.importorskip("mujoco")

BODY = '<inertial mass="1" pos=".1 0 .2" diaginertia=".03 .03 .03"/>'
ARM = f"""<worldbody><body name="a">{BODY}<joint name="p" axis="0 1 0" damping="1" stiffness="3" springref="1"
    frictionloss="0.7" range="-1 1" limited="true"/>
  <body name="b" pos="0.3 0 0.1">{BODY}<joint name="k" axis="0 1 0"/></body></body></worldbody>
<equality><connect name="c" body1="b" anchor="0.1 0 0"/><joint name="e" joint1="k" joint2="p"/></equality>
<actuator><motor joint="p"/></actuator>"""


@pytest.fixture
def beside(tmp_path):
    """Makes (robot, model of MuJoCo) of the inside of a file."""

    def make(text):
        file = tmp_path / "robot.xml"
        file.write_text(f'<mujoco><compiler angle="radian"/>{text}</mujoco>')
        return fgmbs.load(file), mujoco.MjModel.from_xml_path(str(file))

    return make


def torques(model, q, dq, ddq):
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = q, dq
    mujoco.mj_forward(model, data)
    data.qacc[:] = ddq
    mujoco.mj_inverse(model, data)
    return data.qfrc_inverse.copy()


@pytest.mark.parametrize("law", ["", 'damping="2"', 'frictionloss="1.5"'])
def test_a_ball_resists_as_in_mujoco(beside, law):
    robot, model = beside(f'<worldbody><body name="a">{BODY}<joint name="s" type="ball" {law}/></body></worldbody>')
    q, dq, ddq = np.array([0.8, 0.6, 0, 0]), np.array([1.0, 2, -3]), np.array([0.1, 0.2, 0.3])
    found = fgmbs.tree.inverse_dynamics(robot, q, dq, ddq)
    np.testing.assert_allclose(found, torques(model, q, dq, ddq), atol=1e-12)
    assert robot.description.notes == ()


def test_a_free_body_is_damped_as_in_mujoco(beside):
    """Whose linear velocities MuJoCo takes along the axes of the ground; the damping is the same along all."""
    robot, model = beside(f'<worldbody><body name="a">{BODY}<joint type="free" damping="2"/></body></worldbody>')
    dq = np.array([1.0, 2, 3, -1, 0.5, 2])
    turned = np.array([0.8, 0.6, 0, 0])
    R = np.zeros(9)
    mujoco.mju_quat2Mat(R, turned)
    R = R.reshape(3, 3)
    data = mujoco.MjData(model)
    data.qpos[3:], data.qvel[:] = turned, np.concatenate([R @ dq[3:], dq[:3]])
    mujoco.mj_forward(model, data)
    expected = np.concatenate([data.qacc[3:], R.T @ data.qacc[:3] - np.cross(dq[:3], dq[3:])])
    found = fgmbs.tree.forward_dynamics(robot, np.concatenate([np.zeros(3), turned]), dq, np.zeros(6))
    np.testing.assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.parametrize(
    ("kind", "law", "note"),
    [
        ("ball", 'armature="0.5"', "joint 's': its armature is left out"),
        ("ball", 'stiffness="10"', "joint 's': its stiffness is left out"),
        ("ball", 'range="0 1" limited="true"', "joint 's': its limit is left out"),
        ("free", 'armature="0.5"', "joint 's': its armature is left out"),
        ("free", 'stiffness="10"', "joint 's': its stiffness is left out"),
        ("free", 'frictionloss="1"', "joint 's': its friction acts along the axes of 'a', not of the ground"),
    ],
)
def test_what_a_ball_or_free_joint_loses_is_said(beside, kind, law, note):
    robot, _ = beside(f'<worldbody><body name="a">{BODY}<joint name="s" type="{kind}" {law}/></body></worldbody>')
    assert note in robot.description.notes


@pytest.mark.parametrize("flag", ["spring", "damper", "frictionloss", "gravity", "constraint"])
def test_what_a_flag_disables_does_not_act(beside, flag):
    text = f'<option><flag {flag}="disable"/></option>{ARM[: ARM.index("<equality>")]}'
    robot, model = beside(text)
    q, dq, ddq = np.array([0.1, 0.3]), np.array([0.2, -0.5]), np.array([0.3, 0.1])
    found = fgmbs.tree.inverse_dynamics(robot, q, dq, ddq)
    np.testing.assert_allclose(found, torques(model, q, dq, ddq), atol=1e-12)


@pytest.mark.parametrize("flag", ["equality", "constraint"])
def test_disabled_equalities_close_nothing(beside, flag):
    robot, _ = beside(f'<option><flag {flag}="disable"/></option>{ARM}')
    assert robot.coordinate_names == ("p", "k") and robot.constraint_names == ()
    assert "equality 'c' is not active and left out" in robot.description.notes


def test_disabled_limits_and_actuators_are_none(beside):
    robot, _ = beside(f'<option><flag limit="disable" actuation="disable"/></option>{ARM}')
    assert robot.limits("upper")[0] == np.inf and robot.actuator_names == ()
    assert "actuators are disabled by a flag, and no joint has a motor" in robot.description.notes


@pytest.mark.parametrize(
    "where",
    ["", 'anchor=".3 0 0.1"', 'relpose=".5 0 0.2 0.8 0 0.6 0"', 'anchor=".3 0 0.1" relpose=".5 0 0.2 0.8 0 0.6 0"'],
)
def test_a_weld_holds_where_it_does_in_mujoco(beside, where):
    weld = f'<equality><weld body1="a" body2="b" {where}/></equality>'
    parts = "".join(
        f'<body name="{name}" pos="{x} 0 0">{BODY}<joint name="{name}" type="ball"/></body>'
        for name, x in (("a", 0), ("b", 1))
    )
    robot, model = beside(f"<worldbody>{parts}</worldbody>{weld}")
    data = mujoco.MjData(model)
    random = np.random.default_rng(3)
    for _ in range(3):
        data.qpos[:] = random.normal(size=8)
        mujoco.mj_normalizeQuat(model, data.qpos)
        mujoco.mj_forward(model, data)
        found = np.asarray(robot.constraints(jnp.asarray(data.qpos), 0.0))
        assert np.linalg.norm(found[:3]) == pytest.approx(np.linalg.norm(data.efc_pos[:3]), abs=1e-12)
        assert (np.linalg.norm(found[3:]) < 1e-9) == (np.linalg.norm(data.efc_pos[3:6]) < 1e-9)


def test_a_weld_without_torques_leaves_all_turns(beside):
    text = ARM[: ARM.index("<equality>")]
    robot, _ = beside(f'{text}<equality><weld body1="b" body2="world" torquescale="0"/></equality>')
    assert [closure.kind for closure in robot.description.closures] == ["connect"]


def test_a_joint_that_follows_two_is_refused(beside):
    third = f'<body name="d">{BODY}<joint name="t" axis="0 1 0"/></body></worldbody>'
    text = ARM[: ARM.index("<actuator>")].replace("</worldbody>", third)
    with pytest.raises(DescriptionError) as error:
        beside(text.replace("</equality>", '<joint name="f" joint1="k" joint2="t"/></equality>'))
    assert "equality 'f': expected one equality with joint1='k'; found a second one, beside 'e'" in str(error.value)
    robot, _ = beside(text.replace("</equality>", '<joint name="f" joint1="t" joint2="k"/></equality>'))
    assert robot.coordinate_names == ("p",)
