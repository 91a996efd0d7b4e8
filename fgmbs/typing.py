"""Array types shared by all modules.

Axis names: `steps` along time, `n` coordinates, `nv` velocities, `m` constraints, `dof` degrees of freedom, `p` global
parameters. Batch axes come from `jax.vmap` and are not written.
"""

from typing import TypeAlias

from jaxtyping import Array, Float

Scalar: TypeAlias = Float[Array, ""] | float
Coordinates: TypeAlias = Float[Array, " n"]
Velocities: TypeAlias = Float[Array, " nv"]
Constraints: TypeAlias = Float[Array, " m"]
