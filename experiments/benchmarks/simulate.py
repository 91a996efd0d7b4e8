"""Forward dynamics of the four-bar: error over cost beside MuJoCo, forms of the graph, batches, the parallel robot.

One process, one thread:

    XLA_FLAGS="--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1" OMP_NUM_THREADS=1 \\
        taskset -c 0 python experiments/benchmarks/simulate.py [--out docs/error_over_cost.png]

Times are medians of `--repeats` runs of the compiled loop over steps; compilation and the result's energies and
multipliers are apart. Errors are root mean squares over 5 s of free fall against the exact motion. MuJoCo closes the
loop by a soft equality, as stiff as its step allows (solref of two steps, solimp 0.999: the least errors over all
steps), with its Runge-Kutta method of fourth order.
"""

import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import tyro
from matplotlib.figure import Figure

sys.path.insert(0, str(Path(__file__).parents[1]))
from fourbar import KINDS, MECHANISMS, median_seconds, truth  # noqa: E402

import fgmbs  # noqa: E402
from fgmbs.dynamics.transitions import TRANSITIONS  # noqa: E402
from fgmbs.problems.simulation.marching import InChunks, Outside, march  # noqa: E402

DURATION = 5.0
RUNS = {"hermite_simpson": (5, 10, 20, 40), "trapezoidal": (1, 2, 5, 10)}
"""Steps of every rule [ms]."""
MUJOCO = (1, 2, 5, 10)
FOURBAR = """<mujoco><option timestep="{dt}" integrator="RK4" gravity="0 0 -9.81"/><worldbody>
<body name="crank"><joint name="a" type="hinge" axis="0 -1 0"/>
  <inertial pos=".5 0 0" mass="1" diaginertia="{i1} {i1} {i1}"/>
  <body name="coupler" pos="1 0 0"><joint name="b" type="hinge" axis="0 -1 0"/>
    <inertial pos="0 0 1" mass="2" diaginertia="{i2} {i2} {i2}"/><site name="P2" pos="0 0 2"/></body></body>
<body name="rocker" pos="4 0 0"><joint name="c" type="hinge" axis="0 -1 0"/>
  <inertial pos="-1.5 0 1" mass="4" diaginertia="{i3} {i3} {i3}"/></body>
</worldbody><equality>
<connect body1="coupler" body2="rocker" anchor="0 0 2" solref="{solref} 1" solimp="0.999 0.999 0.001"/>
</equality></mujoco>"""


def rmse(q, exact, dt_ms: float) -> float:
    """[mm]"""
    return 1e3 * float(np.sqrt(np.mean((np.asarray(q) - exact[:: round(dt_ms)][: len(q)]) ** 2)))


def marched(mechanism, rule: str, dt: float, steps: int, repeats: int) -> tuple[np.ndarray, float]:
    """(q, seconds per step)."""
    q = fgmbs.assemble(mechanism)
    dq, zero = jnp.zeros(mechanism.nv), jnp.zeros(())

    def run():
        done, _ = march(mechanism, TRANSITIONS[rule], Outside(), q, dq, zero, jnp.asarray(dt), steps, InChunks(None))
        return done.steps.q

    return np.asarray(run()), median_seconds(run, repeats) / steps


def in_mujoco(dt: float, repeats: int) -> tuple[np.ndarray, float]:
    """(q of the two points, seconds per step)."""
    lengths, masses = np.array([1.0, 2.0, np.sqrt(13)]), np.array([1.0, 2.0, 4.0])
    inertias = dict(zip(("i1", "i2", "i3"), masses * lengths**2 / 12, strict=True))
    model = mujoco.MjModel.from_xml_string(FOURBAR.format(dt=dt, solref=2 * dt, **inertias))
    data, steps = mujoco.MjData(model), round(DURATION / dt)
    points = []
    for _ in range(steps + 1):
        mujoco.mj_kinematics(model, data)
        p1, p2 = data.body("coupler").xpos, data.site("P2").xpos
        points.append([p1[0], p1[2], p2[0], p2[2]])
        mujoco.mj_step(model, data)

    def run():
        mujoco.mj_resetData(model, data)
        mujoco.mj_step(model, data, nstep=steps)

    return np.array(points), median_seconds(run, repeats) / steps


