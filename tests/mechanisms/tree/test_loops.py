"""Robots with loops move as an independent solution of their KKT system says, and keep their loops closed."""

import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fgmbs
from fgmbs import robots
from fgmbs.mechanisms.base import AbstractMechanism

LOOPS = ["five_bar", pytest.param("four_bar_crank_rocker", marks=pytest.mark.slow), "bennett"]


def by_pinocchio(robots, name, q, dq):
    """(accelerations, generalized closure forces, rank of the constraints) of least squares in NumPy."""
    pin = pytest.importorskip("pinocchio")
    closure = json.loads((robots / "loops" / f"{name}_closure.json").read_text())["closures"][0]
    model = pin.buildModelFromUrdf(str(robots / "loops" / f"{name}.urdf"))
    frames = []
    for side in "ab":
        link = model.getFrameId(closure[f"link_{side}"])
        pose = pin.SE3(pin.rpy.rpyToMatrix(*closure[f"rpy_{side}"]), np.array(closure[f"xyz_{side}"], float))
        parent = model.frames[link]
        frame = pin.Frame(f"end_{side}", parent.parentJoint, parent.placement * pose, pin.FrameType.OP_FRAME)
        frames.append(model.addFrame(frame))
    data = model.createData()
    M = pin.crba(model, data, q)
    M = np.triu(M) + np.triu(M, 1).T
    h = pin.rnea(model, data, q, dq, np.zeros_like(dq))
    pin.forwardKinematics(model, data, q, dq, np.zeros_like(dq))
    pin.updateFramePlacements(model, data)
    pin.computeJointJacobians(model, data, q)
    J = [pin.getFrameJacobian(model, data, f, pin.LOCAL_WORLD_ALIGNED) for f in frames]
    drift = [pin.getFrameClassicalAcceleration(model, data, f, pin.LOCAL_WORLD_ALIGNED).vector for f in frames]
    w = [pin.getFrameVelocity(model, data, f, pin.LOCAL_WORLD_ALIGNED).angular for f in frames]
    a = data.oMf[frames[0]].rotation @ np.array(closure["axis"], float)
    across = np.linalg.svd(a[None])[2][1:]  # no relative turn but about the axis, which both share
    rows = np.vstack([J[1][:3] - J[0][:3], across @ (J[1][3:] - J[0][3:])])
    turn = across @ (drift[1][3:] - drift[0][3:] - np.cross(w[0], w[1]))
    c = -np.concatenate([drift[1][:3] - drift[0][:3], turn])
    n, m = len(dq), len(rows)
    system = np.block([[M, rows.T], [rows, np.zeros((m, m))]])
    found = np.linalg.lstsq(system, np.concatenate([-h, c]), rcond=1e-11)[0]
    return found[:n], rows.T @ found[n:], np.linalg.matrix_rank(rows, tol=1e-8)


@eqx.filter_jit
def _rows(robot, q):
    return robot.constraint_jacobian(q, 0.0)


@eqx.filter_jit
def _acceleration(mechanism, q, dq):
    return fgmbs.acceleration(mechanism, q, dq, 0.0)


