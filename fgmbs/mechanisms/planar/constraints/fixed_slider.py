"""A point that slides along a line fixed to the ground."""

from jaxtyping import Array, Float

from fgmbs.mechanisms.planar.constraints.mobile_slider import mobile_slider


def fixed_slider(p: Float[Array, "2"], line: Float[Array, "2 2"]) -> Float[Array, ""]:
    """Φ = (b − a) × (p − a) [m²] for the line through a, b = `line`. [Blanco21] eq. (42a)

    Eq. (42) is eq. (43) with a line that does not move, and so is its derivative rule: (42b) are the columns of p in
    (43b). Derivatives with respect to the line (where is the rail?) come with it.
    """
    return mobile_slider(p, line[0], line[1])
