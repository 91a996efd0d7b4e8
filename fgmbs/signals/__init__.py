"""Signals over time, with no mechanism inside: recordings, desired motions, curves through samples."""

from fgmbs.signals import trajectories as trajectories
