"""Equations of motion, forces, local coordinates of a motion, and how a step follows from the one before."""

from fgmbs.dynamics.equations import acceleration, energy, nonconservative_power, reactions

__all__ = ["acceleration", "energy", "nonconservative_power", "reactions"]
