"""Functions as compiled programs: one machine function, many lanes, lengths in buckets, a cache on disk."""
