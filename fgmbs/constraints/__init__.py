"""Planar constraints, each a function of the arrays of one instance, zero where the constraint holds.

Closed forms are the derivative rules of the functions ([Blanco21] appendix III): forward and reverse mode, `vmap` and
derivatives of any order go through them.
"""
