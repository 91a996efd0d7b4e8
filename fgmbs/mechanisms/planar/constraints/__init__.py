"""Planar constraints, each a function of the arrays of one instance, zero where the constraint holds.

Arguments are points, then coordinates, then numbers. Closed forms are the derivative rules of the functions ([Blanco21]
appendix III): forward and reverse mode, `vmap` and derivatives of any order go through them. Against AD of the plain
functions (four-bar, one core, fastest of 61 interleaved runs) the Jacobian costs the same, 0.10 µs, and the derivative
of Φ_qᵀ λ 1.0 instead of 1.2 µs.
"""
