"""Time per step of `fgmbs.simulate` on the four-bar linkage, and its cold compile time.

One process, one thread:

    XLA_FLAGS="--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1" OMP_NUM_THREADS=1 \\
        taskset -c 0 python experiments/benchmarks/simulate.py

"steps": time between two reports of progress, that is of the compiled loop over steps. "call": the whole public call,
its checks and result included. Medians of `--repeats` calls after the first; the first, compilation included, apart.
Switch JAX's persistent compilation cache off (unset JAX_COMPILATION_CACHE_DIR).
"""

import statistics
import sys
import time
from pathlib import Path

import jax
import tyro

sys.path.insert(0, str(Path(__file__).parents[1]))
from fourbar import KINDS, MECHANISMS  # noqa: E402

import fgmbs  # noqa: E402


def measure(mechanism, duration: float, repeats: int, **arguments) -> dict[str, float]:
    """Seconds of the first call, of a call, and per step of the loop."""
    calls, per_step = [], []
    for _ in range(repeats + 1):
        ticks: list[tuple[int, float]] = []
        start = time.perf_counter()
        jax.block_until_ready(
            fgmbs.simulate(
                mechanism,
                duration,
                1e-3,
                progress=lambda done, total, ticks=ticks: ticks.append((done, time.perf_counter())),
                **arguments,
            )
        )
        calls.append(time.perf_counter() - start)
        whole = ticks[:-1] or ticks  # the last part may be cut short
        pairs = zip(whole, whole[1:], strict=False)
        per_step.append([(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairs])
    loop = [value for values in per_step[1:] for value in values]
    return {
        "first": calls[0],
        "call": statistics.median(calls[1:]),
        "step": statistics.median(loop) if loop else float("nan"),
    }


def main(
    windows: tuple[int, ...] = (2, 10),
    kinds: tuple[str, ...] = ("dependent", "independent", "crank angle"),
    duration: float = 5.0,
    repeats: int = 7,
) -> None:
    steps = round(duration / 1e-3) + 1
    print(f"{'coordinates':<12} {'N_w':>3} {'first call [s]':>15} {'steps [µs/step]':>16} {'call [µs/step]':>15}")
    for kind in kinds:
        file, arguments = KINDS[kind]
        mechanism = fgmbs.load(MECHANISMS / file)
        for window in windows:
            found = measure(mechanism, duration, repeats, window=window, **arguments)
            step, call = found["step"] * 1e6, found["call"] / steps * 1e6
            print(f"{kind:<12} {window:>3} {found['first']:>15.2f} {step:>16.1f} {call:>15.1f}", flush=True)


if __name__ == "__main__":
    tyro.cli(main)
