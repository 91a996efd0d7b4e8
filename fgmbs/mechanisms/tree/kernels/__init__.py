"""Kernels of trees: positions, motion, forces and their derivatives."""
