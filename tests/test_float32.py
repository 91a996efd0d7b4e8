"""32-bit floats, for who asks JAX for them: motions and forces to their digits; estimates are refused."""

import json
import os
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest

import fgmbs

PROGRAM = """
import json, sys
import jax.numpy as jnp
import numpy as np
import fgmbs
from fgmbs.sensors import Encoder

falling, driven = (fgmbs.load(path) for path in sys.argv[1:])
t = np.arange(33) * 0.02
motion = fgmbs.simulate(falling, 0.32, 1e-2)
forces = fgmbs.inverse_dynamics(driven, t, {"theta": lambda t: 1.2 * (1 - jnp.cos(2 * t))})
assert motion.q.dtype == forces.forces.dtype == jnp.float32
sensors, refused = [Encoder("enc", body="crank", sigma=1e-3)], []
recording = fgmbs.Recording.of(t, {"enc": 0.0 * t})
for estimate in (lambda: fgmbs.smooth(falling, recording, sensors), lambda: fgmbs.online(falling, sensors, dt=0.02)):
    try:
        estimate()
    except fgmbs.ArgumentError as error:
        refused.append(str(error))
found = {"q": motion.q, "forces": forces.forces}
print(json.dumps({name: np.asarray(values).tolist() for name, values in found.items()} | {"refused": refused}))
"""


@pytest.mark.slow
def test_motions_and_forces_have_their_digits_and_estimates_are_refused(configs):
    files = [configs / "mechanisms" / name for name in ("fourbar.yaml", "fourbar_counterweight.yaml")]
    command = [sys.executable, "-c", PROGRAM, *map(str, files)]
    done = subprocess.run(command, env=os.environ | {"JAX_ENABLE_X64": "0"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    falling, driven = map(fgmbs.load, files)
    motion = fgmbs.simulate(falling, 0.32, 1e-2)
    np.testing.assert_allclose(found["q"], motion.q, atol=1e-5)
    wanted = {"theta": lambda t: 1.2 * (1 - jnp.cos(2 * t))}
    forces = np.asarray(fgmbs.inverse_dynamics(driven, np.arange(33) * 0.02, wanted).forces)
    np.testing.assert_allclose(found["forces"], forces, atol=1e-4 * np.max(np.abs(forces)))
    assert len(found["refused"]) == 2 and all("expected 64-bit floats" in text for text in found["refused"])
