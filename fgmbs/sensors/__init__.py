"""Sensors: what they would read of a motion, and what is unknown about them."""

from fgmbs.sensors.accelerometer import Accelerometer as Accelerometer
from fgmbs.sensors.base import AbstractSensor as AbstractSensor
from fgmbs.sensors.base import Reading as Reading
from fgmbs.sensors.channel import Channel as Channel
from fgmbs.sensors.distance import Distance as Distance
from fgmbs.sensors.encoder import Encoder as Encoder
from fgmbs.sensors.gyroscope import Gyroscope as Gyroscope
from fgmbs.sensors.load_cell import LoadCell as LoadCell
from fgmbs.sensors.position import Position as Position
from fgmbs.sensors.torque import Torque as Torque
from fgmbs.sensors.velocity import Velocity as Velocity
