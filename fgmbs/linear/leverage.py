"""How far the unknowns of a linearized graph can follow each of its rows."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fgmbs.linear.blocks import LeastSquares
from fgmbs.linear.covariance import Marginals


class Leverages(NamedTuple):
    """Diagonal of J A⁻¹ Jᵀ by row: 1 for a row that is met exactly, 0 for one that nothing answers to.

    Of residuals of unit variance, 1 − leverage is the expected square after the fit.
    """

    initial: Float[Array, "*recordings ri"]
    step: Float[Array, "*recordings steps rs"]
    pair: Float[Array, "*recordings steps-1 rp"]
    globals: Float[Array, " rg"]


def leverages(system: LeastSquares, marginals: Marginals) -> Leverages:
    """Leverages of all rows of a system with the marginal covariances of its unknowns."""
    alone = jnp.einsum("ri,ij,rj->r", system.global_jacobian, marginals.globals, system.global_jacobian)
    if system.joint:
        of_one = lambda system, steps, pairs, cross: leverages(
            system, Marginals(steps, pairs, marginals.globals, cross)
        )
        each = jax.vmap(of_one)(system.each(), marginals.steps, marginals.pairs, marginals.cross)
        return each._replace(globals=alone)

    def joint(step, cross):
        return jnp.block([[step, cross.T], [cross, marginals.globals]])

    def of_pair(first, second, between, first_cross, second_cross):
        steps = jnp.block([[first, between.T], [between, second]])
        return joint(steps, jnp.concatenate([first_cross, second_cross], axis=1))

    cov = jax.vmap(joint)(marginals.steps, marginals.cross)
    pairs = jax.vmap(of_pair)(
        marginals.steps[:-1], marginals.steps[1:], marginals.pairs, marginals.cross[:-1], marginals.cross[1:]
    )
    initial = jnp.concatenate([system.initial_jacobian, system.initial_arrow], axis=1)
    step = jnp.concatenate([system.step_jacobian, system.step_arrow], axis=2)
    pair = jnp.concatenate([system.pair_start, system.pair_end, system.pair_arrow], axis=2)
    return Leverages(
        jnp.einsum("ri,ij,rj->r", initial, cov[0], initial),
        jnp.einsum("kri,kij,krj->kr", step, cov, step),
        jnp.einsum("kri,kij,krj->kr", pair, pairs, pair),
        alone,
    )
