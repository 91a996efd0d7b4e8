"""Free runs of a model beside recordings: the motion, the prediction error, its least, what is left."""
