"""Files of planar mechanisms."""
