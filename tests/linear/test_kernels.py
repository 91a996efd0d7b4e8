import jax
import numpy as np
import pytest

from fgmbs.linear.kernels import gram


@pytest.mark.parametrize("shape", [(0, 3), (1, 4), (9, 13), (60, 13)])
def test_gram_is_the_product_for_few_and_for_many_rows(shape):
    a = np.random.default_rng(0).standard_normal(shape)
    np.testing.assert_allclose(jax.jit(gram)(jax.numpy.asarray(a)), a.T @ a, rtol=1e-12, atol=1e-12)
