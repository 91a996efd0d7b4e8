"""fgmbs: motion, forces and parameters of mechanisms, estimated with factor graphs over time.

What there is stands in `__init__.pyi`; it is imported when it is asked for.
"""

import os
from importlib.metadata import version

import jax
import lazy_loader

if "JAX_ENABLE_X64" not in os.environ:
    jax.config.update("jax_enable_x64", True)

__version__ = version("fgmbs")
__getattr__, _, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __dir__() -> list[str]:
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
