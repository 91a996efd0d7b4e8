"""MJCF files, as MuJoCo compiles them: bodies, joints, `connect` and `weld`."""

import dataclasses
import os
from pathlib import Path
from typing import Any

import numpy as np

from fgmbs.errors import DescriptionError
from fgmbs.io.located_yaml import read_text
from fgmbs.io.robots.located_xml import parse
from fgmbs.io.robots.mjcf_shapes import shapes_of
from fgmbs.mechanisms.tree.description import (
    Closure,
    Joint,
    JointKind,
    Link,
    Matrix,
    Mimic,
    Pose,
    RobotDescription,
)
from fgmbs.mechanisms.tree.placed import GROUND, PlacedJoint, describe
from fgmbs.mechanisms.tree.poses import from_quaternion, inverse, turned, turned_inertia, vector_of

_KINDS: tuple[JointKind, ...] = ("floating", "spherical", "prismatic", "revolute")
"""In the order of mjtJoint."""
_NO_INERTIA: Matrix = ((0.0, 0.0, 0.0),) * 3


def read_mjcf(path: str | os.PathLike[str]) -> RobotDescription:
    """The robot of an MJCF file. A body that floats has a free joint on the ground there.

    Coordinates are counted from the reference position (`ref`, or where the file has a free body). Contacts, tendons
    and the laws of actuators are left out, with a note.

    Raises:
        DescriptionError: All that MuJoCo, or fgmbs, does not accept.
        ImportError: The package mujoco is missing.
    """
    source = str(path)
    root = parse(read_text(path, "an MJCF file"), source)
    if root.tag != "mujoco":
        raise DescriptionError([f"{source}:{root.line}: {root.called}: expected <mujoco>"])
    model, notes = _compiled(source)
    return _Reader(model, source, notes).read()


def _compiled(source: str) -> tuple[Any, list[str]]:
    """MuJoCo's model; meshes whose files are not there are left out."""
    try:
        import mujoco
    except ImportError as error:
        raise ImportError('an MJCF file needs the package mujoco: pip install "fgmbs[mjcf]"') from error
    try:
        spec = mujoco.MjSpec.from_file(source)
        folder = Path(source).parent / (spec.modelfiledir or "") / (spec.meshdir or "")
        gone = {mesh.name for mesh in spec.meshes if mesh.file and not (folder / mesh.file).is_file()}
        for geom in list(spec.geoms):
            if geom.meshname in gone:
                spec.delete(geom)
        for mesh in list(spec.meshes):
            if mesh.name in gone:
                spec.delete(mesh)
        for texture in list(spec.textures):
            spec.delete(texture)
        notes = [f"meshes whose files are missing are not drawn: {', '.join(sorted(gone))}"] if gone else []
        model = spec.compile()
    except ValueError as error:
        raise DescriptionError([f"{source}: expected MJCF that MuJoCo compiles; found: {error}"]) from None
    _switch_off(model, mujoco.mjtDisableBit)
    return model, notes


def _switch_off(model: Any, bits: Any) -> None:
    """Takes out of a model what its flags disable."""
    numbers = {
        bits.mjDSBL_GRAVITY: (model.opt.gravity,),
        bits.mjDSBL_SPRING: (model.jnt_stiffness, model.jnt_stiffnesspoly),
        bits.mjDSBL_DAMPER: (model.dof_damping, model.dof_dampingpoly),
        bits.mjDSBL_FRICTIONLOSS: (model.dof_frictionloss,),
        bits.mjDSBL_LIMIT: (model.jnt_limited,),
        bits.mjDSBL_EQUALITY: (model.eq_active0,),
        bits.mjDSBL_CONSTRAINT: (model.dof_frictionloss, model.jnt_limited, model.eq_active0),
    }
    for bit, arrays in numbers.items():
        if model.opt.disableflags & bit:
            for array in arrays:
                array[:] = 0


