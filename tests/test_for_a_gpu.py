"""Programs can be compiled for a GPU: they are lowered for one here, where there is none."""

import re

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

import fgmbs
from fgmbs.compiled.program import forget
from fgmbs.inputs import Disturbance
from fgmbs.sensors import Encoder, Gyroscope

SENSORS = (Gyroscope("gyro", body="coupler", sigma=0.02), Encoder("enc", body="crank", sigma=0.01))


def lowered(function, *args) -> str:
    """The program of a function, for CUDA."""
    arrays, rest = eqx.partition(args, eqx.is_array)

    def of_arrays(arrays):
        return eqx.filter(function(*eqx.combine(arrays, rest)), eqx.is_array)

    return jax.jit(of_arrays).trace(arrays).lower(lowering_platforms=("cuda",)).as_text()


def libraries(program: str) -> set[str]:
    """What it calls that XLA does not compile itself."""
    return set(re.findall(r"custom_call @(\w+)", program))


@pytest.fixture
def fourbar(configs):
    return fgmbs.load(configs / "mechanisms" / "fourbar.yaml")


@pytest.fixture
def on_gpu(monkeypatch):
    """From its call on; what was traced so is forgotten."""
    yield lambda: monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    forget()
    jax.clear_caches()


def is_for_a_gpu(program: str) -> bool:
    """Whether nothing in it is for a CPU only."""
    return "xla_cpu" not in program and all(name.startswith("cu") for name in libraries(program))


def test_estimation_and_identification(fourbar, on_gpu):
    motion = fgmbs.simulate(fourbar, 0.05, 1e-3)
    read = fgmbs.readings(fourbar, motion, SENSORS, rates={"gyro": 1000, "enc": 200}, seed=0)
    start = {"start": {"x_P1": 1.0}}
    problems = [
        fgmbs.prepare_smooth(fourbar, read, SENSORS, [Disturbance(1e-2)], **start),
        fgmbs.prepare_identify(fourbar, read, SENSORS, [Disturbance()], free={"coupler.mass": (0.1, 10.0)}, **start),
    ]
    on_gpu()
    for problem in problems:
        assert is_for_a_gpu(lowered(fgmbs.solve, problem))


def test_simulation(fourbar, on_gpu):
    on_gpu()
    for batch in (False, True):
        assert is_for_a_gpu(lowered(lambda mech, batch=batch: fgmbs.simulate(mech, 0.05, 1e-3, batch=batch).q, fourbar))


def test_robots(data_dir, on_gpu):
    robot = fgmbs.load(data_dir / "robots/panda/panda.urdf")
    q = jnp.broadcast_to(robot.home, (8, *robot.home.shape))
    on_gpu()
    for function in (fgmbs.tree.inverse_dynamics, fgmbs.tree.inverse_dynamics_jacobians):
        assert is_for_a_gpu(lowered(lambda r, q, f=function: jax.vmap(lambda q: f(r, q, q, q))(q), robot, q))


def test_a_program_for_this_machine_is_told_from_that(fourbar):
    arrays, rest = eqx.partition(fourbar, eqx.is_array)
    simulated = lambda arrays: fgmbs.simulate(eqx.combine(arrays, rest), 0.05, 1e-3).q
    assert "xla_cpu" in jax.jit(simulated).lower(arrays).as_text()
