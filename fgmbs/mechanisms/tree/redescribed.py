"""Robots back into descriptions, with the parameters that they have now."""

import dataclasses

import jax
import numpy as np
from scipy.spatial.transform import Rotation

from fgmbs.mechanisms.tree.checks import MAY_BE_INFINITE, SCALAR
from fgmbs.mechanisms.tree.description import Closure, Frame, Joint, Link, Matrix, Mimic, Pose, RobotDescription, Shape
from fgmbs.mechanisms.tree.kernels.numbers import TreeParameters
from fgmbs.mechanisms.tree.poses import compose, matrix_of, pose_of, vector_of
from fgmbs.mechanisms.tree.robot import Robot
from fgmbs.mechanisms.tree.single import put
from fgmbs.mechanisms.tree.topology import TreeTopology
from fgmbs.unknowns import known


def redescribed(robot: Robot) -> RobotDescription:
    """What a robot is now: a description from which the same robot is made.

    Bodies are those that move: links that were fixed to them are frames, and their shapes are on them; a base that
    floats hangs on a joint. Of numbers that are `Unknown` the first values are taken.

    Args:
        robot: Its parameters have no batch dimensions.
    """
    topology, before = robot.topology, robot.description
    parameters, single = known((robot.parameters, robot.single))
    of = jax.tree.map(np.array, put(topology, parameters, single))
    bodies = (topology.root, *topology.links)  # −1 is the ground
    frames = {
        name: (bodies[body + 1], _pose(*place))
        for name, body, place in zip(
            topology.frames,
            topology.frame_bodies,
            zip(of.frame_positions, of.frame_rotations, strict=True),
            strict=True,
        )
    }
    shapes = _shapes(before, frames)
    links = [Link(topology.root, shapes=shapes.get(topology.root, ()))]
    links += [
        Link(name, float(of.masses[k]), vector_of(of.centres[k]), _tensor(of.inertias[k]), shapes.get(name, ()))
        for k, name in enumerate(topology.links)
    ]
    return RobotDescription(
        name=before.name,
        links=tuple(links),
        joints=tuple(_joint(k, topology, of, bodies, before) for k in range(topology.count)),
        closures=tuple(
            Closure(
                one.name,
                one.kind,
                *(bodies[a + 1], _pose(of.closure_positions[k, 0], of.closure_rotations[k, 0])),
                *(bodies[b + 1], _pose(of.closure_positions[k, 1], of.closure_rotations[k, 1])),
                axis=vector_of(of.closure_axes[k]),
            )
            for k, (one, (a, b)) in enumerate(zip(before.closures, topology.closure_bodies, strict=True))
        ),
        frames=tuple(Frame(name, *place) for name, place in frames.items() if name not in bodies),
        gravity=vector_of(of.gravity),
        friction_width=float(of.friction_width),
        source=before.source,
        notes=before.notes,
    )


def _joint(
    k: int, topology: TreeTopology, of: TreeParameters, bodies: tuple[str, ...], before: RobotDescription
) -> Joint:
    name, kind, lead = topology.joints[k], topology.kinds[k], topology.leaders[k]
    drawn = next((joint for joint in before.joints if joint.name == name), None)
    limits = {} if drawn is None else {key: getattr(drawn, key) for key in MAY_BE_INFINITE}
    follows = Mimic(topology.joints[lead], float(of.multipliers[k]), float(of.offsets[k]))
    numbers = {key: float(getattr(of, array)[k]) for key, array in _NUMBERS.items() if kind in SCALAR or key in _OF_ALL}
    if kind in SCALAR:
        axis = of.axes[k]
        numbers["axis"] = vector_of(axis / np.linalg.norm(axis))
    return Joint(
        name,
        kind,
        bodies[topology.parents[k] + 1],
        topology.links[k],
        _pose(of.positions[k], of.rotations[k]),
        mimic=None if lead == k else follows,
        actuated=topology.actuated[k],
        separate=kind == "fixed",
        **limits,
        **numbers,
    )


_NUMBERS = {
    "pitch": "pitches",
    "damping": "damping",
    "friction": "coulomb",
    "stiffness": "stiffness",
    "spring_reference": "spring_references",
    "rotor_inertia": "rotor_inertias",
    "gear_ratio": "gear_ratios",
}
"""Numbers of a joint in a description, and their arrays …"""
_OF_ALL = ("damping", "friction")
"""… and those that a joint of several coordinates has, too."""


def _shapes(before: RobotDescription, frames: dict[str, tuple[str, Pose]]) -> dict[str, tuple[Shape, ...]]:
    """What is drawn on each body."""
    found: dict[str, tuple[Shape, ...]] = {}
    for link in before.links:
        body, place = frames[link.name]
        moved = tuple(dataclasses.replace(shape, pose=compose(place, shape.pose)) for shape in link.shapes)
        found[body] = found.get(body, ()) + moved
    return found


def _pose(position: np.ndarray, rotation: np.ndarray) -> Pose:
    return pose_of(Rotation.from_rotvec(rotation).as_matrix(), position)


def _tensor(moments: np.ndarray) -> Matrix:
    xx, yy, zz, xy, xz, yz = moments
    return matrix_of(np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]))
