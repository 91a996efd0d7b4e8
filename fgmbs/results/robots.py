"""What datasets hold of robots: where all links and frames are, how they hang together, the description."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.spatial.transform import Rotation

from fgmbs.io.robots.stored import of_json
from fgmbs.mechanisms.tree.description import RobotDescription
from fgmbs.mechanisms.tree.kernels import closures, motion
from fgmbs.mechanisms.tree.robot import Robot, robot
from fgmbs.typing import Coordinates, Scalar


def frame_poses(mechanism: Robot, q: Coordinates, t: Scalar) -> Float[Array, "points 3 4"]:
    """Rotation and origin of each link and frame, side by side."""
    topology, numbers = mechanism.of
    at = motion.placed(topology, numbers, q)
    found = [
        closures.on_body(at, body, numbers.frame_turn[..., k], numbers.frame_place[:, k])
        for k, body in enumerate(topology.frame_bodies)
    ]
    return jnp.stack([jnp.concatenate([R, p[:, None]], axis=1) for R, p in found])


def quaternions(R: np.ndarray) -> np.ndarray:
    """Unit quaternions (w, x, y, z) of rotations; no numbers where those are none."""
    flat = R.reshape(-1, 3, 3)
    known = np.isfinite(flat).all(axis=(1, 2))
    found = np.full((len(flat), 4), np.nan)
    if known.any():
        found[known] = np.roll(Rotation.from_matrix(flat[known]).as_quat(), 1, axis=1)
    return found.reshape(*R.shape[:-2], 4)


def points_of_links(description: RobotDescription, names: tuple[str, ...]) -> dict[str, list[int]]:
    """Places in `names` of each link and of the links that it carries; of one that carries none, of its frames."""
    found = {link.name: [names.index(link.name)] for link in description.links}
    for joint in description.joints:
        if joint.kind != "floating":
            root = names.index(joint.parent)
            found.setdefault(joint.parent, [root]).append(names.index(joint.child))
    at_the_end = {link for link, points in found.items() if len(points) == 1}
    for frame in description.frames:
        if frame.link in at_the_end and frame.name in names:
            found[frame.link].append(names.index(frame.name))
    return found


def robot_of(text: str, values: np.ndarray) -> Robot:
    """The robot of a stored description with the numbers of all its parameters."""
    drawn = robot(of_json(text))
    leaves = drawn.physical_parameters()
    numbers = jnp.asarray(values)
    places = np.cumsum([0, *(leaf.size for leaf in leaves.values())])
    found = {
        key: numbers[places[k] : places[k + 1]].reshape(leaf.shape) for k, (key, leaf) in enumerate(leaves.items())
    }
    parameters = type(drawn.parameters)(**(vars(drawn.parameters) | found))
    return Robot(drawn.topology, drawn.origin, parameters, drawn.home)
