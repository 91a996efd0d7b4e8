"""What all estimates share: their graph, unknown numbers, sizes of noise and starts."""
