"""Fixtures shared by all tests."""

import os
from pathlib import Path

import jax
import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module", autouse=True)
def _forget_programs():
    """Compiled programs of other files: a process may hold some ten thousand pieces of code, then LLVM aborts."""
    yield
    jax.clear_caches()


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Reference mechanisms and measurements, which do not belong to the project."""
    path = Path(os.environ.get("FGMBS_DATA", ROOT.parent / "shared" / "data"))
    if not path.is_dir():
        pytest.skip(f"no reference data at {path}; set FGMBS_DATA to their folder")
    return path


@pytest.fixture(scope="session")
def configs() -> Path:
    """The mechanisms and experiments that the project ships."""
    return ROOT / "configs"
