"""What a hand holds, weighed while it moves: a force–torque sensor between flange and tool, and many seeds at once.

    python experiments/wrist_sensor.py [--seeds 32]

An arm of three joints swings freely; its encoders and the sensor in the fixed joint between flange and tool are
recorded, no torque is known. Mass and centre of mass of the tool are identified from each of many recordings with noise
of their own, one by one and as one program (`prepare_identify`, `solve` under `jax.vmap`): both give the same numbers,
and the intervals should hold the truth in 95 % of the seeds.
"""

import time

import jax
import jax.numpy as jnp
import numpy as np
import tyro

import fgmbs
from fgmbs import robots
from fgmbs.sensors import Encoder, ForceTorque

TRUE = {"tool.mass": 0.8, "tool.center.x": 0.02, "tool.center.z": 0.11}
FIRST = {
    "tool.mass": (0.1, 3.0),
    "tool.center.x": fgmbs.Unknown(0.0, sigma=0.1),
    "tool.center.z": fgmbs.Unknown(0.05, sigma=0.1),
}
START = {"turn": 0.3, "lift": 0.9, "bend": -0.6}
SENSORS = (
    *(Encoder(name, of=name, sigma=1e-3) for name in START),
    ForceTorque("wrist", joint="flange", sigma=(0.2, 0.2, 0.2, 0.02, 0.02, 0.02)),
)
INPUTS = (fgmbs.inputs.Disturbance(1e-6),)


def arm(values: dict[str, float]) -> fgmbs.Robot:
    """A pillar that turns, two links, and a tool in a fixed joint that stays separate."""
    rod = (0.02, 0.02, 0.002)
    made = robots.robot(
        robots.link("ground"),
        robots.link("pillar", 4.0, (0, 0, 0.1), (0.02, 0.02, 0.02)),
        robots.link("upper", 2.0, (0, 0, -0.2), rod),
        robots.link("fore", 1.5, (0, 0, -0.15), rod),
        robots.link("tool", 0.3, (0, 0, 0.05), (0.002, 0.002, 0.001)),
        robots.revolute("turn", "ground", "pillar", (0, 0, 1), damping=0.1),
        robots.revolute("lift", "pillar", "upper", (0, 1, 0), xyz=(0.1, 0, 0.3), damping=0.02),
        robots.revolute("bend", "upper", "fore", (0, 1, 0), xyz=(0, 0, -0.4), damping=0.02),
        robots.fixed("flange", "fore", "tool", xyz=(0, 0, -0.3), rpy=(0, np.pi, 0), separate=True),
        name="arm",
    )
    return made.with_parameters(values)


def main(seeds: int = 32) -> None:
    fgmbs.cache()
    real, first = arm(TRUE), arm({})
    motion = fgmbs.simulate(real, 1.0, 5e-3, start=START, start_velocities={"turn": 2.0})
    recordings = [fgmbs.readings(real, motion, SENSORS, seed=seed) for seed in range(seeds)]
    how = dict(free=FIRST, start=START)

    fits, begin = [], 0.0
    for k, recording in enumerate(recordings):
        fits.append(fgmbs.identify(first, recording, SENSORS, INPUTS, **how))
        begin = time.perf_counter() if k == 0 else begin  # without compilation
    each = (time.perf_counter() - begin) / max(seeds - 1, 1)

    problems = [fgmbs.prepare_identify(first, recording, SENSORS, INPUTS, **how) for recording in recordings]
    together = jax.tree.map(lambda *leaves: jnp.stack(leaves), *problems)
    run = jax.jit(jax.vmap(fgmbs.solve)).lower(together).compile()
    begin = time.perf_counter()
    found = jax.block_until_ready(run(together))
    batch = (time.perf_counter() - begin) / seeds

    theta, std = np.asarray(found.theta), np.sqrt(np.diagonal(np.linalg.inv(found.information), axis1=1, axis2=2))
    apart = np.max(np.abs(theta - np.array([fit.theta for fit in fits])) / std)
    print(f"{seeds} seeds, {int(np.sum(found.status == fgmbs.Status.converged))} converged")
    print(
        f"one by one {1e3 * each:.0f} ms each, together {1e3 * batch:.0f} ms; apart by {apart:.1e} standard deviations"
    )
    print(f"{'':16}{'true':>8}{'mean':>9}{'scatter':>9}{'told':>9}{'held by 95 %':>14}")
    for name, value in TRUE.items():
        values = np.array([fit.parameters[name] for fit in fits])
        intervals = np.array([fit.intervals()[name] for fit in fits])
        held = np.mean((intervals[:, 0] < value) & (value < intervals[:, 1]))
        told = np.mean([fit.std[name] for fit in fits])
        print(f"{name:16}{value:8.3f}{values.mean():9.4f}{values.std(ddof=1):9.4f}{told:9.4f}{held:14.1%}")


if __name__ == "__main__":
    tyro.cli(main)
