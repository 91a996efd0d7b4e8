"""Small graphs with known answers."""

from pathlib import Path

import pytest

from fgmbs.mechanisms.planar import load


@pytest.fixture(scope="session")
def pendulum():
    return load(Path(__file__).parents[2] / "configs" / "mechanisms" / "pendulum.yaml")
