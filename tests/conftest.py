"""Fixtures shared by all tests."""

import gc
import os
import types
from importlib.metadata import version
from pathlib import Path

if version("jaxlib").startswith("0.10."):
    # Single operations are compiled in half the time by the way of XLA to emit kernels that `fgmbs.compiled.program`
    # chooses for programs, and nothing is gained by compiling one in several threads: tests run side by side. Later
    # versions do not know the first flag, and end the process at an unknown one.
    flags = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags}"

import jax
import jaxtyping
import numpy as np
import pytest
from scipy.integrate import solve_ivp

ROOT = Path(__file__).parents[1]

# Types and shapes are checked at every call, but for what works on the texts of programs, millions of times.
jaxtyping.install_import_hook(
    [f"fgmbs.{room.stem}" for room in (ROOT / "fgmbs").iterdir() if room.stem not in ("__init__", "compiled")],
    "beartype.beartype",
)

import fgmbs
from fgmbs.compiled import store
from fgmbs.compiled.program import forget
from fgmbs.losses import Huber
from fgmbs.sensors import Gyroscope, Position
from fgmbs.unknowns import Unknown

_QUICK = "JAX_DISABLE_MOST_OPTIMIZATIONS"


def pytest_configure(config):
    """Programs are compiled quickly, and kept between runs (see `fgmbs.cache`); in processes of notebooks, too.

    To compile is most of the work of the tests. Slow ones, and all with JAX_DISABLE_MOST_OPTIMIZATIONS=0, run the
    machine code that users run.
    """
    gc.set_threshold(200_000, 50, 100)  # what is traced is hardly ever garbage
    os.environ.setdefault(_QUICK, str(int("not slow" in config.option.markexpr)))
    jax.config.update(_QUICK.lower(), os.environ[_QUICK] not in ("0", "false"))
    folder = fgmbs.cache()
    # Else the whole folder is looked through at every program, one process waiting for the other.
    jax.config.update("jax_compilation_cache_max_size", -1)
    jax.config.update("jax_traceback_in_locations_limit", 0)  # which costs a fortieth of the time
    store.keep_in(None)  # tests also look at what is traced, and with what is within changed
    if folder is not None:
        os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)
        for option in ("jax_persistent_cache_min_compile_time_secs", "jax_compilation_cache_max_size"):
            os.environ[option.upper()] = str(getattr(jax.config, option))


_MANY_PIECES = 30_000
"""Pieces of memory of a process from which on compiled programs are dropped."""


@pytest.fixture(scope="module", autouse=True)
def _forget_programs():
    """Compiled programs of other files: a process may hold 65 530 pieces of memory, then LLVM aborts."""
    yield
    pieces = Path("/proc/self/maps")
    if not pieces.exists() or len(pieces.read_bytes().splitlines()) > _MANY_PIECES:
        forget()
        jax.clear_caches()


@pytest.fixture(scope="module")
def users_code():
    """The machine code that users run, for tests that look at the last digits."""
    quick = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", False)
    forget()
    jax.clear_caches()
    yield
    jax.config.update("jax_disable_most_optimizations", quick)


@pytest.fixture(scope="session")
def _compilations():
    """Names of programs as they are compiled, or read from the cache on disk."""
    names = []

    def note(event, duration, fun_name="", **_):
        if event == "/jax/core/compile/backend_compile_duration":
            names.append(fun_name)

    jax.monitoring.register_event_duration_secs_listener(note)
    yield names
    jax.monitoring.unregister_event_duration_listener(note)


@pytest.fixture
def compiled(_compilations) -> list[str]:
    """Names of the programs that were compiled since; to be cleared where counting shall begin.

    What was compiled before is forgotten: in a process of thousands of programs some are dropped at any time.
    """
    forget()
    jax.clear_caches()
    _compilations.clear()
    return _compilations


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Reference mechanisms and measurements, which do not belong to the project."""
    path = Path(os.environ.get("FGMBS_DATA", ROOT.parent / "shared" / "data"))
    if not path.is_dir():
        pytest.skip(f"no reference data at {path}; set FGMBS_DATA to their folder")
    return path


@pytest.fixture(scope="session")
def configs() -> Path:
    """The mechanisms and experiments that the project ships."""
    return ROOT / "configs"


@pytest.fixture(scope="session")
def swing(configs):
    """A pendulum, a uniform rod of 1 m, that swings from 45 degrees below the horizontal; every 5 ms."""
    t = np.arange(61) * 5e-3
    solution = solve_ivp(
        lambda t, y: (y[1], -1.5 * 9.81 * np.cos(y[0])), (0, t[-1]), (-np.pi / 4, 0), t_eval=t, rtol=1e-10
    )
    theta, rate = solution.y
    q = np.stack([np.cos(theta), np.sin(theta)], axis=1)
    dq = rate[:, None] * np.stack([-q[:, 1], q[:, 0]], axis=1)
    mechanism = fgmbs.load(configs / "mechanisms" / "pendulum.yaml")
    return types.SimpleNamespace(mechanism=mechanism, t=t, q=q, dq=dq)


@pytest.fixture(scope="session")
def estimate(swing):
    """The swing from a camera and a gyroscope with a spike at 0.1 s, with an unknown force on its tip."""
    sensors = (
        Position("cam", point="tip", sigma=2e-3, bias=Unknown(sigma=0.1)),
        Gyroscope("gyro", body="rod", sigma=0.05, loss=Huber()),
    )
    recording = fgmbs.readings(swing.mechanism, swing, sensors, seed=3)
    gyro = recording["gyro"]
    spiked = fgmbs.Recording.of(gyro.t, {"gyro": gyro.values + 5.0 * (np.abs(gyro.t - 0.1) < 1e-6)}, source="swing")
    recording = fgmbs.Recording({**recording.signals, **spiked.signals}, "swing", ("a spike was added",))
    forces = (fgmbs.inputs.RandomWalk("y_tip", 5.0, sigma0=10.0), fgmbs.inputs.Disturbance(1e-3))
    return fgmbs.smooth(swing.mechanism, recording, sensors, forces, start={})
