"""Time of one linear step (factorize and minimize), by method, size of a step and number of steps.

    python experiments/benchmarks/linear.py                      # the table, on the device that JAX picks
    python experiments/benchmarks/linear.py --sizes 5000x12      # some rows of it

The ratio of minima is to SciPy's `solveh_banded` (LAPACK pbsv), which is handed the assembled matrix: its time is
without assembly.
Sizes of up to ten steps are timed inside a compiled loop, as a fixed-lag smoother calls them.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
import tyro

from fgmbs.linear import METHODS, LeastSquares

CALLS = 500


@dataclass(frozen=True)
class Arguments:
    """Which rows of the table."""

    sizes: tuple[str, ...] = (
        *("2x12", "4x12", "10x12"),
        *("5000x4", "5000x12", "100000x12", "2000x20", "1000x88"),
    )
    """Steps x unknowns per step."""
    methods: tuple[str, ...] = ("sequential", "sqrt")
    repetitions: int = 15


def random_system(num_steps: int, nx: int) -> LeastSquares:
    """As many rows as a mechanism of this size brings: a prior, 3/4 nx per step, 2/3 nx between steps."""
    rng = np.random.default_rng(0)
    rs, rp, T = 3 * nx // 4, 2 * nx // 3, num_steps
    shapes = [(nx,), (nx, nx), (nx, 0), (T, rs), (T, rs, nx), (T, rs, 0)]
    shapes += [(T - 1, rp), (T - 1, rp, nx), (T - 1, rp, nx), (T - 1, rp, 0), (0,), (0, 0)]
    return LeastSquares(*(jnp.asarray(rng.standard_normal(shape)) for shape in shapes))


def times(call: Callable[[], object], repetitions: int) -> tuple[float, float]:
    """(median, minimum) of the time of a call [s], after one that is not counted."""
    call()
    seconds = []
    for _ in range(repetitions):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds), min(seconds)


def banded(system: LeastSquares, damping: jax.Array) -> tuple[np.ndarray, np.ndarray]:
    """Lower band storage of JᵀJ + D, and −Jᵀr."""
    matrix = system.information().add_diagonal(damping, jnp.zeros(0))
    diagonal, lower = np.asarray(matrix.diagonal), np.asarray(matrix.lower)
    steps, nx, _ = diagonal.shape
    bands = np.zeros((2 * nx, steps * nx))
    for i in range(nx):
        for j in range(nx):
            bands[nx + i - j, j : (steps - 1) * nx : nx] = lower[:, i, j]
            if i >= j:
                bands[i - j, j::nx] = diagonal[:, i, j]
    return bands, -np.asarray(system.gradient()[0]).ravel()


def structured(method: str, system: LeastSquares, damping: jax.Array) -> tuple[Callable[[], object], float, int]:
    """(call, compile time [s], solutions per call)."""
    calls = CALLS if system.num_steps <= 10 else 1

    def solve(system, damping):
        return METHODS[method](system, damping, jnp.zeros(0)).minimizer()[0]

    def loop(system, damping):
        # The previous solution enters the next system, so that no work can leave the loop.
        def body(delta, _):
            moved = jax.tree.map(lambda x: x + 1e-9 * delta[0, 0], system)
            return solve(moved, damping), None

        return jax.lax.scan(body, jnp.zeros_like(damping), None, length=calls)[0]

    start = time.perf_counter()
    compiled = jax.jit(solve if calls == 1 else loop).lower(system, damping).compile()
    return lambda: jax.block_until_ready(compiled(system, damping)), time.perf_counter() - start, calls


def main(arguments: Arguments) -> None:
    columns = ("steps x nx", "method", "µs per solve", "µs per step", "(minimum)", "÷ banded", "compile s")
    print(("{:>12} {:>11}" + " {:>13}" * 5).format(*columns))
    for size in arguments.sizes:
        num_steps, nx = (int(number) for number in size.split("x"))
        system, damping = random_system(num_steps, nx), jnp.ones((num_steps, nx))
        bands, b = banded(system, damping)
        rows = {"banded": (lambda bands=bands, b=b: scipy.linalg.solveh_banded(bands, b, lower=True), 0.0, 1)}
        rows |= {method: structured(method, system, damping) for method in arguments.methods}
        reference = None
        for name, (call, compile_time, calls) in rows.items():
            median, minimum = (1e6 * seconds / calls for seconds in times(call, arguments.repetitions))
            reference = reference or minimum
            figures = (median, median / num_steps, minimum / num_steps, minimum / reference, compile_time)
            print(f"{size:>12} {name:>11}" + "".join(f" {figure:>13.2f}" for figure in figures), flush=True)


if __name__ == "__main__":
    main(tyro.cli(Arguments))