class _Reader:
    def __init__(self, model: Any, source: str, notes: list[str]):
        import mujoco

        self.mujoco = mujoco
        self.model = model
        self.source = source
        self.notes = notes
        self.links = [Link(GROUND, shapes=shapes_of(model, 0))]
        self.joints: list[PlacedJoint] = []
        self.poses = {GROUND: Pose()}
        self.names = [GROUND, *(model.body(body).name or f"body{body}" for body in range(1, model.nbody))]
        self.data = mujoco.MjData(model)
        mujoco.mj_kinematics(model, self.data)
        self.without_actuators = bool(model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_ACTUATION)
        on_joints = {int(mujoco.mjtTrn.mjTRN_JOINT), int(mujoco.mjtTrn.mjTRN_JOINTINPARENT)}
        driven = [
            int(joint)
            for (joint, _), kind in zip(model.actuator_trnid, model.actuator_trntype, strict=True)
            if int(kind) in on_joints and not self.without_actuators
        ]
        self.driven = set(driven) if model.nu else set(range(model.njnt))

    def read(self) -> RobotDescription:
        model = self.model
        for body in range(1, model.nbody):
            self.body(body)
        mimics, closures = self.equalities()
        self.leave_out()
        description = RobotDescription(
            model.names[: model.names.find(b"\0")].decode() or Path(self.source).stem,
            tuple(self.links),
            (),
            closures,
            gravity=vector_of(model.opt.gravity),
            source=self.source,
            notes=tuple(self.notes),
        )
        joints = [
            placed._replace(joint=dataclasses.replace(placed.joint, mimic=mimics.get(placed.joint.name)))
            for placed in self.joints
        ]
        return describe(description, self.poses, joints)

    def body(self, body: int) -> None:
        """A body with its joints: of several, all but the last one move massless links."""
        model, name = self.model, self.names[body]
        pose = from_quaternion(vector_of(self.data.xpos[body]), tuple(self.data.xquat[body]))
        parent = self.names[model.body_parentid[body]]
        first, number = int(model.body_jntadr[body]), int(model.body_jntnum[body])
        if number == 0:
            self.joints.append(PlacedJoint(Joint(f"{name}_fixed", "fixed", parent, name), pose))
        for joint in range(first, first + number):
            called = model.joint(joint).name or f"joint{joint}"
            child = name if joint == first + number - 1 else f"{name}_{called}"
            if child != name:
                self.links.append(Link(child))
                self.poses[child] = pose
            self.joints.append(self.joint(joint, called, parent, child, pose))
            parent = child
        inertial = from_quaternion(vector_of(model.body_ipos[body]), tuple(model.body_iquat[body]))
        x, y, z = vector_of(model.body_inertia[body])
        inertia = turned_inertia(inertial, ((x, 0.0, 0.0), (0.0, y, 0.0), (0.0, 0.0, z)))
        self.links.append(Link(name, float(model.body_mass[body]), inertial.xyz, inertia, shapes_of(model, body)))
        self.poses[name] = pose

    def joint(self, joint: int, name: str, parent: str, child: str, body: Pose) -> PlacedJoint:
        model = self.model
        kind = _KINDS[model.jnt_type[joint]]
        pose = Pose(vector_of(self.data.xanchor[joint]), body.rotation)
        damping, friction = self.friction(joint, name)
        if kind in ("floating", "spherical"):
            free = kind == "floating"
            self.leave_out_of(joint, name, child)
            actuated = joint in self.driven and not (free and not model.nu)
            own = Joint(name, kind, parent, child, damping=damping, friction=friction, actuated=actuated)
            return PlacedJoint(own, body if free else pose)
        dof, reference = model.jnt_dofadr[joint], float(model.qpos0[model.jnt_qposadr[joint]])
        lower, upper = (float(limit) for limit in model.jnt_range[joint])
        limited = bool(model.jnt_limited[joint])
        if reference:
            self.notes.append(f"joint '{name}': its coordinate is counted from its reference position, {reference:g}")
        if np.any(model.jnt_stiffnesspoly[joint]):
            self.notes.append(f"joint '{name}': the higher terms of its stiffness are left out")
        effort = float(max(abs(model.jnt_actfrcrange[joint]))) if model.jnt_actfrclimited[joint] else float("inf")
        own = Joint(
            name,
            kind,
            parent,
            child,
            axis=turned(inverse(Pose(rotation=body.rotation)), vector_of(self.data.xaxis[joint])),
            lower=lower - reference if limited else -float("inf"),
            upper=upper - reference if limited else float("inf"),
            max_effort=effort,
            damping=damping,
            friction=friction,
            stiffness=float(model.jnt_stiffness[joint]),
            spring_reference=float(model.qpos_spring[model.jnt_qposadr[joint]]) - reference,
            rotor_inertia=float(model.dof_armature[dof]),
            actuated=joint in self.driven,
        )
        return PlacedJoint(own, pose)

    def friction(self, joint: int, name: str) -> tuple[float, float]:
        """(damping, dry friction) of a joint, those of each of its velocities."""
        model = self.model
        dof = model.jnt_dofadr[joint]
        if np.any(model.dof_dampingpoly[dof]):
            self.notes.append(f"joint '{name}': the higher terms of its damping are left out")
        return float(model.dof_damping[dof]), float(model.dof_frictionloss[dof])

    def leave_out_of(self, joint: int, name: str, child: str) -> None:
        """Notes what of a free or ball joint has no place in a description."""
        model = self.model
        dof = model.jnt_dofadr[joint]
        if _KINDS[model.jnt_type[joint]] == "floating":
            self.notes.append(f"joint '{name}': its coordinates are counted from where the file has '{child}'")
            if model.dof_frictionloss[dof]:
                self.notes.append(f"joint '{name}': its friction acts along the axes of '{child}', not of the ground")
        parts = {
            "armature": model.dof_armature[dof],
            "stiffness": np.any(model.jnt_stiffness[joint]) or np.any(model.jnt_stiffnesspoly[joint]),
            "limit": model.jnt_limited[joint],
        }
        self.notes += [f"joint '{name}': its {what} is left out" for what, there in parts.items() if there]

    def equalities(self) -> tuple[dict[str, Mimic], tuple[Closure, ...]]:
        """Joints that follow others, by name, and closures as seen from the bodies of the file."""
        model, kinds = self.model, self.mujoco.mjtEq
        mimics: dict[str, Mimic] = {}
        followers: dict[str, str] = {}
        closures: list[Closure] = []
        for k in range(model.neq):
            name, kind = model.equality(k).name or f"equality{k}", kinds(int(model.eq_type[k]))
            first, second, data = int(model.eq_obj1id[k]), int(model.eq_obj2id[k]), model.eq_data[k]
            if not model.eq_active0[k]:
                self.notes.append(f"equality '{name}' is not active and left out")
            elif kind in (kinds.mjEQ_CONNECT, kinds.mjEQ_WELD):
                welded = kind == kinds.mjEQ_WELD
                of_sites = int(model.eq_objtype[k]) == int(self.mujoco.mjtObj.mjOBJ_SITE)
                closures.append(self.closure(name, welded, of_sites, (first, second), data))
            elif kind == kinds.mjEQ_JOINT and second >= 0 and not np.any(data[2:5]):
                joints = [model.joint(joint).name or f"joint{joint}" for joint in (first, second)]
                if joints[0] in mimics:
                    raise DescriptionError(
                        [
                            f"{self.source}: equality '{name}': expected one equality with joint1='{joints[0]}'; found "
                            f"a second one, beside '{followers[joints[0]]}'. Write one of them the other way round, "
                            f"with joint2='{joints[0]}'"
                        ]
                    )
                followers[joints[0]] = name
                mimics[joints[0]] = Mimic(joints[1], float(data[1]), float(data[0]))
            else:
                raise DescriptionError(
                    [
                        f"{self.source}: equality '{name}': expected connect, weld, or joint with a straight line "
                        f"between two joints; found {kind.name.removeprefix('mjEQ_').lower()}"
                    ]
                )
        return mimics, tuple(closures)

    def closure(self, name: str, welded: bool, of_sites: bool, ids: tuple[int, int], data: np.ndarray) -> Closure:
        model = self.model
        if of_sites:
            bodies = [int(model.site_bodyid[site]) for site in ids]
            poses = [from_quaternion(vector_of(model.site_pos[site]), tuple(model.site_quat[site])) for site in ids]
        elif welded:
            bodies = list(ids)
            poses = [from_quaternion(vector_of(data[3:6]), tuple(data[6:10])), Pose(vector_of(data[:3]))]
        else:
            bodies = list(ids)
            poses = [Pose(vector_of(data[:3])), Pose(vector_of(data[3:6]))]
        links = [self.names[body] for body in bodies]
        turns = not welded or data[10] == 0  # the scale of torques
        return Closure(name, "connect" if turns else "fixed", links[0], poses[0], links[1], poses[1])

    def leave_out(self) -> None:
        """Notes what of the file has no place in a description."""
        model = self.model
        if model.nu:
            self.notes.append("commands are torques and forces on joints; the laws and gears of actuators are left out")
        if model.nu and self.without_actuators:
            self.notes.append("actuators are disabled by a flag, and no joint has a motor")
        parts = [("tendon", model.ntendon), ("flexible body", model.nflex)]
        self.notes += [f"{what}s are left out; there are {number}" for what, number in parts if number]
        if np.any(model.body_gravcomp):
            self.notes.append("compensation of gravity is left out")
        if model.opt.density or model.opt.viscosity:
            self.notes.append("the medium around the bodies is left out")
