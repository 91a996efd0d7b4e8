"""fgmbs: motion, forces and parameters of mechanisms, estimated with factor graphs over time."""

import os

import jax

if "JAX_ENABLE_X64" not in os.environ:
    jax.config.update("jax_enable_x64", True)
