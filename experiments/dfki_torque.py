"""Torques of the actuated double pendulum from its two encoders alone, beside those that were measured.

    python experiments/dfki_torque.py [--names A0_tracking_75s C1_excite_143339] [--out results/dfki_torque.nc]

Neither measured torques nor commands nor the drives' speeds are used: what turns each joint is an unknown torque that
walks at random by 1 N m in a second, the size that A0_tracking_75s asks for (0.6 to 0.9). In the short excitations
friction is as large as the torques; sizes found from them make torques of noise. What is found is the motor's torque
less friction; the friction of each joint is told afterwards by three numbers (Coulomb, viscous, constant) fitted to the
difference. "Late": the measured torque, the drive's speed come so much after ours.
"""

from pathlib import Path

import numpy as np
import tyro
import xarray as xr
from rigs import dfki
from rigs.estimates import at, lateness, rms, timed
from rigs.figures import draw_torques
from rigs.friction import fitted

import fgmbs
from fgmbs import results
from fgmbs.inputs import RandomWalk
from fgmbs.problems.smooth.smoothed_motion import SmoothedMotion
from fgmbs.sensors import Encoder
from fgmbs.signals.recordings.recording import Signal

JOINTS = "shoulder", "elbow"
SIGMA = 4e-4
"""Of an angle: a step of the encoder, or 0.2 ms by which stamps are off at 2 rad/s [rad]."""
RIGS_A = {"repository": dfki.design_a, "fitted": dfki.fitted_a}
MEASURES = {
    "torque": "N m", "difference": "N m", "no_friction": "N m", "no_delay": "N m", "torque_late": "s", "band": "N m",
    "speed_difference": "rad/s", "speed_no_delay": "rad/s", "speed_late": "s", "rate": "N m/s^0.5",
}  # fmt: skip


def smoothed(window: fgmbs.Recording, rig: dfki.DoublePendulum, rate: float | None) -> tuple[SmoothedMotion, float]:
    """(estimate with the torques of both joints, seconds it took)."""
    encoders = [Encoder(f"{joint}_encoder", of=joint, columns=joint, sigma=SIGMA) for joint in JOINTS]
    return timed(dfki.without_friction(rig), window, encoders, [RandomWalk(joint, rate) for joint in JOINTS])


def compared(motion: SmoothedMotion, window: fgmbs.Recording) -> list[dict[str, float]]:
    """`MEASURES` of each joint."""
    t, rows = np.asarray(motion.t), []
    for k, joint in enumerate(JOINTS):
        torque, speed = np.asarray(motion.forces[:, k]), np.asarray(motion.dq[:, k])
        measured = at(window[f"{joint}_torque"], t)
        _, losses = fitted(speed, measured - torque)
        late, no_delay = lateness(Signal(t, measured - losses), t, torque)
        speed_late, speed_no_delay = lateness(window[f"{joint}_speed"], t, speed)
        values = rms(measured), rms(measured - torque), rms(measured - torque - losses), no_delay, late
        values += float(np.median(motion.forces_std[:, k])), rms(at(window[f"{joint}_speed"], t) - speed)
        rows.append(
            dict(zip(MEASURES, (*values, speed_no_delay, speed_late, float(motion.inputs[k].rate)), strict=True))
        )
    return rows


def main(
    names: tuple[str, ...] = ("A0_tracking_75s", "A0_excite_00", "C1_excite_143339"),
    start: float = 10.0,
    length: float = 20.0,
    rate: float | None = 1.0,
    out: Path = Path("results/dfki_torque.nc"),
) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    print(
        "| recording | parameters | joint | " + " | ".join(f"{name} [{unit}]" for name, unit in MEASURES.items()) + " |"
    )
    print("| --- " * 3 + "| ---: " * len(MEASURES) + "|", flush=True)
    labels, table = [], []
    for name in names:
        recording = dfki.recording(name)
        window = recording.between(start, start + length) if recording.duration > start + length else recording
        designs = {"repository": dfki.design_c} if name.startswith("C1") else RIGS_A
        for parameters, design in designs.items():
            motion, seconds = smoothed(window, design(), rate)
            for joint, row in zip(JOINTS, compared(motion, window), strict=True):
                labels.append(f"{name} {parameters} {joint}")
                table.append(list(row.values()))
                print(f"| {name} | {parameters} | {joint} | " + " | ".join(f"{x:.3g}" for x in table[-1]) + " |")
            print(f"{len(motion.t)} steps, {seconds:.1f} s, {int(motion.iterations)} iterations", flush=True)
            draw_torques(motion, window, out.with_name(f"{out.stem}_{name}_{parameters}.png"))
    columns = zip(MEASURES.items(), np.transpose(table), strict=True)
    variables = {name: ("case", values, {"units": unit}) for (name, unit), values in columns}
    results.write(xr.Dataset(variables, coords={"case": labels}), out)


if __name__ == "__main__":
    tyro.cli(main)
