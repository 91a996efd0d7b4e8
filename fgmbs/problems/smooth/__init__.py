"""State estimation from recordings."""
