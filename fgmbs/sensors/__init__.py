"""Sensors: what they would read of a motion, and what is unknown about them."""

from fgmbs.sensors.base import AbstractSensor as AbstractSensor
from fgmbs.sensors.base import Reading as Reading
from fgmbs.sensors.channel import Channel as Channel
from fgmbs.sensors.kinds.accelerometer import Accelerometer as Accelerometer
from fgmbs.sensors.kinds.camera import Camera as Camera
from fgmbs.sensors.kinds.distance import Distance as Distance
from fgmbs.sensors.kinds.encoder import Encoder as Encoder
from fgmbs.sensors.kinds.force_torque import ForceTorque as ForceTorque
from fgmbs.sensors.kinds.gyroscope import Gyroscope as Gyroscope
from fgmbs.sensors.kinds.load_cell import LoadCell as LoadCell
from fgmbs.sensors.kinds.position import Position as Position
from fgmbs.sensors.kinds.torque import Torque as Torque
from fgmbs.sensors.kinds.velocity import Velocity as Velocity
