"""A rod that swings under a known torque, as the tests of identification measure it."""

import numpy as np

import fgmbs
from fgmbs import planar
from fgmbs.inputs import Command, Disturbance
from fgmbs.sensors import Encoder

START = {"theta": -0.8}
INPUTS = (Command("motor", "u", hold="linear"), Disturbance(1e-5))
T = np.arange(201) * 1e-2
TORQUE = 4 * np.sin(3 * T)


def rod(mass=2.0, I0=0.501, *parts):
    """A rod of 1 m from its pivot on, its centre in the middle."""
    return planar.mechanism(
        planar.point("pivot", 0, 0, fixed=True),
        planar.point("tip", 1.0, 0.0),
        planar.body("rod", "pivot", "tip", length=1.0, mass=mass, I0=I0, cog=(0.5, 0)),
        planar.absolute_angle("theta", "pivot", "tip"),
        planar.actuator("motor", angle="theta"),
        *parts,
    )


def measured(mechanism, sigma, seed, torque=TORQUE, sensors=None, start=START, every=1):
    """(sensors, recording) of its motion, read at every so many steps; between them the torque is straight."""
    t, torque = T[::every], torque[::every]
    motion = fgmbs.hybrid_dynamics(mechanism, T, forces={"motor": np.interp(T, t, torque)}, start=start)
    sensors = sensors or (Encoder("enc", of="theta", sigma=sigma),)
    recording = fgmbs.readings(
        mechanism, motion, sensors, rates={sensor.name: 100 / every for sensor in sensors}, seed=seed
    )
    return sensors, recording.merged(fgmbs.Recording.of(t, {"u": torque}, source="motor"))
