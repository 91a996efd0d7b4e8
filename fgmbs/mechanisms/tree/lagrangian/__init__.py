"""A second formulation of the dynamics of trees: the 4 × 4 Lagrangian recursion of the sensitivity paper."""
