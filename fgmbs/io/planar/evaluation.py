"""The numbers of a description on the host, with everything that is wrong with its expressions."""

import functools
import math
from collections.abc import Callable, Mapping, Set

from fgmbs.arguments import close_to
from fgmbs.io.faults import UNREADABLE, Fault
from fgmbs.mechanisms.planar import description as schema
from fgmbs.mechanisms.planar import scopes
from fgmbs.mechanisms.planar.description import MechanismDescription, Path
from fgmbs.mechanisms.planar.expressions import Expr, ExpressionError, Number, evaluate, find_cycle, names_in, order
from fgmbs.mechanisms.planar.limits import POSITIVE

POSITIVE_DRAWN = (("visual", "width"), ("visual", "radius"))
"""Keys of a body that only say how it is drawn, and are positive."""


def wanted(description: MechanismDescription | None, path: Path) -> str:
    """What a number at a path may be: 'a positive number or an expression of (L, xb, length, …)'."""
    positive = path[0] == "planar_bodies" and (path[2:3] and path[2] in POSITIVE or path[2:] in POSITIVE_DRAWN)
    kind = "a positive number" if positive else "a number"
    try:
        names = scopes.scope_names(description, path) if description else ()
    except IndexError:
        names = ()
    points = {f"{axis}{i}" for axis in "xy" for i in range(len(description.points))} if description else set()
    shown = [name for name in names if name not in points and name[:2] not in ("x_", "y_")]
    listed = ", ".join([*shown[:12], *["…"] * (len(shown) > 12), *["x0, y0, …"] * (len(shown) < len(names))])
    return f"{kind} or an expression of ({listed})" if listed else f"{kind} or an expression"


class Evaluation:
    """The numbers of a description with their faults; a number that has no value is nan.

    Attributes:
        faults: What is wrong with the expressions.
        names: Parameters and coordinates of points, as `scopes.point_scope`.
        numbers: Every number by name, also those that only say how bodies are drawn.
    """

    def __init__(self, description: MechanismDescription, unusable: Set[Path], *, angles: bool):
        """Evaluates everything outside of entries whose references lead nowhere.

        Args:
            angles: Whether angles as drawn can be told.
        """
        self.description = description
        self.faults: list[Fault] = []
        self.overrides: dict[str, Number] = {}
        every = *scopes.quantities(description), *scopes.drawn_quantities(description)
        self.quantities = {q.name: q for q in every}
        self._parameters = frozenset(scopes.parameter_definitions(description, {}))
        self._points = frozenset(scopes.point_definitions(description, {}))
        angles = angles and not any(path[0] == "relative_coordinates" for path in unusable)
        for quantity in self.quantities.values():
            if quantity.path[0] not in ("points", "parameters") and (
                quantity.path[:2] in unusable or (not angles and self._needs_angle(quantity))
            ):
                self.overrides[quantity.name] = math.nan
            elif isinstance(quantity.expr, str):
                self._check_names(quantity)
        self.names = self._settle(scopes.parameter_definitions, {}, lambda name: name)
        self.names |= self._settle(scopes.point_definitions, self.names, self._of_point)
        for i in range(len(description.planar_bodies)):
            if ("planar_bodies", i) not in unusable:
                self._settle_body(i)
        self._bodies = functools.cache(lambda i: scopes.body_scope(description, i, self.names, self.overrides))
        self.numbers = {q.name: self._value(q) for q in self.quantities.values()}

    def _needs_angle(self, quantity: scopes.Quantity) -> bool:
        entry = getattr(self.description, str(quantity.path[0]))
        entry = entry[quantity.path[1]] if quantity.path[0] in scopes.OWNERS else None
        angular = isinstance(entry, (schema.GearDescription, schema.AngularSpringDescription))
        return angular and "auto" in names_in(quantity.expr)

    def _check_names(self, quantity: scopes.Quantity) -> None:
        known = self._parameters if quantity.path[0] in ("parameters", "gravity") else self._parameters | self._points
        known = known.union(scopes.local_names(self.description, quantity.path))
        for name in sorted(names_in(quantity.expr) - known):
            self.overrides[quantity.name] = math.nan
            if name == UNREADABLE:
                continue
            where = f"'{name}'" if name == quantity.expr else f"'{name}' in '{quantity.expr}'"
            advice = close_to(name, sorted(known))
            if name == "t":
                advice = "; the time t is known in forces, torques and prescribed motion only"
            self._fault(quantity, f"{where}, which is unknown here{advice}")

    def _fault(self, quantity: scopes.Quantity, found: str) -> None:
        self.overrides[quantity.name] = math.nan
        self.faults.append(Fault(quantity.path, f"expected {wanted(self.description, quantity.path)}; found {found}"))

    def _of_point(self, name: str) -> str:
        axis, rest = name[0], name[1:].removeprefix("_")
        return f"{scopes.owner(self.description, 'points', int(rest)) if rest.isdigit() else rest}.{axis}"

    def _settle(
        self,
        definitions: Callable[[MechanismDescription, scopes.Values], dict[str, Expr | Number]],
        known: Mapping[str, Number],
        quantity_of: Callable[[str], str],
    ) -> dict[str, Number]:
        """Values of definitions that may use each other; what has no value is reported and set to nan."""
        while cycle := find_cycle(defined := definitions(self.description, self.overrides)):
            quantity = self.quantities[quantity_of(cycle[0])]
            self._fault(quantity, f"'{quantity.expr}', which needs itself: {' → '.join(cycle)}")
            self.overrides |= {quantity_of(name): math.nan for name in cycle}
        values = dict(known)
        for name in order(defined):
            quantity = self.quantities.get(quantity_of(name))
            values[name] = self._evaluated(quantity, defined[name], values)
        return values

    def _settle_body(self, index: int) -> None:
        owner = scopes.owner(self.description, "planar_bodies", index)
        known = {**self.names, **scopes.drawn_lengths(self.description, index, self.names)}
        self._settle(lambda d, values: scopes.body_definitions(d, index, values), known, lambda key: f"{owner}.{key}")

    def _value(self, quantity: scopes.Quantity) -> float:
        if quantity.name in self.overrides or quantity.varies:
            return math.nan
        try:
            value = scopes.number(self.description, quantity, self.names, self.overrides, self._bodies)
        except ExpressionError as error:
            self._fault(quantity, str(error))
            return math.nan
        return self._finite(quantity, value)

    def _evaluated(self, quantity: scopes.Quantity | None, expr: Expr | Number, names: Mapping[str, Number]) -> Number:
        try:
            value = evaluate(expr, names)
        except ExpressionError as error:
            assert quantity is not None
            self._fault(quantity, str(error))
            return math.nan
        return value if quantity is None else self._finite(quantity, value)

    def _finite(self, quantity: scopes.Quantity, value: Number) -> float:
        value = float(value)
        if math.isinf(value):
            self._fault(quantity, f"'{quantity.expr}', whose value is not finite")
            return math.nan
        return value

    def found(self, name: str) -> str:
        """A number as the file has it: its value, and its expression if it is one."""
        expr = self.quantities[name].expr
        return f"{self.numbers[name]:g}" + (f" ('{expr}')" if isinstance(expr, str) else "")

    def at(self, i: int) -> tuple[float, float]:
        """Where a point is drawn; nan for a point that is not there."""
        return float(self.names.get(f"x{i}", math.nan)), float(self.names.get(f"y{i}", math.nan))
