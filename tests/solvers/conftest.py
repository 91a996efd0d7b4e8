"""Small graphs with known answers."""

from pathlib import Path

import pytest

from fgmbs.io.planar.load import load


@pytest.fixture(scope="session")
def pendulum():
    return load(Path(__file__).parents[2] / "configs" / "mechanisms" / "pendulum.yaml")
