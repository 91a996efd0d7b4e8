"""What the four-bar experiments share: the exact motion of [Blanco21] section 7.1 at every millisecond, and timing."""

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
DATA = Path(os.environ.get("FGMBS_DATA", ROOT.parent / "shared" / "data"))
MECHANISMS = ROOT / "configs" / "mechanisms"
KINDS = {
    "dependent": ("fourbar.yaml", {"coordinates": "dependent"}),
    "independent": ("fourbar.yaml", {"coordinates": "independent"}),
    "crank angle": ("fourbar_crank_angle.yaml", {"coordinates": "independent", "independent": ("theta",)}),
}
"""Soft constraints: mechanism file and arguments of `simulate`. In "independent" the best natural coordinate is chosen
at every step, in "crank angle" z is the crank angle, as in the paper."""


def truth(duration: float) -> dict[str, np.ndarray]:
    """The exact motion from rest, gravity 9.81 m/s², as columns for `fgmbs.results.with_truth`."""
    path = DATA / "multibody-factor-graphs" / "own-ground-truth" / "fourbar_free_fall_g9.81_1ms_10s.tab.gz"
    if not path.is_file():
        raise SystemExit(f"no exact motion at {path}; set FGMBS_DATA to the folder with multibody-factor-graphs")
    names = ("t", "x_P1", "d_x_P1", "x_P2", "d_x_P2", "y_P1", "d_y_P1", "y_P2", "d_y_P2")
    table = np.loadtxt(path, comments="%")
    return dict(zip(names, table[table[:, 0] <= duration + 1e-9].T, strict=True))


def median_seconds(function: Callable[[], object], repeats: int) -> float:
    """Median time of a call; its results must be ready when it returns."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return statistics.median(times)
