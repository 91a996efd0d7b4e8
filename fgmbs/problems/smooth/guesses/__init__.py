"""First guesses of a motion: by a filter, and where that loses the motion in other ways."""
