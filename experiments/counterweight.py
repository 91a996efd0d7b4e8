"""Counterweights for the four-bar linkage by gradient: the peak torque of its motor falls to less than half.

    python experiments/counterweight.py [--steps 200] [--out results/counterweight]

The crank angle is 1.2 (1 − cos 2t). The design is the mass and the arm of the weights behind either pivot; its cost is
a smooth maximum of the torque, (mean |u|^p)^(1/p), and a price on every kilogram, without which a weight grows for ever
nearer to its pivot, where it has no inertia. Adam follows the gradient of inverse dynamics with respect to the design,
which is compiled once and compared with finite differences at the start.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import tyro
import xarray as xr
from fourbar import MECHANISMS
from matplotlib.figure import Figure

import fgmbs
from fgmbs import plots, results

POWER = 20
PRICE = 0.1
"""Of a kilogram [N·m/kg]."""
LONGEST_ARM = 0.6
"""[m]"""
START = {"m_crank": 1.0, "r_crank": 0.3, "m_rocker": 1.0, "r_rocker": 0.3}
NONE = START | {"m_crank": 0.0, "m_rocker": 0.0}
TIMES = np.linspace(0.0, np.pi, 201)


def crank_angle(t):
    """Desired crank angle [rad]."""
    return 1.2 * (1 - jnp.cos(2 * t))


def design_of(x: dict) -> dict:
    """Parameters of the mechanism from unconstrained numbers: masses are positive, arms between 0 and the longest."""
    return {name: jnp.exp(v) if name[0] == "m" else LONGEST_ARM * jax.nn.sigmoid(v) for name, v in x.items()}


def numbers_of(design: dict) -> dict:
    """The inverse of `design_of`."""
    return {
        name: jnp.log(value) if name[0] == "m" else jax.scipy.special.logit(value / LONGEST_ARM)
        for name, value in design.items()
    }


def compile_all(mechanism: fgmbs.PlanarMechanism):
    """(motion of a design, (cost, gradient) of numbers), each compiled once."""

    def motion(design):
        return fgmbs.inverse_dynamics(mechanism.with_parameters(design), TIMES, {"theta": crank_angle})

    def cost(x):
        design = design_of(x)
        u = motion(design).forces[:, 0]
        size = jnp.max(jnp.abs(u))  # so that no power overflows
        peak = size * jnp.mean((jnp.abs(u) / size) ** POWER) ** (1 / POWER)
        return peak + PRICE * (design["m_crank"] + design["m_rocker"])

    return jax.jit(lambda design: motion(design).forces[:, 0]), jax.jit(jax.value_and_grad(cost))


def worst_gradient_error(cost_and_gradient, x: dict, h: float = 1e-4) -> float:
    """Largest difference of the gradient and central differences, relative to the largest derivative."""
    gradient = cost_and_gradient(x)[1]
    errors = []
    for name in x:
        up, down = (cost_and_gradient(x | {name: x[name] + step})[0] for step in (h, -h))
        errors.append(abs((up - down) / (2 * h) - gradient[name]))
    return float(max(errors) / max(abs(value) for value in gradient.values()))


def figure_of(mechanism: fgmbs.PlanarMechanism, design: dict, dataset: xr.Dataset) -> Figure:
    """Torques, the way of the design, and the mechanism with its weights."""
    figure = Figure(figsize=(9.6, 7.2), layout="constrained")
    grid = figure.add_gridspec(2, 2)
    torque, way, stage = (figure.add_subplot(place) for place in (grid[0, :], grid[1, 0], grid[1, 1]))
    for place, name in enumerate(dataset.weights.values):
        torque.plot(dataset.t, dataset["torque"].sel(weights=name), color=plots.COLOURS[place], label=name)
    torque.set(title="(a) torque of the motor", xlabel="time [s]", ylabel="torque [N·m]")
    torque.margins(x=0)
    way.plot(dataset.step, dataset["peak"], color="black", label="largest torque [N·m]")
    for place, name in enumerate(("m_crank", "m_rocker"), 2):
        way.plot(dataset.step, dataset[name], color=plots.COLOURS[place], label=f"{name} [kg]")
    way.set(title="(b) on the way", xlabel="step of Adam", ylim=(0, None))
    q = np.asarray(fgmbs.assemble(mechanism, {"theta": 0.7}))
    points = np.asarray(mechanism.with_parameters(design).point_positions(jnp.asarray(q)))
    A, P1, P2, B = points
    for pivot, end, arm, mass, place in (
        (A, P1, design["r_crank"], design["m_crank"], 2),
        (B, P2, design["r_rocker"], design["m_rocker"], 3),
    ):
        weight = pivot - arm * (end - pivot) / np.linalg.norm(end - pivot)
        stage.plot(*np.stack([weight, pivot]).T, color="#333333", linewidth=3)
        stage.plot(*weight, "o", color=plots.COLOURS[place], markersize=4 * np.sqrt(mass), zorder=3)
        stage.annotate(f"{mass:.1f} kg at {arm:.2f} m", weight, (0, -28), textcoords="offset points", ha="center")
    stage.plot(*points.T, "o-", color="#333333", linewidth=3, markerfacecolor="white", zorder=4)
    stage.plot(*points[[0, 3]].T, "^", color="#666666", markersize=11, zorder=5)
    stage.set(aspect="equal", xlabel="x [m]", ylabel="y [m]", title="(c) counterweights")
    stage.set(xlim=(-1.5, 5.7), ylim=(-1.6, 3.0))
    torque.legend(loc="upper center", framealpha=0.9)
    way.legend(loc="upper right", framealpha=0.9)
    for axes in (torque, way, stage):
        axes.grid(True, alpha=0.3)
    return figure


def main(steps: int = 200, rate: float = 0.1, out: Path = Path("results/counterweight")) -> None:
    mechanism = fgmbs.load(MECHANISMS / "fourbar_counterweight.yaml")
    torque, cost_and_gradient = compile_all(mechanism)
    x = numbers_of(START)
    print(f"gradient against finite differences: {worst_gradient_error(cost_and_gradient, x):.1e} relative")
    adam = optax.adam(optax.cosine_decay_schedule(rate, steps))
    state, way = adam.init(x), []
    for _ in range(steps):
        design = design_of(x)
        way.append({name: float(v) for name, v in design.items()} | {"peak": float(jnp.abs(torque(design)).max())})
        updates, state = adam.update(cost_and_gradient(x)[1], state)
        x = optax.apply_updates(x, updates)
    design = {name: float(value) for name, value in design_of(x).items()}
    print("| weights | m_crank [kg] | r_crank [m] | m_rocker [kg] | r_rocker [m] | largest torque [N·m] |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    torques = {}
    for name, values in (("none", NONE), ("at the start", START), ("by gradient", design)):
        torques[name] = np.asarray(torque(values))
        columns = " | ".join(f"{values[key]:.3f}" for key in START)
        print(f"| {name} | {columns} | {np.abs(torques[name]).max():.2f} |")
    dataset = xr.Dataset(
        {"torque": (("weights", "t"), np.stack(list(torques.values())), {"units": "N·m"})}
        | {name: ("step", [row[name] for row in way]) for name in way[0]},
        coords={"weights": list(torques), "t": ("t", TIMES, {"units": "s"}), "step": np.arange(steps)},
    )
    results.write(dataset, out / "design.nc")
    figure_of(mechanism, design, dataset).savefig(out / "counterweight.png", dpi=150)
    print(out / "counterweight.png")


if __name__ == "__main__":
    tyro.cli(main)
