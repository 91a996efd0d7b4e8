"""fgmbs: motion, forces and parameters of mechanisms, estimated with factor graphs over time."""

import importlib
import os
from importlib.metadata import version

import jax

if "JAX_ENABLE_X64" not in os.environ:
    jax.config.update("jax_enable_x64", True)

from fgmbs import inputs, losses, planar, sensors, trajectories
from fgmbs.compiled.cache import cache
from fgmbs.dynamics import acceleration, energy
from fgmbs.errors import ArgumentError, AssemblyError, DescriptionError, FgmbsError, Interrupted, SolveError, Status
from fgmbs.factors.base import Factor, Noise
from fgmbs.factors.priors import prior
from fgmbs.graph.time_graph import TimeGraph, Unknowns
from fgmbs.io.experiments.motion_files import read_motion
from fgmbs.io.planar.load import load
from fgmbs.io.sensor_files import read_sensors
from fgmbs.kinematics import assemble, mobility, sweep, velocities
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.mechanisms.planar.mechanism import PlanarMechanism
from fgmbs.problems.driven.driven_motion import DrivenMotion
from fgmbs.problems.driven.hybrid_dynamics import hybrid_dynamics, prepare_hybrid_dynamics
from fgmbs.problems.driven.inverse_dynamics import inverse_dynamics, prepare_inverse_dynamics
from fgmbs.problems.observability import observability
from fgmbs.problems.online.estimator import OnlineEstimator, online
from fgmbs.problems.simulation.arguments import prepare_simulate
from fgmbs.problems.simulation.result import Simulation
from fgmbs.problems.simulation.simulate import simulate
from fgmbs.problems.smooth.arguments import prepare_smooth
from fgmbs.problems.smooth.problem import SmoothingProblem
from fgmbs.problems.smooth.smooth import smooth
from fgmbs.problems.smooth.smoothed_motion import SmoothedMotion
from fgmbs.problems.solving import finish, solve
from fgmbs.recordings.reading import read_recording
from fgmbs.recordings.recording import Recording, Signal
from fgmbs.sensors.readings import readings
from fgmbs.solvers.fixed_lag import FixedLagSmoother
from fgmbs.solvers.levenberg_marquardt import LevenbergMarquardt
from fgmbs.unknowns import Unknown

__version__ = version("fgmbs")
__all__ = [
    "AbstractMechanism",
    "ArgumentError",
    "AssemblyError",
    "DescriptionError",
    "DrivenMotion",
    "Factor",
    "FgmbsError",
    "FixedLagSmoother",
    "Interrupted",
    "LevenbergMarquardt",
    "Noise",
    "OnlineEstimator",
    "PlanarMechanism",
    "Recording",
    "Signal",
    "Simulation",
    "SmoothedMotion",
    "SmoothingProblem",
    "SolveError",
    "Status",
    "TimeGraph",
    "Unknown",
    "Unknowns",
    "acceleration",
    "assemble",
    "cache",
    "energy",
    "finish",
    "hybrid_dynamics",
    "inputs",
    "inverse_dynamics",
    "load",
    "load_results",
    "losses",
    "mobility",
    "observability",
    "online",
    "planar",
    "plots",
    "prepare_hybrid_dynamics",
    "prepare_inverse_dynamics",
    "prepare_simulate",
    "prepare_smooth",
    "prior",
    "read_motion",
    "read_recording",
    "read_sensors",
    "readings",
    "results",
    "save",
    "sensors",
    "simulate",
    "smooth",
    "solve",
    "sweep",
    "to_dataset",
    "trajectories",
    "velocities",
]
_LATE = {"plots": None, "results": None, "load_results": "results", "save": "results", "to_dataset": "results"}
"""What is imported when it is asked for: it takes a while and needs optional libraries."""


def __dir__() -> list[str]:
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])


def __getattr__(name: str):
    if name not in _LATE:
        raise AttributeError(f"module 'fgmbs' has no attribute {name!r}")
    module = importlib.import_module(f"fgmbs.{_LATE[name] or name}")
    return getattr(module, name) if _LATE[name] else module
