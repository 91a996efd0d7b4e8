"""Factor graphs over time, of one recording and of several."""