@pytest.mark.parametrize(
    "name", ["five_bar", *(pytest.param(name, marks=pytest.mark.slow) for name in ("four_bar_crank_rocker", "bennett"))]
)
def test_accelerations_and_closure_forces(robots, name):
    robot = fgmbs.load(robots / "loops" / f"{name}.urdf")
    q = fgmbs.assemble(robot)
    rng = np.random.default_rng(0)
    rows = np.asarray(_rows(robot, q))
    dq = jnp.asarray(rng.standard_normal(robot.dof) @ np.linalg.svd(rows)[2][-robot.dof :])
    ddq, lambda_ = _acceleration(robot, q, dq)
    expected, force, rank = by_pinocchio(robots, name, np.asarray(q), np.asarray(dq))
    assert rank < robot.m  # redundant rows
    np.testing.assert_allclose(ddq, expected, atol=1e-9 * np.max(np.abs(expected)))
    found = np.asarray(lambda_) @ rows
    np.testing.assert_allclose(found, force, atol=1e-9 * np.max(np.abs(force)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["five_bar", "four_bar_crank_rocker", "bennett"])
def test_free_motion_keeps_loop_and_energy(robots, name):
    robot = fgmbs.load(robots / "loops" / f"{name}.urdf")
    # A step of Bennett's linkage that is folded flat, where its rows are open to second order only, ends at rounding.
    motion = fgmbs.simulate(robot, 2.0, 5e-4, throw=name != "bennett")
    robot = robot.evaluated()
    gaps = jax.vmap(lambda q: robot.constraints(q, 0.0))(motion.q)
    kinetic, potential = jax.vmap(lambda q, dq: fgmbs.energy(robot, q, dq))(motion.q, motion.dq)
    assert np.max(np.abs(gaps)) < 1e-9
    assert np.max(kinetic) > (0.8 if name == "four_bar_crank_rocker" else 1)  # it moves
    assert np.ptp(kinetic + potential) < 1e-6 * np.max(kinetic)


@eqx.filter_jit
def _ends(robot, q):
    """(places of two links, the axes of one of them, Jacobians of both)."""
    places = {name: robot.point_position(name, q) for name in ("l2", "l3")}
    return (
        places,
        robot.body_frame("l2", q, 0.0)[0],
        {name: fgmbs.tree.frame_jacobian(robot, q, name) for name in places},
    )


def test_five_bar_is_that_of_points_in_the_plane(robots):
    """The same linkage in natural coordinates: z of the robot is y of the plane, and its axes point away."""
    robot = fgmbs.load(robots / "loops" / "five_bar.urdf")
    q = fgmbs.assemble(robot)
    places, turned, slopes = jax.tree.map(np.asarray, _ends(robot, q))
    spots = {name: place[[0, 2]] for name, place in places.items()}
    tip = turned @ [0.42, 0, 0] + places["l2"]
    p = fgmbs.planar
    bodies = [("l1", "A", "B", 1.0, 0.15, 0.007575), ("l2", "B", "C", 0.8, 0.21, 0.01182)]
    bodies += [("l4", "E", "D", 1.0, 0.15, 0.007575), ("l3", "D", "C", 0.8, 0.21, 0.01182)]
    linkage = p.mechanism(
        p.point("A", -0.12, 0.0, fixed=True),
        p.point("B", *map(float, spots["l2"])),
        p.point("C", float(tip[0]), float(tip[2])),
        p.point("D", *map(float, spots["l3"])),
        p.point("E", 0.12, 0.0, fixed=True),
        *(p.body(n, i, j, mass=m, I0=J + m * c * c, cog=(c, 0.0)) for n, i, j, m, c, J in bodies),
    )
    ddq, _ = _acceleration(robot, q, jnp.zeros(robot.nv))
    in_plane, _ = _acceleration(linkage, linkage.reference, jnp.zeros(linkage.nv))
    jacobian = np.concatenate([slopes[name][[3, 5]] for name in ("l2", "l3")])
    names = linkage.coordinate_names
    places = [names.index(f"{axis}_{point}") for point in "BD" for axis in "xy"]
    np.testing.assert_allclose(jacobian @ ddq, np.asarray(in_plane)[places], atol=1e-8)
    energy = eqx.filter_jit(fgmbs.energy)
    T, _ = energy(robot, q, ddq)
    np.testing.assert_allclose(energy(linkage, linkage.reference, in_plane)[0], T, rtol=1e-9)


def _derivatives_of(of):
    """The Jacobian of the constraints, their rate and their bias by the methods of this class."""

    @eqx.filter_jit
    def derivatives(made, q, dq):
        return (
            of.constraint_jacobian(made, q, 0.0),
            of.constraint_rate(made, q, dq, 0.0),
            of.constraint_bias(made, q, dq, 0.0),
        )

    return derivatives


_of_constraints, _by_differentiation = map(_derivatives_of, (fgmbs.Robot, AbstractMechanism))


@pytest.mark.parametrize(
    ("kind", "ground", "floating"),
    [
        *((kind, False, False) for kind in ("revolute", "prismatic", "spherical", "fixed")),
        *(("revolute", True, False), ("revolute", False, True), ("fixed", True, True)),
    ],
)
def test_closures_have_their_derivatives_in_closed_form(kind, ground, floating):
    """Those of the rows, by automatic differentiation, off the constraints too; a loop on the ground with the base
    floating, too."""
    joint = dict(xyz=(0.1, -0.2, 0.3), rpy=(0.3, 0.2, -0.5))
    body = dict(mass=1.0, inertia=(0.1, 0.1, 0.1))
    made = robots.robot(
        *(robots.link(name, **body) for name in ("base", "a", "b", "c")),
        robots.revolute("turn", "base", "a", axis=(0, 1, 1), **joint),
        robots.screw("thread", "a", "b", axis=(1, 0, 1), pitch=0.05, **joint),
        robots.spherical("ball", "base", "c", **joint),
        robots.closure(
            kind,
            "loop",
            *("world" if ground else "c", "b"),
            **dict(xyz_a=(0.3, 0.1, 0.2), rpy_a=(0.1, 0.5, 0.2), xyz_b=(0.2, -0.1, 0.4), axis=(1, 2, 3)),
        ),
        *([robots.link("world")] if ground else []),
        *([robots.floating("free", "world", "base")] if ground and floating else []),
        *([robots.fixed("held", "world", "base")] if ground and not floating else []),
        floating=floating and not ground,
    ).evaluated()
    rng = np.random.default_rng(0)
    q = made.retract(made.reference, jnp.asarray(rng.normal(size=made.nv)))
    dq = jnp.asarray(rng.normal(size=made.nv))
    for own, expected in zip(_of_constraints(made, q, dq), _by_differentiation(made, q, dq), strict=True):
        np.testing.assert_allclose(own, expected, atol=1e-13 * max(1.0, float(jnp.max(jnp.abs(expected)))))
