"""Equations of motion, forces, and how a step follows from the one before."""

from fgmbs.dynamics.equations import (
    acceleration,
    acceleration_dependent,
    acceleration_independent,
    energy,
    nonconservative_power,
    reactions,
)

__all__ = [
    "acceleration",
    "acceleration_dependent",
    "acceleration_independent",
    "energy",
    "nonconservative_power",
    "reactions",
]
