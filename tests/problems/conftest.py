"""The four-bar linkage and its free fall, shared by the tests of `simulate`; equal sizes share one compilation."""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fgmbs.io.planar.load import load, parse_mechanism
from fgmbs.mechanisms.planar.mechanism import PlanarMechanism
from fgmbs.problems.simulation.result import Simulation
from fgmbs.problems.simulation.simulate import simulate

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))  # reference estimators and true motions

LOOP = """
parameters: {L_crank: 1.0, L_coupler: 2.0, L_rocker: 3.6, base: 4.0}
points:
  - {name: A, x: 0.0, y: 0.0, fixed: true}
  - {name: P1, x: 1.0, y: 0.0}
  - {name: P2, x: 1.0, y: 2.0}
  - {name: B, x: base, y: 0.0, fixed: true}
planar_bodies:
  - {name: crank, points: [A, P1], length: L_crank, mass: 1.0, I0: mass*length^2/3, cog: [length/2, 0.0]}
  - {name: coupler, points: [P1, P2], length: L_coupler, mass: 2.0, I0: mass*length^2/3, cog: [length/2, 0.0]}
  - {name: rocker, points: [P2, B], length: L_rocker, mass: 4.0, I0: mass*length^2/3, cog: [length/2, 0.0]}
"""

STEPS = 160
"""Steps of every short run."""


@pytest.fixture(scope="session")
def fourbar(configs) -> PlanarMechanism:
    return load(configs / "mechanisms" / "fourbar.yaml")


@pytest.fixture(scope="session")
def fourbar_angle(configs) -> PlanarMechanism:
    """The four-bar with its crank angle as fifth coordinate."""
    return load(configs / "mechanisms" / "fourbar_crank_angle.yaml")


@pytest.fixture(scope="session")
def loop() -> PlanarMechanism:
    """A four-bar whose lengths are free of how it is drawn, so that it must be assembled and may not be."""
    return PlanarMechanism.from_description(parse_mechanism(LOOP))


@pytest.fixture(scope="session")
def short_run() -> Callable[..., Simulation]:
    """(mechanism, dt, options) → its first 160 steps."""

    def run(mechanism: PlanarMechanism, dt: float = 2e-3, **options) -> Simulation:
        return simulate(mechanism, STEPS * dt, dt, **options)

    return run


@pytest.fixture(scope="session")
def fall(fourbar) -> Simulation:
    """Five seconds of free fall of the four-bar at 1 ms, along the constraints."""
    return simulate(fourbar, 5.0, 1e-3)


@pytest.fixture(scope="session")
def soft_fall(fourbar) -> Simulation:
    """The same as in [Blanco21] section 7.1: dependent coordinates, soft constraints, trapezoidal rule."""
    return simulate(fourbar, 5.0, 1e-3, coordinates="dependent", integrator="trapezoidal")


@pytest.fixture(scope="session")
def truth(data_dir) -> dict[str, np.ndarray]:
    """The exact free fall of the four-bar every millisecond: q, dq."""
    folder: Path = data_dir / "multibody-factor-graphs" / "own-ground-truth"
    table = np.loadtxt(folder / "fourbar_free_fall_g9.81_1ms_10s.tab.gz", comments=("%", "#"))
    return {"q": table[:, [1, 5, 3, 7]], "dq": table[:, [2, 6, 4, 8]]}  # t x1 x1dot x2 x2dot y1 y1dot y2 y2dot
