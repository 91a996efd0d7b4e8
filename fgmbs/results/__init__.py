"""Results as labelled datasets, their files, and how they compare with what is known.

A dataset holds everything that its figures show: coordinates, positions of all points, which points each body has, the
mechanism's description and parameters, the settings of the run, how it ended and the versions of what made it.
"""

from fgmbs.results.comparison import energy_drift as energy_drift
from fgmbs.results.comparison import errors as errors
from fgmbs.results.comparison import rmse as rmse
from fgmbs.results.comparison import with_truth as with_truth
from fgmbs.results.contents import STATUSES as STATUSES
from fgmbs.results.dataset import mechanism_of as mechanism_of
from fgmbs.results.dataset import visuals_of as visuals_of
from fgmbs.results.dataset import with_sensitivity as with_sensitivity
from fgmbs.results.estimates import estimate_report as estimate_report
from fgmbs.results.estimates import is_estimate as is_estimate
from fgmbs.results.estimates import sections as sections
from fgmbs.results.estimates import smoothed_report as smoothed_report
from fgmbs.results.files import load_results as load_results
from fgmbs.results.files import write as write
from fgmbs.results.files import written_whole as written_whole
from fgmbs.results.motion import save as save
from fgmbs.results.motion import to_dataset as to_dataset
from fgmbs.results.warnings import warnings as warnings
