"""Sensitivities of the inverse dynamics of a human of 43 degrees of freedom, in closed form and by differences.

    python experiments/robot_sensitivities.py [--data ../shared/data] [--out results/robot_sensitivities]

The tree is that of [RID23] eqs (18)–(20); lengths and inertias, which the paper's text lacks, are those of the file
`robots/human43/human43_synthetic.urdf`. Along the paper's trajectory, q_i = sin 2πt for 3 s in steps of 10 ms, all
3 × 43² derivatives of the joint forces are found by

- the closed form of `fgmbs.tree.inverse_dynamics_jacobians`,
- the 4×4 Lagrangian recursion of the paper, eqs (10)–(17),
- automatic differentiation of the recursion of eqs (5)–(9), forwards,
- adaptive differences as the paper's (its [14]): central ones of steps 100 · 2⁻ᵏ relative to the coordinate,
  k = 0 … 25, extrapolated twice, of which the one with the least change is taken,
- central differences of one step, 1e-5.

The figures show the entries of the paper's Figs 4 and 5 with their errors, and Fig. 6. Where a coordinate passes zero,
steps relative to it drown in rounding: q = sin π is 1e-16 and not 0. These are the spikes of Fig. 5.
"""

import os
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import tyro
import xarray as xr
from matplotlib.figure import Figure

import fgmbs
from fgmbs import results
from fgmbs.mechanisms.tree.lagrangian import recursion

TIMES = np.linspace(0.0, 3.0, 301)
ENTRIES = ((20, "q", 5), (30, "dq", 25), (42, "ddq", 22), (18, "q", 14), (18, "dq", 14), (18, "ddq", 14))
"""Force, what it is derived by, and which; counted from 1, as in the paper."""
SYMBOLS = {"q": "q", "dq": r"\dot q", "ddq": r"\ddot q"}


def trajectory() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """q, q̇ and q̈ of all joints."""
    omega, ones = 2 * np.pi, np.ones(43)
    q = np.outer(np.sin(omega * TIMES), ones)
    return q, omega * np.outer(np.cos(omega * TIMES), ones), -(omega**2) * q


def adaptive_differences(forces, motion, which: int, j):
    """∂(forces)/∂(motion[which][j]) by central differences of many steps, twice extrapolated."""
    x = motion[which][j]
    steps = jnp.where(x == 0, 1.0, x) * 100.0 * 2.0 ** -jnp.arange(26.0)

    def slope(step):
        up, down = (
            tuple(part.at[j].add(sign * step) if k == which else part for k, part in enumerate(motion))
            for sign in (1, -1)
        )
        return (forces(*up) - forces(*down)) / (2 * step)

    D = jax.lax.map(slope, steps)
    D = (4 * D[1:] - D[:-1]) / 3
    D = (16 * D[1:] - D[:-1]) / 15
    best = jnp.argmin(jnp.abs(jnp.diff(D, axis=0)), axis=0)
    return jnp.take_along_axis(D[1:], best[None], axis=0)[0]


def central_differences(forces, motion, which: int, j, step: float = 1e-5):
    """The same by one step."""
    up, down = (
        tuple(part.at[j].add(sign * step) if k == which else part for k, part in enumerate(motion)) for sign in (1, -1)
    )
    return (forces(*up) - forces(*down)) / (2 * step)


def by_differences(forces, estimate):
    """The three Jacobians of one instant by an estimate of single columns."""

    def jacobians(*motion):
        columns = jnp.arange(motion[0].size)
        return tuple(jax.lax.map(lambda j, k=k: estimate(forces, motion, k, j), columns).T for k in range(3))

    return jacobians


def timed(function, motion) -> tuple[list[np.ndarray], float, float]:
    """(Jacobians, seconds to compile, seconds of the best of three runs)."""
    start = time.perf_counter()
    program = jax.jit(function).lower(*motion).compile()
    compiling, runs = time.perf_counter() - start, []
    for _ in range(3):
        start = time.perf_counter()
        found = jax.block_until_ready(program(*motion))
        runs.append(time.perf_counter() - start)
        if runs[-1] > 10.0:
            break
    return [np.asarray(part) for part in found], compiling, min(runs)


