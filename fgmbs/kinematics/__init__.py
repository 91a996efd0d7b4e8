"""Positions, velocities, accelerations, degrees of freedom and the range of motion."""

from fgmbs.kinematics.assembly import assemble as assemble
from fgmbs.kinematics.closure import Closure as Closure
from fgmbs.kinematics.mobility import Mobility as Mobility
from fgmbs.kinematics.mobility import degrees_of_freedom as degrees_of_freedom
from fgmbs.kinematics.mobility import mobility as mobility
from fgmbs.kinematics.mobility import redundant_rows as redundant_rows
from fgmbs.kinematics.motion_range import DeadPointError as DeadPointError
from fgmbs.kinematics.motion_range import sweep as sweep
from fgmbs.kinematics.position import PositionInfo as PositionInfo
from fgmbs.kinematics.position import solve_position as solve_position
from fgmbs.kinematics.tracking import track as track
from fgmbs.kinematics.velocity import solve_acceleration as solve_acceleration
from fgmbs.kinematics.velocity import solve_velocity as solve_velocity
from fgmbs.kinematics.velocity import velocities as velocities
