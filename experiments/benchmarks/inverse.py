"""Wall time of `fgmbs.inverse_dynamics`: first call, later calls, iterations of each stage, growth with the samples.

    taskset -c 0,1 python experiments/benchmarks/inverse.py [--repeats 9] [--samples 1000 10000 100000]

The two experiments of [Blanco21] section 7.2, from the samples of the paper's files (skipped without them), and the
four-bar over ever longer motions, from samples of 1.2 (1 − cos 2t) and from that function, which spares the smoothing.
"first" is the first call, compilation included (a row with "function" finds most of its program compiled by the row
before); switch JAX's persistent compilation cache off (unset JAX_COMPILATION_CACHE_DIR). "call" is the median of whole
public calls after it, checks on the host included. Smoothing and rates are linear and have no iterations.

What it could be at best, by XLA's own count of the program without smoothing (a loop counts as one turn): 7 kflop and
26 kB of memory traffic for a four-bar sample, 390 kflop and 390 kB for one of the robot. At 4 GFLOP/s and 10 GB/s, what
scalar code has on one core, that is 3 µs and 100 µs. Small products and eliminations are written out and run in a few
kernels. More than half of the time of the four-bar is the smoothing of its samples, which "function" spares.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import tyro

sys.path.insert(0, str(Path(__file__).parents[1]))
from fourbar import MECHANISMS, median_seconds  # noqa: E402
from paper_inverse import FOLDER, fourbar, robot  # noqa: E402

import fgmbs  # noqa: E402


def crank_angle(t):
    """Desired crank angle [rad]."""
    return 1.2 * (1 - jnp.cos(2 * t))


def measure(name: str, call: Callable[[], fgmbs.DrivenMotion], samples: int, repeats: int) -> None:
    """Prints a row."""
    start = time.perf_counter()
    motion = jax.block_until_ready(call())
    first = time.perf_counter() - start
    seconds = median_seconds(lambda: jax.block_until_ready(call()), repeats)
    iterations = ", ".join(f"{stage} {int(count)}" for stage, count in motion.iterations.items())
    times = f"{first:>10.2f} {1e3 * seconds:>10.1f} {1e6 * seconds / samples:>10.2f}"
    print(f"{name:<28} {samples:>8} {times}  {iterations}", flush=True)


def main(repeats: int = 9, samples: tuple[int, ...] = (1_000, 10_000, 100_000)) -> None:
    columns = f"{'samples':>8} {'first [s]':>10} {'call [ms]':>10} {'µs/sample':>10}"
    print(f"{'motion':<28} {columns}  most iterations of a stage")
    for case_of in (fourbar, robot) if FOLDER.is_dir() else ():
        case = case_of()

        def call(case=case):
            return fgmbs.inverse_dynamics(case.mechanism, case.t, case.angles)

        measure(f"{case_of.__name__}, file of the paper", call, case.t.size, repeats)
    mechanism = fgmbs.load(MECHANISMS / "fourbar_crank_angle.yaml")
    for count in samples:
        t = 5e-3 * np.arange(count)
        for name, desired in (("samples", np.asarray(crank_angle(t))), ("function", crank_angle)):

            def call(t=t, desired=desired):
                return fgmbs.inverse_dynamics(mechanism, t, {"theta": desired})

            measure(f"fourbar, {name}", call, count, repeats)


if __name__ == "__main__":
    tyro.cli(main)
