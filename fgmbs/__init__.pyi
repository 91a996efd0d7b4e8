"""What `fgmbs` has, and where it is; imported when it is asked for."""

from . import inputs, losses, planar, plots, results, robots, sensors, tree
from .compiled.cache import cache
from .dynamics import acceleration, energy
from .errors import ArgumentError, AssemblyError, DescriptionError, FgmbsError, Interrupted, SolveError
from .factors.base import Factor, Noise
from .factors.priors import prior
from .graph.time_graph import TimeGraph, Unknowns
from .io.experiments.motion_files import read_motion
from .io.load import load
from .io.sensor_files import read_sensors
from .kinematics import assemble, mobility, sweep, velocities
from .mechanisms.base import AbstractMechanism
from .mechanisms.friction import Friction
from .mechanisms.motor import Motor
from .mechanisms.planar.mechanism import PlanarMechanism
from .mechanisms.tree.robot import Robot, robot
from .problems.design.excitation import design_excitation
from .problems.design.result import ExcitationDesign
from .problems.driven.driven_motion import DrivenMotion
from .problems.driven.hybrid_dynamics import hybrid_dynamics, prepare_hybrid_dynamics
from .problems.driven.inverse_dynamics import inverse_dynamics, prepare_inverse_dynamics
from .problems.identify.comparison import Comparison, compare_models
from .problems.identify.cross_validation import CrossValidation, cross_validate
from .problems.identify.free_runs.segments import prediction_loss
from .problems.identify.free_runs.validation import FreeRun, free_run
from .problems.identify.identify import identify, prepare_identify
from .problems.identify.result import Identification
from .problems.observability import observability
from .problems.online.estimator import OnlineEstimator, online
from .problems.questions import finish, solve
from .problems.simulation.arguments import prepare_simulate
from .problems.simulation.result import Simulation
from .problems.simulation.simulate import simulate
from .problems.smooth.arguments import prepare_smooth
from .problems.smooth.problem import SmoothingProblem
from .problems.smooth.smooth import smooth
from .problems.smooth.smoothed_motion import SmoothedMotion
from .results import load_results, save, to_dataset
from .sensors.readings import readings
from .signals import trajectories
from .signals.recordings.reading import read_recording
from .signals.recordings.recording import Recording, Signal
from .solvers.fixed_lag import FixedLagSmoother
from .solvers.levenberg_marquardt import LevenbergMarquardt
from .status import Status
from .unknowns import Unknown

__version__: str
__all__ = [
    "AbstractMechanism",
    "ArgumentError",
    "AssemblyError",
    "DescriptionError",
    "DrivenMotion",
    "ExcitationDesign",
    "Factor",
    "FgmbsError",
    "FixedLagSmoother",
    "FreeRun",
    "Friction",
    "Identification",
    "Interrupted",
    "LevenbergMarquardt",
    "Motor",
    "Noise",
    "OnlineEstimator",
    "PlanarMechanism",
    "Recording",
    "Robot",
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
    "design_excitation",
    "energy",
    "finish",
    "compare_models",
    "Comparison",
    "cross_validate",
    "CrossValidation",
    "free_run",
    "hybrid_dynamics",
    "identify",
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
    "prediction_loss",
    "prepare_hybrid_dynamics",
    "prepare_identify",
    "prepare_inverse_dynamics",
    "prepare_simulate",
    "prepare_smooth",
    "prior",
    "read_motion",
    "read_recording",
    "read_sensors",
    "readings",
    "results",
    "robot",
    "robots",
    "save",
    "sensors",
    "simulate",
    "smooth",
    "solve",
    "sweep",
    "to_dataset",
    "trajectories",
    "tree",
    "velocities",
]
