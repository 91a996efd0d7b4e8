"""Friction of the Furuta pendulum from its encoders, as an unknown torque with its band.

    python experiments/furuta_friction.py [--starts 4 20] [--length 8] [--out results/furuta_friction.nc]

free_2024: the torque on the pendulum's joint wanders about 0 as friction may (0.1 mN·m, 0.3 s), and its mean is found
by speed. What it takes from the pendulum must be the energy that the angles alone say was lost. Speeds and
accelerations of the first 4 s are compared with the fitted motion of furuta_differences.py, as the filters there are.
sine_4V: the torque on the arm beside that of the motor, a known gain by the recorded voltage.
"""

from pathlib import Path

import equinox as eqx
import numpy as np
import tyro
import xarray as xr
from furuta_differences import DT, WINDOWS, fitted, rates
from rigs import furuta
from rigs.estimates import at, lateness, rms, timed
from rigs.figures import draw_friction
from rigs.friction import by_speed, losses
from scipy.signal import savgol_filter

import fgmbs
from fgmbs import results
from fgmbs.inputs import Command, Disturbance, GaussMarkov, RandomWalk
from fgmbs.problems.smooth.smoothed_motion import SmoothedMotion
from fgmbs.sensors import Encoder

SPEEDS = np.array([-20, -10, -5, -2, -1, -0.3, 0.3, 1, 2, 5, 10, 20])
"""Bounds within which friction is averaged [rad/s]."""


def smoothed(window: fgmbs.Recording, joint: str, inputs: list) -> tuple[SmoothedMotion, fgmbs.Recording, float]:
    """(estimate without a model of the friction of a joint, its recording, seconds it took)."""
    rig, place = furuta.Furuta(), ("arm", "pendulum").index(joint)
    none = [leaf.at[place].set(0.0) for leaf in (rig.viscous, rig.coulomb, rig.drag)]
    rig = eqx.tree_at(lambda r: (r.viscous, r.coulomb, r.drag), rig, none)
    # Stamps that are off by 0.1 ms count for more than steps of the encoder.
    arm = Encoder("arm_encoder", of="arm", columns="arm", sigma=4e-4)
    bias = fgmbs.Unknown(sigma=0.02)
    pendulum = Encoder("pendulum_encoder", of="pendulum", columns="pendulum", sigma=1e-3, bias=bias)
    start = {name: window[name].values[0] for name in ("arm", "pendulum")}
    speeds = {name: window[f"{name}_speed"].values[0] for name in start}
    motion, seconds = timed(rig, window, [arm, pendulum], inputs, start=start, start_velocities=speeds)
    return motion, window, seconds


def energies(motion: SmoothedMotion, window: fgmbs.Recording) -> dict[str, float]:
    """What the pendulum lost from one end of the window to the other by its angles, and what friction took [J].

    The mechanical energy is that of filtered angles, a mean over half a second at both ends.
    """
    rig, t = motion.mechanism, np.asarray(motion.t)
    inertia, weight = float(rig.J2 + rig.m2 * rig.l2**2), float(rig.m2 * rig.gravity * rig.l2)
    angle = at(window["pendulum"], t) - float(motion.unknowns["pendulum_encoder.bias"][0])
    energy = inertia / 2 * savgol_filter(angle, 15, 3, deriv=1, delta=DT) ** 2 - weight * np.cos(angle)
    work = np.cumsum(np.asarray(motion.forces[:, 0] * motion.dq[:, 1])) * DT
    first, last = slice(25, 275), slice(-275, -25)
    return {"lost": np.mean(energy[first]) - np.mean(energy[last]), "taken": np.mean(work[first]) - np.mean(work[last])}


