"""What datasets hold of robots: orientations, the description with the numbers of all parameters."""

import jax.numpy as jnp
import numpy as np
from scipy.spatial.transform import Rotation

from fgmbs.io.robots.stored import of_json
from fgmbs.mechanisms.tree.robot import Robot, robot
from fgmbs.mechanisms.tree.single import put, with_laws


def quaternions(R: np.ndarray) -> np.ndarray:
    """Unit quaternions (w, x, y, z) of rotations; no numbers where those are none."""
    flat = R.reshape(-1, 3, 3)
    known = np.isfinite(flat).all(axis=(1, 2))
    found = np.full((len(flat), 4), np.nan)
    if known.any():
        found[known] = Rotation.from_matrix(flat[known]).as_quat(scalar_first=True)
    return found.reshape(*R.shape[:-2], 4)


def robot_of(text: str, values: np.ndarray) -> Robot:
    """The robot of a stored description with the numbers of all its parameters."""
    drawn = robot(of_json(text))
    leaves = drawn.physical_parameters()
    numbers = jnp.asarray(values)
    places = np.cumsum([0, *(leaf.size for leaf in leaves.values())])
    found = {
        key: numbers[places[k] : places[k + 1]].reshape(leaf.shape) for k, (key, leaf) in enumerate(leaves.items())
    }
    arrays = {key: found.pop(key) for key in vars(drawn.parameters) if key in found}
    topology = with_laws(drawn.topology, found)
    parameters = put(topology, type(drawn.parameters)(**(vars(drawn.parameters) | arrays)), found)
    return Robot(topology, drawn.origin, parameters, drawn.home)
