"""Parameters of a mechanism from recordings: which, how sure, and what the data cannot say."""
