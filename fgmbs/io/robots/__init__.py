"""Robot files."""
