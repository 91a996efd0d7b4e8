"""Functions as compiled programs: one machine function, many lanes, lengths in buckets, a cache on disk."""

CACHE_VARIABLE = "FGMBS_CACHE"
"""Environment variable: a folder for compiled programs, or "off"."""
