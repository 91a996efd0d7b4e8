"""Inverse and forward dynamics of a tree, with their closed forms as rules of differentiation."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fgmbs.algebra.kkt import spd_inverse, spd_solve
from fgmbs.mechanisms.tree.coordinates import local_rates
from fgmbs.mechanisms.tree.kernels import inverse
from fgmbs.mechanisms.tree.kernels.inverse import Jacobians
from fgmbs.mechanisms.tree.kernels.numbers import TreeNumbers
from fgmbs.mechanisms.tree.topology import TreeTopology
from fgmbs.typing import Coordinates, Velocities

Wrenches = Float[Array, "bodies 6"] | None


@eqx.filter_custom_jvp
def inverse_dynamics(
    topology: TreeTopology,
    numbers: TreeNumbers,
    q: Coordinates,
    dq: Velocities,
    ddq: Velocities,
    wrenches: Wrenches,
) -> Velocities:
    """τ = M q̈ + h. Its derivatives by the state are matrices in closed form, those by numbers go through the sums."""
    return inverse.forces_of_motion(topology, numbers, q, dq, ddq, wrenches)


@inverse_dynamics.def_jvp
def _inverse_dynamics_jvp(primals, tangents):
    topology, numbers, q, dq, ddq, wrenches = primals
    _, t_numbers, t_q, t_dq, t_ddq, t_wrenches = tangents
    tau = inverse_dynamics(*primals)
    t_tau = jnp.zeros_like(tau)
    if any(t is not None for t in (t_q, t_dq, t_ddq)):
        by = inverse.jacobians(topology, numbers, q, dq, ddq, wrenches)
        t_tau = _turned(topology, by, q, t_q, t_dq, t_ddq)
    if any(t is not None for t in jax.tree.leaves((t_numbers, t_wrenches))):
        t_tau = t_tau + _by_numbers(primals, (None, t_numbers, None, None, None, t_wrenches))
    return tau, t_tau


@eqx.filter_custom_jvp
def forward_dynamics(
    topology: TreeTopology,
    numbers: TreeNumbers,
    q: Coordinates,
    dq: Velocities,
    tau: Velocities,
    wrenches: Wrenches,
) -> Velocities:
    """q̈ = M⁻¹ (τ − h), with derivatives −M⁻¹ ∂(M q̈ + h) of the inverse."""
    M, h = inverse.mass_matrix_and_bias(topology, numbers, q, dq, wrenches)
    return spd_solve(M, tau - h)


@forward_dynamics.def_jvp
def _forward_dynamics_jvp(primals, tangents):
    topology, numbers, q, dq, tau, wrenches = primals
    _, t_numbers, t_q, t_dq, t_tau, t_wrenches = tangents
    ddq = forward_dynamics(*primals)
    by = inverse.jacobians(topology, numbers, q, dq, ddq, wrenches)
    t_force = -_turned(topology, by, q, t_q, t_dq, None)
    if t_tau is not None:
        t_force = t_force + t_tau
    if any(t is not None for t in jax.tree.leaves((t_numbers, t_wrenches))):
        motion = (topology, numbers, q, dq, ddq, wrenches)
        t_force = t_force - _by_numbers(motion, (None, t_numbers, None, None, None, t_wrenches))
    return ddq, spd_inverse(by.ddq) @ t_force


def forward_jacobians(
    topology: TreeTopology,
    numbers: TreeNumbers,
    q: Coordinates,
    dq: Velocities,
    tau: Velocities,
    wrenches: Wrenches,
) -> Jacobians:
    """∂q̈/∂q, ∂q̈/∂q̇, ∂q̈/∂τ."""
    ddq = forward_dynamics(topology, numbers, q, dq, tau, wrenches)
    by = inverse.jacobians(topology, numbers, q, dq, ddq, wrenches)
    M_inverse = spd_inverse(by.ddq)
    return Jacobians(-M_inverse @ by.q, -M_inverse @ by.dq, M_inverse)


def _turned(topology, by: Jacobians, q, t_q, t_dq, t_ddq):
    t_tau = jnp.zeros(by.q.shape[0], by.q.dtype)
    if t_q is not None:
        t_tau = t_tau + by.q @ local_rates(topology, q, t_q)
    if t_dq is not None:
        t_tau = t_tau + by.dq @ t_dq
    return t_tau if t_ddq is None else t_tau + by.ddq @ t_ddq


def _by_numbers(motion, tangents):
    _, t_tau = eqx.filter_jvp(inverse.forces_of_motion, motion, tangents)
    return t_tau
