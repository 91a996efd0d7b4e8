"""Experiment design: the motion that tells the most of parameters."""
