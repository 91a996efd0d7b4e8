"""Robots from files: URDF, SDF, MJCF, Denavit–Hartenberg tables, and loops that a file beside them closes."""
