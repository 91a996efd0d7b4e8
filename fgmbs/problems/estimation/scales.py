"""What a mechanism does by its own numbers, of which first guesses are made that hold in any unit."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from fgmbs.compiled.program import ONCE, program
from fgmbs.dynamics.forcing import force_directions
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.typing import Scalar


class OwnScale(NamedTuple):
    """Energy and time of a motion that a mechanism makes by itself, and what is ruled out."""

    energy: float
    """What its weight and springs do along its reach [J]."""
    time: float
    """In which that moves it so far [s]."""
    inertia: float
    """Twice the kinetic energy if it moves by its reach in one second [kg·m²]."""


def own_scale(mechanism: AbstractMechanism, duration: float) -> OwnScale:
    """The scale of a mechanism; of one that nothing drives, that of moving by its reach in this duration [s]."""
    work, inertia = map(float, _work_and_inertia(mechanism))
    energy = max(work, inertia / duration**2)
    return OwnScale(energy, (inertia / energy) ** 0.5, inertia)


@program(**ONCE)
def _work_and_inertia(mechanism: AbstractMechanism) -> tuple[Scalar, Scalar]:
    mechanism = mechanism.evaluated()
    q, reach = mechanism.reference, mechanism.reach
    zero = jnp.zeros(mechanism.nv, q.dtype)
    # Where it is drawn hanging, weight and springs do nothing: half of its reach away they do.
    ways = 0.5 * jnp.diag(reach)
    poses = [jnp.zeros((1, mechanism.nv), q.dtype), ways, -ways]
    forces = jax.vmap(lambda way: mechanism.forces(mechanism.retract(q, way), zero, jnp.zeros((), q.dtype)))
    works = jnp.abs(forces(jnp.concatenate(poses)) * reach)
    work = jnp.max(jnp.where(jnp.isfinite(works), works, 0.0), initial=0.0)
    return work, jnp.max(jnp.abs(mechanism.mass_matrix(q) * reach * reach[:, None]), initial=0.0)


def travel(mechanism: AbstractMechanism, on: str) -> float:
    """How far what a force acts on moves if the mechanism moves by its reach [m, rad]."""
    moved = float(_moved(mechanism, on))
    return moved if moved > 0 else 1.0


@program(**ONCE)
def _moved(mechanism: AbstractMechanism, on: str) -> Scalar:
    q = mechanism.reference
    direction = force_directions(mechanism, q, jnp.zeros((), q.dtype), [on])[:, 0]
    return jnp.max(jnp.abs(direction * mechanism.reach))
