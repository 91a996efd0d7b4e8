"""Equations of motion, forces, and how a step follows from the one before."""

from fgmbs.dynamics.equations import acceleration, energy, nonconservative_power, reactions

__all__ = ["acceleration", "energy", "nonconservative_power", "reactions"]
