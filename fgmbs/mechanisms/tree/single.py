"""Single numbers of robots by name: LINK.mass, LINK.center.x, LINK.inertia.xy, JOINT.damping, gravity.z …

The parameters of a robot are arrays over its joints and bodies. A number that is looked for, or has another value than
the others of its array know of, stands beside them under its name until the arrays are put together.
"""

import dataclasses
import functools
from collections.abc import Mapping
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fgmbs.compiled.tracing import is_traced
from fgmbs.errors import ArgumentError
from fgmbs.mechanisms.tree.checks import SCALAR
from fgmbs.mechanisms.tree.kernels.numbers import TreeParameters
from fgmbs.mechanisms.tree.topology import TreeTopology
from fgmbs.unknowns import Unknown, is_unknown

_VECTOR = ("x", "y", "z")
_OF_BODIES = {"masses": ("mass", ()), "centres": ("center", _VECTOR)}
_OF_BODIES |= {"inertias": ("inertia", ("xx", "yy", "zz", "xy", "xz", "yz"))}
_OF_JOINTS = {"positions": ("position", _VECTOR), "rotations": ("rotation", _VECTOR)}
_OF_SCALAR_JOINTS = {
    "damping": ("damping", ()),
    "coulomb": ("friction", ()),
    "stiffness": ("stiffness", ()),
    "spring_references": ("spring_reference", ()),
    "rotor_inertias": ("rotor_inertia", ()),
    "gear_ratios": ("gear_ratio", ()),
}
_NOT_NEGATIVE = ("mass", "damping", "friction", "stiffness", "rotor_inertia")


class Place(NamedTuple):
    """Where a single number is."""

    array: str
    """Field of `TreeParameters`."""
    index: tuple[int, ...]


@functools.lru_cache(maxsize=64)
def places(topology: TreeTopology) -> dict[str, Place]:
    """All single numbers by name."""
    found = {f"gravity.{x}": Place("gravity", (k,)) for k, x in enumerate(_VECTOR)}
    for k, (joint, kind) in enumerate(zip(topology.joints, topology.kinds, strict=True)):
        arrays = _OF_JOINTS | (_OF_SCALAR_JOINTS if kind in SCALAR else {})
        found |= _named(joint, k, arrays | ({"pitches": ("pitch", ())} if kind == "screw" else {}))
    for k, link in enumerate(topology.links):
        found |= _named(link, k, _OF_BODIES)
    return found


def _named(owner: str, k: int, arrays: Mapping[str, tuple[str, tuple[str, ...]]]) -> dict[str, Place]:
    found = {}
    for array, (key, parts) in arrays.items():
        if not parts:
            found[f"{owner}.{key}"] = Place(array, (k,))
        found |= {f"{owner}.{key}.{part}": Place(array, (k, i)) for i, part in enumerate(parts)}
    return found


def taken(topology: TreeTopology, parameters: TreeParameters, name: str) -> Array:
    """The number of a name in the arrays."""
    array, index = places(topology)[name]
    return getattr(parameters, array)[..., *index]


def put(topology: TreeTopology, parameters: TreeParameters, values: Mapping[str, Array]) -> TreeParameters:
    """The arrays with these numbers in their places, a differentiable function of them."""
    arrays = dict(vars(parameters))
    for name, value in values.items():
        array, index = places(topology)[name]
        old = arrays[array]
        if is_traced((old, value)):
            arrays[array] = jnp.asarray(old).at[..., *index].set(value)
        else:
            changed = np.array(old)
            changed[..., *index] = value
            arrays[array] = changed
    return TreeParameters(**{key: jnp.asarray(array) for key, array in arrays.items()})


def with_laws(topology: TreeTopology, values: Mapping[str, Array | Unknown]) -> TreeTopology:
    """The topology of a robot that has dry friction and springs where these numbers say so."""
    kinds = {places(topology)[name].array for name, value in values.items() if _acts(value)}
    friction, springs = topology.has_friction or "coulomb" in kinds, topology.has_springs or "stiffness" in kinds
    if (friction, springs) == (topology.has_friction, topology.has_springs):
        return topology
    return dataclasses.replace(topology, has_friction=friction, has_springs=springs)


def _acts(value: Array | Unknown) -> bool:
    return is_unknown(value) or is_traced(value) or bool(np.any(np.asarray(value) != 0))


def refuse_impossible(name: str, value: Array) -> None:
    """Refuses a number that nothing can have; what is traced is taken as it is.

    Raises:
        ArgumentError: A shape, a negative mass, friction, stiffness or rotor inertia, or a gear ratio of 0.
    """
    if value.shape:
        advice = "; use jax.vmap for many robots"
        raise ArgumentError(f"values[{name!r}]: expected one number; found shape {value.shape}{advice}")
    if name.rsplit(".", 1)[-1] in _NOT_NEGATIVE and not is_traced(value) and float(value) < 0:
        raise ArgumentError(f"values[{name!r}]: expected zero or a positive number; found {float(value):g}")
    if name.endswith(".gear_ratio") and not is_traced(value) and float(value) == 0:
        raise ArgumentError(f"values[{name!r}]: expected a number other than 0; found 0")
