"""Structured linear least squares over time: containers, factorizations, covariances."""

from fgmbs.linear import dense, sequential, sqrt
from fgmbs.linear.blocks import BlockTridiagonal, Damped, LeastSquares
from fgmbs.linear.bounds import Margins
from fgmbs.linear.covariance import Marginals
from fgmbs.linear.factorization import Factorization
from fgmbs.linear.sequential import factorize_matrix
from fgmbs.linear.sqrt import marginalize_first, unfollowed

METHODS = {"sequential": sequential.factorize, "sqrt": sqrt.factorize, "dense": dense.factorize}
"""factorize(system, damping_steps, damping_globals) by name."""

__all__ = [
    "METHODS",
    "BlockTridiagonal",
    "Damped",
    "Factorization",
    "LeastSquares",
    "Marginals",
    "Margins",
    "factorize_matrix",
    "marginalize_first",
    "unfollowed",
]
