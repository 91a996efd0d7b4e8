"""Real rigs with published recordings, as mechanisms of a user's own or as files, and their recordings."""