def errors(motion: SmoothedMotion, window: fgmbs.Recording) -> dict[str, tuple[float, float]]:
    """Errors of the pendulum's (speed, acceleration) from a motion fitted to 4 s, ours and those of filters."""
    angle, drive = (window[name] for name in ("pendulum", "pendulum_speed"))
    count = int(np.searchsorted(angle.t, window.start + 4))
    turns = 2 * np.pi * np.round(np.median(angle.values) / (2 * np.pi))
    unknowns, state = fitted(angle.t[:count], angle.values[:count] - turns, drive.values[0])
    t = np.arange(angle.t[0], angle.t[count - 1], DT)
    truth = [state[1], [rates(0, x, *unknowns[:5])[1] for x in state.T]]
    speed, acceleration = (np.interp(t, angle.t[:count], x) for x in truth)
    inner = slice(max(WINDOWS), -max(WINDOWS))

    def of(*pair) -> tuple[float, float]:
        return rms((pair[0] - speed)[inner]), rms((pair[1] - acceleration)[inner])

    ours = (np.interp(t, motion.t, x[:, 1]) for x in (motion.dq, motion.ddq))
    sampled = at(angle, t)
    filters = {n: [savgol_filter(sampled, n, 3, deriv=k, delta=DT) for k in (1, 2)] for n in WINDOWS}
    late, timely = lateness(drive, t[inner], speed[inner])
    drive_error = rms((at(drive, t) - speed)[inner])
    return {
        "smoothed": of(*ours),
        **{f"Savitzky-Golay {n}": of(*pair) for n, pair in filters.items()},
        f"drive, {1e3 * late:.1f} ms late": (drive_error, np.nan),
        "drive without that": (timely, np.nan),
    }


def free(start: float, length: float) -> tuple[SmoothedMotion, fgmbs.Recording, float]:
    """The pendulum swings, the arm is at rest."""
    window = furuta.recording("free_2024").between(start, start + length)
    friction = GaussMarkov("pendulum", 1e-4, time_constant=0.3, name="friction")
    return smoothed(window, "pendulum", [friction, RandomWalk("arm", 0.03, name="support")])


def driven(power: float = 1e-4) -> tuple[SmoothedMotion, fgmbs.Recording, float]:
    """The motor turns the arm to and fro; white forces of a power [W] are left to what the model lacks."""
    window = furuta.recording("sine_4V")
    motor = Command("motor", "u", gain=furuta.Furuta().motor_gain)
    return smoothed(window, "arm", [RandomWalk("arm", name="friction"), motor, Disturbance(power)])


def main(
    starts: tuple[float, ...] = (4.0, 20.0), length: float = 8.0, out: Path = Path("results/furuta_friction.nc")
) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    rig, variables = furuta.Furuta(), {}
    cases = [(f"free_2024_{start:g}", 1, free(start, length)) for start in starts] + [("sine_4V", 0, driven())]
    for name, joint, (motion, window, seconds) in cases:
        known = np.array([rig.viscous[joint], rig.coulomb[joint], rig.drag[joint]])
        values = (np.asarray(x) for x in (motion.dq[:, joint], motion.forces[:, 0], motion.forces_std[:, 0]))
        rows = by_speed(*values, SPEEDS)
        print(f"\n{name}: {len(motion.t)} steps, {seconds:.1f} s, {int(motion.iterations)} iterations\n")
        print("| speed [rad/s] | friction [mN m] | scatter | band | known model | steps |\n| " + "---: | " * 6)
        for speed, torque, scatter, band, steps in rows:
            numbers = "".join(f"| {1e3 * x:.4f} " for x in (torque, scatter, band, -losses(speed, *known)))
            print(f"| {speed:.2f} {numbers}| {steps:.0f} |")
        if joint:
            energy = energies(motion, window)
            print(f"\nenergy: {1e3 * energy['lost']:.4f} mJ lost, {1e3 * energy['taken']:.4f} mJ taken by friction")
        late, timely = lateness(
            window[f"{('arm', 'pendulum')[joint]}_speed"], np.asarray(motion.t), np.asarray(motion.dq[:, joint])
        )
        print(f"the drive's speed comes {1e3 * late:.1f} ms late; without that {timely:.3f} rad/s from ours")
        if name == "free_2024_4":
            print("\n| | error of speed [rad/s] | of acceleration [rad/s²] |\n| --- | ---: | ---: |")
            for what, (speed, acceleration) in errors(motion, window).items():
                print(f"| {what} | {speed:.3f} | {acceleration:.2f} |")
        columns = {"speed": "rad/s", "friction": "N m", "scatter": "N m", "band": "N m", "steps": "1"}
        for column, unit, values in zip(columns, columns.values(), rows.T, strict=True):
            variables[f"{name}_{column}"] = (f"{name}_bin", values, {"units": unit})
        draw_friction(motion, joint, rows, known, out.with_name(f"{out.stem}_{name}.png"))
    results.write(xr.Dataset(variables), out)


if __name__ == "__main__":
    tyro.cli(main)
