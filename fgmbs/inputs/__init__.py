"""Forces that a mechanism's description does not tell: commands that were recorded, and unknown ones.

Sizes of unknown forces that are not given, or are `Unknown`, are found from the data.
"""

from fgmbs.inputs.base import AbstractInput as AbstractInput
from fgmbs.inputs.base import check_target as check_target
from fgmbs.inputs.command import Command as Command
from fgmbs.inputs.command import Recorded as Recorded
from fgmbs.inputs.command import RecordedForce as RecordedForce
from fgmbs.inputs.command import commands as commands
from fgmbs.inputs.command import gains_of as gains_of
from fgmbs.inputs.unknown import Disturbance as Disturbance
from fgmbs.inputs.unknown import GaussMarkov as GaussMarkov
from fgmbs.inputs.unknown import RandomWalk as RandomWalk
from fgmbs.inputs.unknown import WhiteNoise as WhiteNoise
from fgmbs.inputs.unknown import augmented as augmented
from fgmbs.inputs.unknown import memory_size as memory_size
from fgmbs.inputs.unknown import remembered as remembered
from fgmbs.inputs.unknown import white as white
