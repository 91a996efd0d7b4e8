"""Files of experiments, and of the motions they ask for or compare with."""
