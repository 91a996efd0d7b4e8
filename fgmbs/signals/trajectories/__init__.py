"""Desired motions as smooth functions of time, and their derivatives.

A trajectory is a module that is called with a time: `trajectory(t)` is a number, or a vector of d of them.
"""

from fgmbs.signals.trajectories.piecewise import PiecewisePolynomial as PiecewisePolynomial
from fgmbs.signals.trajectories.polylines import blended_polyline as blended_polyline
from fgmbs.signals.trajectories.polylines import polyline as polyline
from fgmbs.signals.trajectories.samples import Samples as Samples
from fgmbs.signals.trajectories.samples import sample as sample
from fgmbs.signals.trajectories.sinusoids import Sinusoid as Sinusoid
from fgmbs.signals.trajectories.sinusoids import sinusoid as sinusoid
from fgmbs.signals.trajectories.splines import spline as spline
