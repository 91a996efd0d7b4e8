"""The parameters of a robot, and the numbers that it computes with, made of them once before a loop."""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.spatial.transform import Rotation

from fgmbs.mechanisms.friction import Friction
from fgmbs.mechanisms.tree.checks import SCALAR
from fgmbs.mechanisms.tree.description import RobotDescription
from fgmbs.mechanisms.tree.kernels.vectors import Matrices, Vectors, outer, product, rotation, skew, times
from fgmbs.mechanisms.tree.topology import TURNING, Merged, TreeTopology


class TreeParameters(eqx.Module):
    """Physical parameters of joints, bodies, frames and closures; any may be `Unknown`."""

    positions: Float[Array, "joints 3"]
    """Place of each joint, seen from the body that carries it [m] …"""
    rotations: Float[Array, "joints 3"]
    """… and how it is turned there, as a rotation vector [rad]."""
    axes: Float[Array, "joints 3"]
    """Directions, seen from the child; of any length but zero."""
    pitches: Float[Array, " joints"]
    """Of screws [m/rad]."""
    multipliers: Float[Array, " joints"]
    """Of joints that follow others."""
    offsets: Float[Array, " joints"]
    """[rad, m]"""
    masses: Float[Array, " bodies"]
    """[kg]"""
    centres: Float[Array, "bodies 3"]
    """Centres of mass [m]."""
    inertias: Float[Array, "bodies 6"]
    """xx, yy, zz, xy, xz, yz about the centre of mass [kg m²]."""
    gravity: Float[Array, "3"]
    """[m/s²]"""
    rotor_inertias: Float[Array, " joints"]
    """On the side of the motor [kg m²]."""
    gear_ratios: Float[Array, " joints"]
    damping: Float[Array, " joints"]
    """Viscous [N m s, N s/m]."""
    coulomb: Float[Array, " joints"]
    """Dry friction [N m, N]."""
    friction_width: Float[Array, ""]
    """Speed within which dry friction turns its sign [rad/s, m/s]."""
    stiffness: Float[Array, " joints"]
    """[N m, N/m]"""
    spring_references: Float[Array, " joints"]
    """[rad, m]"""
    frame_positions: Float[Array, "frames 3"]
    """[m]"""
    frame_rotations: Float[Array, "frames 3"]
    """[rad]"""
    closure_positions: Float[Array, "closures 2 3"]
    """[m]"""
    closure_rotations: Float[Array, "closures 2 3"]
    """[rad]"""
    closure_axes: Float[Array, "closures 3"]


class TreeNumbers(NamedTuple):
    """Derived numbers; components first, bodies, joints or columns along the last axis.

    A column is a velocity of a joint, moved by one of the velocities dq, of which followers have a multiple.
    """

    A: Matrices
    """Turn of a joint at angle x: A + B sin x + C cos x."""
    B: Matrices
    C: Matrices
    place: Vectors
    slide: Vectors
    """Way per unit of its coordinate."""
    multiplier: Float[Array, " joints"]
    offset: Float[Array, " joints"]
    angular: Float[Array, "3 columns"]
    """Angular velocity per unit of a column, seen from its body …"""
    linear: Float[Array, "3 columns"]
    """… and velocity of the body's origin."""
    scale: Float[Array, " columns"]
    """Of a column per unit of its velocity."""
    mass: Float[Array, " bodies"]
    centre: Vectors
    inertia: Matrices
    """About the centre of mass."""
    gravity: Float[Array, "3"]
    rotor: Float[Array, " columns"]
    """Inertia of motors at the joint [kg m²]."""
    friction: Friction
    """Of columns."""
    stiffness: Float[Array, " columns"]
    rest: Float[Array, " columns"]
    frame_place: Float[Array, "3 frames"]
    frame_turn: Float[Array, "3 3 frames"]
    closure_place: Float[Array, "3 two closures"]
    closure_turn: Float[Array, "3 3 two closures"]
    closure_axis: Float[Array, "3 closures"]


