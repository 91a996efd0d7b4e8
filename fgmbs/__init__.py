"""fgmbs: motion, forces and parameters of mechanisms, estimated with factor graphs over time."""

import os
from importlib.metadata import version

import jax

if "JAX_ENABLE_X64" not in os.environ:
    jax.config.update("jax_enable_x64", True)

from fgmbs import inputs as inputs
from fgmbs import sensors as sensors
from fgmbs import trajectories as trajectories
from fgmbs.compiled.cache import cache as cache
from fgmbs.dynamics import acceleration as acceleration
from fgmbs.dynamics import energy as energy
from fgmbs.errors import ArgumentError as ArgumentError
from fgmbs.errors import AssemblyError as AssemblyError
from fgmbs.errors import DescriptionError as DescriptionError
from fgmbs.errors import SolveError as SolveError
from fgmbs.errors import Status as Status
from fgmbs.factors.base import Factor as Factor
from fgmbs.factors.base import Noise as Noise
from fgmbs.graph.time_graph import TimeGraph as TimeGraph
from fgmbs.graph.time_graph import Unknowns as Unknowns
from fgmbs.io.experiments.motion_files import read_motion as read_motion
from fgmbs.io.planar.load import load as load
from fgmbs.io.sensor_files import read_sensors as read_sensors
from fgmbs.kinematics import assemble as assemble
from fgmbs.kinematics import sweep as sweep
from fgmbs.mechanisms.planar.mechanism import PlanarMechanism as PlanarMechanism
from fgmbs.problems.driven.driven_motion import DrivenMotion as DrivenMotion
from fgmbs.problems.driven.hybrid_dynamics import hybrid_dynamics as hybrid_dynamics
from fgmbs.problems.driven.hybrid_dynamics import prepare_hybrid_dynamics as prepare_hybrid_dynamics
from fgmbs.problems.driven.inverse_dynamics import inverse_dynamics as inverse_dynamics
from fgmbs.problems.driven.inverse_dynamics import prepare_inverse_dynamics as prepare_inverse_dynamics
from fgmbs.problems.observability import observability as observability
from fgmbs.problems.online.estimator import OnlineEstimator as OnlineEstimator
from fgmbs.problems.online.estimator import online as online
from fgmbs.problems.simulation.arguments import prepare_simulate as prepare_simulate
from fgmbs.problems.simulation.result import Simulation as Simulation
from fgmbs.problems.simulation.simulate import simulate as simulate
from fgmbs.problems.smooth.arguments import prepare_smooth as prepare_smooth
from fgmbs.problems.smooth.problem import SmoothingProblem as SmoothingProblem
from fgmbs.problems.smooth.smooth import smooth as smooth
from fgmbs.problems.smooth.smoothed_motion import SmoothedMotion as SmoothedMotion
from fgmbs.problems.solving import finish as finish
from fgmbs.problems.solving import solve as solve
from fgmbs.recordings.reading import read_recording as read_recording
from fgmbs.recordings.recording import Recording as Recording
from fgmbs.recordings.recording import Signal as Signal
from fgmbs.sensors.readings import readings as readings
from fgmbs.solvers.fixed_lag import FixedLagSmoother as FixedLagSmoother
from fgmbs.solvers.levenberg_marquardt import LevenbergMarquardt as LevenbergMarquardt
from fgmbs.unknowns import Unknown as Unknown

__version__ = version("fgmbs")
