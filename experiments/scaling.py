"""Batch simulation of the four-bar over T steps: compile time, time and memory per step.

    python experiments/scaling.py [--steps 1000 10000 100000] [--out results/scaling]

Each T has a process of its own, so that its peak memory (resident set, from the operating system) is its own. The
memory per step is what the compiled program asks for: its temporaries and its result.
"""

import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import tyro
from fourbar import MECHANISMS, median_seconds


def one(steps: int, repeats: int) -> dict[str, float]:
    """Measures one T in this process."""
    import equinox as eqx
    import jax

    import fgmbs

    baseline = _peak()
    mechanism = fgmbs.load(MECHANISMS / "fourbar.yaml")

    @eqx.filter_jit
    def run(mechanism):
        result = fgmbs.simulate(mechanism, (steps - 1) * 1e-3, 1e-3, batch=True)
        return result.q, result.constraint_norm, result.status

    start = time.perf_counter()
    compiled = run.lower(mechanism).compile()
    compile_seconds = time.perf_counter() - start
    memory = compiled.compiled.memory_analysis()
    seconds = median_seconds(lambda: jax.block_until_ready(compiled(mechanism)), repeats)
    _, norm, status = compiled(mechanism)
    return {
        "steps": steps,
        "compile_s": compile_seconds,
        "run_s": seconds,
        "us_per_step": seconds / steps * 1e6,
        "kB_per_step": (memory.temp_size_in_bytes + memory.output_size_in_bytes) / steps / 1e3,
        "peak_MB": _peak(),
        "baseline_MB": baseline,
        "max_constraint_norm": float(norm.max()),
        "converged": bool(status == fgmbs.Status.converged),
    }


def main(
    steps: tuple[int, ...] = (1_000, 10_000, 100_000),
    repeats: int = 3,
    out: Path = Path("results/scaling"),
    only: int | None = None,
) -> None:
    """Measures every T, or `only` one in this process."""
    if only is not None:
        print(json.dumps(one(only, repeats)))
        return
    out.mkdir(parents=True, exist_ok=True)
    rows = []
    for count in steps:
        command = [sys.executable, __file__, "--only", str(count), "--repeats", str(repeats)]
        answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        rows.append(json.loads(answer.splitlines()[-1]))
        print(" ".join(f"{key} {value:.6g}" for key, value in rows[-1].items()), flush=True)
        (out / "scaling.json").write_text(json.dumps(rows, indent=1))


def _peak() -> float:
    """Peak resident set of this process [MB]."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


if __name__ == "__main__":
    tyro.cli(main)
