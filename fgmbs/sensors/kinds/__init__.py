"""The sensors, one in a file."""
