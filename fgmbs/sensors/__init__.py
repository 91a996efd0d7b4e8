"""Sensors: what they would read of a motion, and what is unknown about them."""

from fgmbs.sensors.base import AbstractSensor as AbstractSensor
from fgmbs.sensors.base import Reading as Reading
from fgmbs.sensors.channel import Channel as Channel
from fgmbs.sensors.channel import Unknown as Unknown
from fgmbs.sensors.encoder import Encoder as Encoder
from fgmbs.sensors.gyroscope import Gyroscope as Gyroscope
