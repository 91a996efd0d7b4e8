"""Planar mechanisms in natural coordinates, mixed with angles."""