def soft(kind: str, window: int, repeats: int) -> float:
    """Seconds per step of a form with soft constraints, by the progress that the public call reports."""
    file, arguments = KINDS[kind]
    mechanism, per_step = fgmbs.load(MECHANISMS / file), []
    for k in range(repeats + 1):
        ticks: list[tuple[int, float]] = []
        fgmbs.simulate(
            mechanism,
            DURATION,
            1e-3,
            integrator="trapezoidal",
            window=window,
            progress=lambda done, _, ticks=ticks: ticks.append((done, time.perf_counter())),
            **arguments,
        )
        if k:
            whole = ticks[:-1]
            per_step += [(b[1] - a[1]) / (b[0] - a[0]) for a, b in zip(whole, whole[1:], strict=False)]
    return float(np.median(per_step))


def batched(mechanism, members: int, repeats: int, steps: int = 512, dt: float = 1e-2) -> float:
    """Seconds per step and member of many four-bars of other masses."""
    rule, zero = TRANSITIONS["hermite_simpson"], jnp.zeros(())
    q, dq = fgmbs.assemble(mechanism), jnp.zeros(mechanism.nv)

    def one(mass):
        heavier = mechanism.with_parameters({"coupler.mass": mass})
        return march(heavier, rule, Outside(), q, dq, zero, jnp.asarray(dt), steps)[0].steps.q[-1]

    run, masses = jax.jit(jax.vmap(one)), jnp.linspace(1.5, 2.5, members)
    jax.block_until_ready(run(masses))
    return median_seconds(lambda: jax.block_until_ready(run(masses)), repeats) / steps / members


def main(repeats: int = 7, members: tuple[int, ...] = (64, 256, 4096), out: Path | None = None) -> None:
    columns = truth(DURATION)
    exact = np.stack([columns[name] for name in ("x_P1", "y_P1", "x_P2", "y_P2")], axis=1)
    mechanism = fgmbs.load(MECHANISMS / "fourbar.yaml")
    print(
        "| program | step [ms] | µs per step | µs per ms of motion | RMSE of q [mm] |\n| --- | --- | --- | --- | --- |"
    )
    curves = {}
    for rule, steps in RUNS.items():
        for ms in steps:
            q, seconds = marched(mechanism, rule, 1e-3 * ms, round(DURATION / ms * 1e3), repeats)
            curves.setdefault(f"fgmbs, {rule}", []).append((ms, seconds * 1e6, rmse(q, exact, ms)))
    for ms in MUJOCO:
        q, seconds = in_mujoco(1e-3 * ms, repeats)
        curves.setdefault("MuJoCo, RK4", []).append((ms, seconds * 1e6, rmse(q, exact, ms)))
    for name, rows in curves.items():
        for ms, cost, error in rows:
            print(f"| {name} | {ms} | {cost:.1f} | {cost / ms:.2f} | {error:.2g} |", flush=True)
    for kind in KINDS:
        for window in (2, 10):
            print(
                f"{kind}, soft constraints, N_w = {window}: {soft(kind, window, 3) * 1e6:.1f} µs per step", flush=True
            )
    for count in members:
        print(f"vmap over {count}: {batched(mechanism, count, 3) * 1e6:.2f} µs per member-step", flush=True)
    robot = fgmbs.load(MECHANISMS / "parallel_robot.yaml")
    for rule, dt in (("trapezoidal", 1e-3), ("hermite_simpson", 5e-3)):
        _, seconds = marched(robot, rule, dt, 1000, 3)
        print(f"parallel robot, {rule} {dt * 1e3:g} ms: {seconds * 1e6:.0f} µs per step", flush=True)
    if out is not None:
        figure = Figure(figsize=(6.4, 4.2), layout="constrained")
        axes = figure.add_subplot()
        for (name, rows), marker in zip(curves.items(), "osD", strict=True):
            axes.loglog([c / ms for ms, c, _ in rows], [e for *_, e in rows], marker=marker, label=name)
            for ms, cost, error in rows:
                axes.annotate(f"{ms} ms", (cost / ms, error), xytext=(5, 4), textcoords="offset points", fontsize=8)
        axes.set(xlabel="time per millisecond of motion, one core [µs]", ylabel="RMSE of q over 5 s [mm]")
        axes.grid(True, which="both", alpha=0.25)
        axes.legend(frameon=False)
        figure.savefig(out, dpi=150)


if __name__ == "__main__":
    tyro.cli(main)
