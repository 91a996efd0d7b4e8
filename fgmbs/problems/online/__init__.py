"""State estimation in a real-time loop."""