def figure_of(dataset: xr.Dataset) -> Figure:
    """Entries of Figs 4 and 5: values on the left, errors of differences on the right."""
    figure = Figure(figsize=(11, 14), layout="constrained")
    for row, (axes, (i, by, m)) in enumerate(zip(figure.subplots(6, 2, sharex=True), ENTRIES, strict=True)):
        exact = dataset["closed form"][row]
        axes[0].plot(TIMES, dataset["adaptive differences"][row], color="tab:orange", label="adaptive differences")
        axes[0].plot(TIMES, exact, color="black", lw=1, label="closed form")
        size = float(np.abs(exact).max())
        axes[0].set_ylim(
            *(np.array([float(exact.min()), float(exact.max())]) + np.array([-0.3, 0.3]) * max(size, 1e-9))
        )
        axes[0].set_ylabel(rf"$\partial Q_{{{i}}}/\partial {SYMBOLS[by]}_{{{m}}}$")
        colors = {"adaptive differences": "tab:orange", "central differences": "tab:blue", "recursion": "black"}
        for name, color in colors.items():
            error = np.abs(dataset[name][row] - exact)
            axes[1].semilogy(TIMES, error.where(error > 0), color=color, lw=1, label=name)
        axes[1].set_ylabel("error against the closed form")
        for axis in axes:
            axis.grid(alpha=0.3)
    figure.axes[0].legend(loc="upper right")
    figure.axes[1].legend(loc="upper right")
    for axis in figure.axes[-2:]:
        axis.set_xlabel("t [s]")
    return figure


def motion_figure(Q: np.ndarray) -> Figure:
    """Fig. 6: coordinates, a velocity, and forces."""
    q, dq, _ = trajectory()
    figure = Figure(figsize=(8, 6), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True)
    upper.plot(TIMES, q[:, 4], label=r"$q_5 = q_{14}$ [rad, m]")
    upper.plot(TIMES, dq[:, 24] / 10, label=r"$\dot q_{25}/10$ [rad/s]")
    for number in (18, 20, 30):
        lower.plot(TIMES, Q[:, number - 1], label=rf"$Q_{{{number}}}$")
    lower.set(xlabel="t [s]", ylabel="joint force [N m]")
    for axis in (upper, lower):
        axis.legend(loc="upper right")
        axis.grid(alpha=0.3)
    return figure


def main(data: Path | None = None, out: Path = Path("results/robot_sensitivities")) -> None:
    data = data or Path(os.environ.get("FGMBS_DATA", "../shared/data"))
    robot = fgmbs.load(data / "robots" / "human43" / "human43_synthetic.urdf")
    tree = recursion.of_robot(robot)
    none = recursion.Loads(*(jnp.zeros((43, 3)) for _ in range(3)))

    def forces(q, dq, ddq):
        return recursion.inverse_dynamics(tree, q, dq, ddq, none)

    def each(jacobians):
        return lambda *motion: jax.lax.map(lambda one: jacobians(*one), motion)

    def closed(q, dq, ddq):
        return fgmbs.tree.inverse_dynamics_jacobians(robot, q, dq, ddq)

    def newton_euler(q, dq, ddq):
        return fgmbs.tree.inverse_dynamics(robot, q, dq, ddq)

    methods = {
        "closed form": jax.vmap(closed),
        "recursion": each(lambda *one: recursion.inverse_dynamics_jacobians(tree, *one, none)),
        "AD of the recursion": each(jax.jacfwd(forces, argnums=(0, 1, 2))),
        "central differences": each(by_differences(newton_euler, central_differences)),
        "adaptive differences": each(by_differences(newton_euler, adaptive_differences)),
    }
    motion = trajectory()
    exact, kept = None, {}
    print("| method | ∂Q/∂q | ∂Q/∂q̇ | ∂Q/∂q̈ | compile [s] | 301 samples [ms] |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name, method in methods.items():
        found, compiling, seconds = timed(method, motion)
        exact = found if exact is None else exact
        errors = [np.abs(a - b).max() / np.abs(b).max() for a, b in zip(found, exact, strict=True)]
        shown = " | ".join(f"{error:.1e}" for error in errors)
        print(f"| {name} | {shown} | {compiling:.1f} | {1e3 * seconds:.1f} |", flush=True)
        parts = dict(zip(("q", "dq", "ddq"), found, strict=True))
        kept[name] = np.stack([parts[by][:, i - 1, m - 1] for i, by, m in ENTRIES])
    print("errors: the largest of all times and entries, relative to the largest entry of the closed form")
    names = [f"Q{i}_{by}{m}" for i, by, m in ENTRIES]
    coordinates = {"entry": names, "t": ("t", TIMES, {"units": "s"})}
    dataset = xr.Dataset({name: (("entry", "t"), values) for name, values in kept.items()}, coords=coordinates)
    results.write(dataset, out / "sensitivities.nc")
    figure_of(dataset).savefig(out / "sensitivities.png", dpi=110)
    motion_figure(np.asarray(jax.jit(jax.vmap(forces))(*motion))).savefig(out / "motion.png", dpi=110)
    print(out / "sensitivities.png")


if __name__ == "__main__":
    tyro.cli(main)
