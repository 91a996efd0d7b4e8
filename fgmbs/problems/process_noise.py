"""The noise of the dynamics: how far unknown forces move a mechanism in one time step."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fgmbs.dynamics.forcing import force_directions
from fgmbs.inputs import AbstractInput, Disturbance, GaussMarkov, WhiteNoise, augmented, remembered, white
from fgmbs.problems.trajectory import Trajectory
from fgmbs.typing import Coordinates, Scalar

_LEAST = 1e-8
"""Least spectral density in any direction, relative to the mean one: every direction needs some."""


def process(
    trajectory: Trajectory, inputs: Sequence[AbstractInput], q: Coordinates, t: Scalar
) -> tuple[Float[Array, "dof nv"], Float[Array, "dof nv"], Float[Array, "rows rows"]]:
    """(T, B, whitening matrix of what a step misses) near q; rows are those of position, of velocity, and of the
    forces that have a memory."""
    mechanism, dt = trajectory.mechanism, trajectory.dt
    T, P, B = trajectory.along(q, t)
    mobility = B @ P @ B.T
    density = jnp.zeros_like(mobility)
    for force in white(inputs):
        if isinstance(force, Disturbance):
            density = density + 2 * force.size * mobility
        elif isinstance(force, WhiteNoise):
            g = force.size * (B @ P @ force_directions(mechanism, q, t, (force.on,)))
            density = density + g @ g.T
    named = augmented(inputs)
    g = _rates(named) * (B @ P @ force_directions(mechanism, q, t, tuple(force.on for force in named)))
    wander = g @ g.T
    everywhere, dof = remembered(inputs), trajectory.chart.dof
    if everywhere is not None:
        wander = wander + 2 * everywhere.variance / everywhere.time_constant * mobility
    # Every direction needs some noise; measured against the mobility, the least is the same in all of them.
    mean = jnp.trace(density + dt**2 / 12 * wander) / jnp.trace(mobility)
    density = density + _LEAST * mean * mobility
    jumps = [
        force.size * jnp.sqrt(-jnp.expm1(-2 * dt / force.time_constant))
        if isinstance(force, GaussMarkov)
        else force.size * jnp.sqrt(dt)
        for force in named
    ]
    if everywhere is not None:
        jumps += [jnp.sqrt(everywhere.variance * -jnp.expm1(-2 * dt / everywhere.time_constant))] * dof
    noise = trajectory.rule.noise(density, wander, dt)
    W = jax.scipy.linalg.block_diag(
        noise.position,
        noise.velocity,
        jnp.diag(1 / jnp.stack(jumps)) if jumps else jnp.zeros((0, 0), q.dtype),
    )
    return T, B, W


def _rates(forces: Sequence[AbstractInput]) -> Float[Array, " nu"]:
    """Square root of the spectral density of the rate of each unknown force that has a name [N/√s, N·m/√s]."""
    rates = [
        force.size * jnp.sqrt(2 / force.time_constant) if isinstance(force, GaussMarkov) else force.size
        for force in forces
    ]
    return jnp.stack(rates) if rates else jnp.zeros(0)
