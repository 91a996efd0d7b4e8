"""Arithmetic of poses, on the host, in the form descriptions hold them."""

import numpy as np
from scipy.spatial.transform import Rotation

from fgmbs.mechanisms.tree.description import Matrix, Pose, Vector


def compose(first: Pose, second: Pose) -> Pose:
    """Pose of C seen from A, from that of B seen from A and of C seen from B."""
    R = np.asarray(first.rotation)
    return pose_of(R @ np.asarray(second.rotation), R @ np.asarray(second.xyz) + np.asarray(first.xyz))


def inverse(pose: Pose) -> Pose:
    """Pose of A seen from B, from that of B seen from A."""
    R = np.asarray(pose.rotation).T
    return pose_of(R, -R @ np.asarray(pose.xyz))


def turned(pose: Pose, vector: Vector) -> Vector:
    """A direction in the outer frame, from that in the inner one."""
    return vector_of(np.asarray(pose.rotation) @ np.asarray(vector))


def moved(pose: Pose, point: Vector) -> Vector:
    """A point in the outer frame, from that in the inner one."""
    return vector_of(np.asarray(pose.rotation) @ np.asarray(point) + np.asarray(pose.xyz))


def turned_inertia(pose: Pose, inertia: Matrix) -> Matrix:
    """An inertia along the axes of the outer frame, from that along the inner ones."""
    R = np.asarray(pose.rotation)
    return matrix_of(R @ np.asarray(inertia) @ R.T)


def from_rpy(xyz: Vector, rpy: Vector) -> Pose:
    """Pose by roll, pitch and yaw: turned about x, then y, then z of the outer frame, as in URDF and SDF [rad]."""
    return pose_of(Rotation.from_euler("xyz", rpy).as_matrix(), np.asarray(xyz))


def from_quaternion(xyz: Vector, quaternion: tuple[float, float, float, float]) -> Pose:
    """Pose by a quaternion (w, x, y, z) that is no zero; it is normalized."""
    return pose_of(Rotation.from_quat(quaternion, scalar_first=True).as_matrix(), np.asarray(xyz))


def pose_of(rotation: np.ndarray, xyz: np.ndarray) -> Pose:
    """A pose of arrays."""
    return Pose(vector_of(xyz), matrix_of(rotation))


def vector_of(array: np.ndarray) -> Vector:
    """Three numbers of an array."""
    x, y, z = (float(number) for number in array)
    return x, y, z


def matrix_of(array: np.ndarray) -> Matrix:
    """Three rows of an array."""
    a, b, c = (vector_of(row) for row in array)
    return a, b, c
