"""Base parameters of an actuated double pendulum, from a slow motion under feedback and from small ones without.

    python experiments/dfki_identification.py [--find] [--out results/dfki_identification]

In A0_tracking_75s a controller leads the arms slowly through all poses. It corrects what friction does to them, so that
free runs leave the recording, and what friction the model lacks shows in the torques alone: the motion is smoothed
together with the numbers, and torques are readings, with errors of the size of that friction, of forces that walk at
random. In A0_excite_00 to 03 small torques move the arms without feedback for ten seconds each: the numbers are those
of free runs of two seconds. Least squares on filtered derivatives, as the README of the recordings has them, find 18 to
33 % less in the small motions than in the slow one.
"""

import time
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import tyro
from jaxtyping import Array, Float
from rigs import dfki
from rigs.dfki import DoublePendulum
from rigs.friction import WIDTH
from scipy.signal import medfilt

import fgmbs
from fgmbs import Unknown
from fgmbs.inputs import Command, Disturbance, RandomWalk
from fgmbs.mechanisms import lagrangian
from fgmbs.sensors import Encoder, Torque
from fgmbs.status import Status

JOINTS = "shoulder", "elbow"
SLOW, SMALL = "A0_tracking_75s", tuple(f"A0_excite_{k:02d}" for k in range(4))
ANGLE, TORQUE, MISSES = 4e-4, 0.1, 1e-2
"""Of an encoder, of what least squares leave of the torques, and of what free runs miss by [rad, N m, rad]."""
WALK = 0.7
"""Of a torque in a second; `dfki_torque.py` finds 0.6 to 0.9 in the slow motion, without a torque read [N m/√s]."""
LEAST_SQUARES = {SLOW: (0.0863, 0.1158, 0.0195, 0.3295), SMALL: (0.069, 0.081, 0.016, 0.220)}
"""On filtered derivatives, as the recordings' README has them."""


class Worn(DoublePendulum):
    """With friction that grows with the load of a joint, and a constant torque."""

    load: Float[Array, "2"] = eqx.field(converter=dfki.as_array, default=(0.0, 0.0))
    """Coulomb friction per moment of the weight."""
    offset: Float[Array, "2"] = eqx.field(converter=dfki.as_array, default=(0.0, 0.0))
    """[N·m]"""

    def forces(self, q, dq, t):
        weight = jnp.sqrt(jax.grad(self.potential)(q) ** 2 + 1e-4)
        friction = fgmbs.Friction(self.viscous, self.coulomb + self.load * weight, width=WIDTH)
        return lagrangian.forces(self.kinetic, self.potential, q, dq) - friction(dq) - self.offset


def worn() -> Worn:
    rig = dfki.fitted_a()
    numbers = {name: getattr(rig, name) for name in ("l1", "masses", "centres", "inertias", "rotor", "gravity")}
    return Worn(**numbers, viscous=(5e-3, 5e-3), coulomb=(0.1, 0.1), load=(0.02, 0.02), offset=(0.0, 0.0))


def thinned(name: str, every: int) -> fgmbs.Recording:
    """Every so many samples, without the spikes of the torques."""
    read = dfki.recording(name)
    t = read[JOINTS[0]].t
    signals = {joint: read[joint].values[::every] for joint in JOINTS}
    signals |= {f"{joint}_torque": medfilt(read[f"{joint}_torque"].values, 7)[::every] for joint in JOINTS}
    units = {name: "N m" if name.endswith("torque") else "rad" for name in signals}
    return fgmbs.Recording.of(t[::every] - t[0], signals, source=name, units=units)


def identified(recordings, sensors, inputs, **options) -> fgmbs.Identification:
    rig, few = worn(), (0.0, 0.0)
    of_arms = {key: getattr(rig, key) for key in ("centres", "inertias")}
    free = {key: Unknown(x, lower=0.1 * x, upper=10 * x) for key, x in of_arms.items()}
    free |= {key: Unknown(getattr(rig, key), lower=few, upper=(1.0, 1.0)) for key in ("viscous", "coulomb", "load")}
    free["offset"] = Unknown(few, lower=(-0.5, -0.5), upper=(0.5, 0.5))
    return fgmbs.identify(rig, recordings, sensors, inputs, free=free, throw=False, **options)


def from_slow(find: bool) -> fgmbs.Identification:
    torque, walk = (Unknown(TORQUE), Unknown(WALK)) if find else (TORQUE, WALK)
    sensors = [Encoder(joint, of=joint, sigma=ANGLE) for joint in JOINTS]
    sensors += [Torque(f"{joint}_torque", of=joint, sigma=torque) for joint in JOINTS]
    walks = [RandomWalk(joint, walk, name=f"{joint}_drive") for joint in JOINTS]
    return identified(thinned(SLOW, 6), sensors, walks)


def from_small() -> fgmbs.Identification:
    sensors = [Encoder(joint, of=joint, sigma=MISSES) for joint in JOINTS]
    drives = [Command(joint, f"{joint}_torque", hold="linear", name=f"{joint}_drive") for joint in JOINTS]
    recordings = [thinned(name, 2) for name in SMALL]
    return identified(recordings, sensors, [*drives, Disturbance()], method="prediction", horizon=2.0)


def base_parameters(fit: fgmbs.Identification) -> dict[str, tuple[float, float]]:
    """(value, standard deviation) of each [kg m², kg m, kg m², kg m]; they are linear in what was free."""
    rig = fit.mechanism
    (m1, m2), l1 = np.asarray(rig.masses), float(rig.l1)
    (c1, c2), (i1, i2) = np.asarray(rig.centres), np.asarray(rig.inertias)
    std = {name: fit.scale * value for name, value in fit.std.items()}
    return {
        "I1 + m2 l1²": (i1 + m2 * l1**2, std["inertias[0]"]),
        "m2 r2": (m2 * c2, m2 * std["centres[1]"]),
        "I2": (i2, std["inertias[1]"]),
        "m1 r1 + m2 l1": (m1 * c1 + m2 * l1, m1 * std["centres[0]"]),
    }


def main(find: bool = False, out: Path = Path("results/dfki_identification")) -> None:
    """
    Args:
        find: Errors of torques, and how fast they walk, are found from the slow motion, too.
        out: Folder for the reports.
    """
    fgmbs.cache()
    out.mkdir(parents=True, exist_ok=True)
    fits = {}
    for name, fitted in (("slow", lambda: from_slow(find)), ("small", from_small)):
        begin = time.perf_counter()
        fits[name] = fit = fitted()
        (out / f"{name}.txt").write_text(fit.report())
        print(
            f"{name}: {Status[fit.status]}, {fit.iterations} iterations, {time.perf_counter() - begin:.0f} s",
            flush=True,
        )
    slow, small = (base_parameters(fits[name]) for name in ("slow", "small"))
    print("\n| base parameter | slow, smoothed | small, free runs | differ by | least squares differ by |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name, *simple in zip(slow, *LEAST_SQUARES.values(), strict=True):
        (a, of_a), (b, of_b) = slow[name], small[name]
        apart = f"{100 * (b / a - 1):+.1f} % | {100 * (simple[1] / simple[0] - 1):+.0f} %"
        print(f"| {name} | {a:.4f} ± {of_a:.4f} | {b:.4f} ± {of_b:.4f} | {apart} |")


if __name__ == "__main__":
    tyro.cli(main)
