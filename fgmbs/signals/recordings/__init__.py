"""Recordings: samples of sensors and commands over time, from files and from arrays."""
