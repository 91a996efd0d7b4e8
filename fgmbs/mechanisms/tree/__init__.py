"""Robots: trees of rigid bodies in joint coordinates, with loops closed by constraints and a base that may float."""
