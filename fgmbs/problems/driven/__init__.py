"""Inverse and hybrid dynamics: motions that are known, and the forces that make them."""
