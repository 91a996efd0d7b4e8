"""How the bodies of a planar mechanism are drawn, with the parameters that it has."""

import math
from typing import NamedTuple

from fgmbs.mechanisms.planar import scopes
from fgmbs.mechanisms.planar.description import MechanismDescription
from fgmbs.mechanisms.planar.expressions import ExpressionError, evaluate


class Visual(NamedTuple):
    """How a body is drawn; lengths in its frame, from its first to its second point [m]."""

    color: str
    width: float | None
    """Of a plate with round corners about its points."""
    outline: tuple[tuple[float, float], ...] | None
    radius: float | None
    """Of a disc about its centre of mass."""
    cog: tuple[float, float]


def visuals(description: MechanismDescription, values: scopes.Values) -> dict[str, Visual]:
    """How bodies are drawn, by name, of those of which the description says it.

    Those are left out whose lengths are none with the parameters that an estimate ended with.
    """
    found: dict[str, Visual] = {}
    for i, body in enumerate(description.planar_bodies):
        if (visual := body.visual) is None:
            continue
        name = scopes.owner(description, "planar_bodies", i)
        try:
            known = scopes.body_scope(description, i, scopes.point_scope(description, values), values)
            width, radius = (None if x is None else float(evaluate(x, known)) for x in (visual.width, visual.radius))
            outline = visual.outline and tuple(
                (float(evaluate(x, known)), float(evaluate(y, known))) for x, y in visual.outline
            )
            a, b = (values.get(f"{name}.cog.{axis}", x) for axis, x in zip("xy", body.cog, strict=True))
            cog = float(evaluate(a, known)), float(evaluate(b, known))
        except ExpressionError:
            continue
        if all(x is None or 0 < x < math.inf for x in (width, radius)):
            found[name] = Visual(visual.color, width, outline, radius, cog)
    return found
