"""Time of the kernels of robots per state, with Pinocchio beside them.

Medians in double precision, on one core by `taskset -c 0 python experiments/benchmarks/robots.py DATA`, DATA the folder
of the reference robots.
"""

import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pinocchio as pin

import fgmbs
from fgmbs import tree

REPEATS = 30


def median(call):
    """(median of the time of a call, that of the first one) [s]."""
    times = []
    for _ in range(REPEATS + 1):
        start = time.perf_counter()
        jax.block_until_ready(call())
        times.append(time.perf_counter() - start)
    return np.median(times[1:]), times[0]


def compared(title, kernel, robot, states, beside):
    """One row of the table: a kernel over a batch of states, and the same in Pinocchio, one after the other."""
    compiled = jax.jit(jax.vmap(lambda *state: kernel(robot, *state)))
    arrays = [jnp.asarray(x) for x in states]
    own, first = median(lambda: compiled(*arrays))
    other, _ = median(lambda: [beside(*state) for state in zip(*states, strict=True)])
    count = len(states[0])
    row = f"{title:<44} {own / count * 1e6:8.2f} µs {other / count * 1e6:8.2f} µs {own / other:6.2f}"
    print(f"{row} {own * 1e3:8.2f} ms {first:6.1f} s", flush=True)


def main(folder: Path) -> None:
    print(f"{'':<44} {'fgmbs':>11} {'Pinocchio':>11} {'ratio':>6} {'batch':>11} {'first':>8}")
    puma, human = folder / "puma560" / "puma560.urdf", folder / "human43" / "human43_synthetic.urdf"
    for file, count in ((puma, 1024), (human, 301)):
        robot, model = fgmbs.load(file).evaluated(), pin.buildModelFromUrdf(str(file))
        data = model.createData()
        states = np.random.default_rng(0).standard_normal((3, count, robot.nv))
        name = f"{robot.title} ({robot.nv} dof, batch {count})"

        def call(function, model=model, data=data):
            return lambda q, dq, x: function(model, data, q, dq, x)

        rows = (
            ("inverse", tree.inverse_dynamics, pin.rnea),
            ("forward", tree.forward_dynamics, pin.aba),
            ("inverse, Jacobians", tree.inverse_dynamics_jacobians, pin.computeRNEADerivatives),
            ("forward, Jacobians", tree.forward_dynamics_jacobians, pin.computeABADerivatives),
        )
        for label, kernel, beside in rows:
            compared(f"{name} {label}", kernel, robot, states, call(beside))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