def tree_parameters(whole: Merged, description: RobotDescription) -> TreeParameters:
    """The parameters that a description gives."""

    def each(key: str) -> np.ndarray:
        return np.array([getattr(joint, key) for joint in whole.joints], float)

    def poses(matrices, *shape: int) -> tuple[np.ndarray, np.ndarray]:
        stacked = np.array(matrices, float).reshape(-1, 4, 4)
        turns = Rotation.from_matrix(stacked[:, :3, :3]).as_rotvec() if len(stacked) else np.zeros((0, 3))
        return stacked[:, :3, 3].reshape(*shape, 3), turns.reshape(*shape, 3)

    axes = np.array([j.axis if j.kind in SCALAR else (1, 0, 0) for j in whole.joints], float).reshape(-1, 3)
    positions, rotations = poses(whole.places, -1)
    frame_positions, frame_rotations = poses(whole.frames, -1)
    closure_positions, closure_rotations = poses(whole.closures, -1, 2)
    upper = [(0, 1, 2, 0, 0, 1), (0, 1, 2, 1, 2, 2)]
    numbers = dict(
        positions=positions,
        rotations=rotations,
        axes=axes / np.linalg.norm(axes, axis=1, keepdims=True),
        pitches=each("pitch"),
        multipliers=np.array([multiplier for multiplier, _ in whole.follows]),
        offsets=np.array([offset for _, offset in whole.follows]),
        masses=np.array([mass for mass, *_ in whole.inertias]),
        centres=np.array([centre for _, centre, _ in whole.inertias]).reshape(-1, 3),
        inertias=np.array([inertia[upper[0], upper[1]] for *_, inertia in whole.inertias]).reshape(-1, 6),
        gravity=np.array(description.gravity),
        rotor_inertias=each("rotor_inertia"),
        gear_ratios=each("gear_ratio"),
        damping=each("damping"),
        coulomb=each("friction"),
        friction_width=np.array(description.friction_width),
        stiffness=each("stiffness"),
        spring_references=each("spring_reference"),
        frame_positions=frame_positions,
        frame_rotations=frame_rotations,
        closure_positions=closure_positions,
        closure_rotations=closure_rotations,
        closure_axes=np.array([closure.axis for closure in description.closures], float).reshape(-1, 3),
    )
    return TreeParameters(**{key: jnp.asarray(x, float) for key, x in numbers.items()})


def tree_numbers(topology: TreeTopology, of: TreeParameters) -> TreeNumbers:
    """The numbers of a robot, a differentiable function of its parameters."""
    kinds, columns = topology.kinds, topology.columns
    turns = np.array([kind in ("revolute", "continuous", "screw") for kind in kinds], float)
    slides = np.array([kind == "prismatic" for kind in kinds], float)
    screws = np.array([kind == "screw" for kind in kinds], float)
    axis = of.axes.T / jnp.sqrt(jnp.sum(of.axes.T**2, axis=0))
    fixed = rotation(of.rotations.T)
    seen = times(fixed, axis)
    # Of a unit vector a: (a ×)² = a aᵀ − 1.
    kept = outer(seen, axis)
    along = slides + screws * of.pitches
    xx, yy, zz, xy, xz, yz = of.inertias.T
    scalar = np.array([kind not in TURNING for kind in kinds], float)
    angular, linear = _free_columns(topology)
    single = scalar[columns]
    return TreeNumbers(
        A=jnp.where(turns > 0, kept, fixed),
        B=turns * product(fixed, skew(axis)),
        C=turns * (fixed - kept),
        place=of.positions.T,
        slide=along * seen,
        multiplier=of.multipliers,
        offset=of.offsets,
        angular=angular + single * (turns * axis)[:, columns],
        linear=linear + single * (along * axis)[:, columns],
        scale=of.multipliers[columns],
        mass=of.masses,
        centre=of.centres.T,
        inertia=jnp.stack([jnp.stack([xx, xy, xz]), jnp.stack([xy, yy, yz]), jnp.stack([xz, yz, zz])]),
        gravity=of.gravity,
        rotor=(of.gear_ratios**2 * of.rotor_inertias)[columns] * single,
        friction=_friction(topology, of, columns),
        stiffness=of.stiffness[columns] * single,
        rest=of.spring_references[columns] * single,
        frame_place=of.frame_positions.T,
        frame_turn=rotation(of.frame_rotations.T),
        closure_place=of.closure_positions.transpose(2, 1, 0),
        closure_turn=_turned_pairs(of.closure_rotations),
        closure_axis=of.closure_axes.T,
    )


def _friction(topology: TreeTopology, of: TreeParameters, columns: np.ndarray) -> Friction:
    if not topology.has_friction:
        return Friction(of.damping[columns])
    return Friction(of.damping[columns], of.coulomb[columns], width=of.friction_width)


def _turned_pairs(r: Float[Array, "closures 2 3"]) -> Float[Array, "3 3 two closures"]:
    return rotation(r.reshape(-1, 3).T).reshape(3, 3, -1, 2).swapaxes(2, 3)


def _free_columns(topology: TreeTopology) -> tuple[np.ndarray, np.ndarray]:
    """Columns of spherical and floating joints: x, y, z of the body."""
    parts = [(np.zeros((3, 0)), np.zeros((3, 0)))]
    for kind in topology.kinds:
        one, no = np.eye(3), np.zeros((3, 3))
        match kind:
            case "spherical":
                parts.append((one, no))
            case "floating":
                parts.append((np.hstack([one, no]), np.hstack([no, one])))
            case "fixed":
                pass
            case _:
                parts.append((np.zeros((3, 1)), np.zeros((3, 1))))
    angular, linear = zip(*parts, strict=True)
    return np.hstack(angular), np.hstack(linear)
