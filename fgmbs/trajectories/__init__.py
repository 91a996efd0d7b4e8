"""Desired motions as smooth functions of time, and their derivatives.

A trajectory is a module that is called with a time: `trajectory(t)` is a number, or a vector of d of them.
"""

from fgmbs.trajectories.piecewise import PiecewisePolynomial as PiecewisePolynomial
from fgmbs.trajectories.polylines import blended_polyline as blended_polyline
from fgmbs.trajectories.polylines import polyline as polyline
from fgmbs.trajectories.samples import Samples as Samples
from fgmbs.trajectories.samples import sample as sample
from fgmbs.trajectories.sinusoids import Sinusoid as Sinusoid
from fgmbs.trajectories.sinusoids import sinusoid as sinusoid
from fgmbs.trajectories.splines import spline as spline
