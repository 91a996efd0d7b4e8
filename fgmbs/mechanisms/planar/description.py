"""The description of a planar mechanism: what a mechanism file says, checked piece by piece, frozen and hashable.

Points and bodies are referred to by index, coordinates by name. Expressions stay texts, so that a mechanism follows
its parameters; `planar.scopes` gives them values. What only the whole can show (names, indices, geometry) is checked
in `fgmbs.io.planar.checks`. All numbers are in SI units, angles in radians.
"""

import functools
import keyword
import math
import re
import reprlib
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag
from pydantic_core import PydanticCustomError

from fgmbs.mechanisms.planar.expressions import CONSTANTS, FUNCTIONS, Expr, ExpressionError, as_number, parse

Path: TypeAlias = tuple[str | int, ...]
"""Keys and indices that lead to a value, as in ("planar_bodies", 0, "mass")."""


def _expression(value: Any) -> Any:
    """A finite float, or the text of an expression."""
    if isinstance(value, str):
        if (number := as_number(value)) is None:
            try:
                parse(value)
            except ExpressionError as error:
                raise _refuse("expression", str(error)) from None
            return value
        value = number
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _refuse("expression", plain(value))
    if abs(value) > sys.float_info.max or math.isnan(value):  # an integer may be too large for a float
        raise _refuse("expression", f"{reprlib.repr(value)}, which is not finite")
    return float(value)


def _name(value: Any) -> Any:
    if not isinstance(value, str):
        raise _refuse("name", f"{plain(value)}, which is not a text; put it in quotes")
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", value):
        raise _refuse("name", f"'{value}'; a name has letters, digits and _ and starts with a letter")
    if keyword.iskeyword(value) or value in FUNCTIONS or value in CONSTANTS or value == "t":
        raise _refuse("name", f"'{value}', which means something else in expressions")
    return value


def _color(value: Any) -> Any:
    if value is None:
        raise _refuse("color", "nothing; a color that begins with # stands in quotes, else it is a comment")
    if not isinstance(value, str) or not re.fullmatch(r"#[0-9a-fA-F]{3}|#[0-9a-fA-F]{6}|[a-z][a-z0-9 :]*", value, re.I):
        raise _refuse("color", plain(value))
    return value


def _items(value: Any) -> Any:
    if isinstance(value, Mapping):
        return tuple(value.items())
    if isinstance(value, tuple):
        return value
    raise _refuse("mapping", plain(value))


def _refuse(kind: str, found: str) -> PydanticCustomError:
    return PydanticCustomError(kind, "{found}", {"found": found})  # pyright: ignore[reportArgumentType]


def plain(value: Any) -> str:
    """A value as the reader of a file would call it."""
    match value:
        case None:
            return "nothing"
        case bool():
            return f"the truth value {str(value).lower()} (YAML 1.1 reads on, off, yes and no as truth values)"
        case Mapping():
            return f"a mapping of ({', '.join(map(str, value))})"
        case list() | tuple():
            return f"a list of {len(value)}"
        case str():
            return f"'{value}'"
    return str(value)


Expression = Annotated[Expr, BeforeValidator(_expression)]
Name = Annotated[str, BeforeValidator(_name)]
Color = Annotated[str, BeforeValidator(_color)]
Index = Annotated[int, Field(strict=True, ge=0)]
Pair = tuple[Index, Index]
Vector = tuple[Expression, Expression]


class _Model(BaseModel):
    """A part of a description: hashable, so that a mechanism can hold it as static."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class _Named(_Model):
    name: Name | None = None


class PointDescription(_Named):
    """A point as drawn; a free point has two coordinates."""

    x: Expression
    y: Expression
    fixed: Annotated[bool, Field(strict=True)] = False


class VisualDescription(_Model):
    """How a body is drawn. Nothing else follows from it, and its numbers are no parameters."""

    color: Color = "#333333"
    """#rgb, #rrggbb, or a name that matplotlib knows, which the figures look up."""
    width: Expression | None = None
    """Of a plate with round corners about its points [m]."""
    outline: Annotated[tuple[Vector, ...], Field(min_length=3)] | None = None
    """Corners in the frame of the body [m]."""
    radius: Expression | None = None
    """Of a disc about its centre of mass [m]."""


class BodyDescription(_Named):
    """A rigid body in the frame from its first to its second point."""

    points: Annotated[tuple[Index, ...], Field(min_length=2)]
    length: Expression = "auto"
    """Distance of its two points; `auto` is the distance as drawn. Ignored with three and more points."""
    mass: Expression
    I0: Expression
    """Moment of inertia about the first point [kg·m²]."""
    cog: Vector
    """Centre of mass in the frame whose x axis runs from the first to the second point [m]."""
    visual: VisualDescription | None = None


class AbsoluteAngleDescription(_Named):
    """Angle of the link i → j from +X, counter-clockwise."""

    type: Literal["RelativeAngleAbsoluteDOF"]
    points: Pair


class RelativeAngleDescription(_Named):
    """Angle of the link k → l minus angle of the link i → j."""

    type: Literal["RelativeAngleDOF"]
    points: tuple[Pair, Pair]


AngleDescription = AbsoluteAngleDescription | RelativeAngleDescription


class DistanceDescription(_Named):
    """A constant distance of two points."""

    type: Literal["distance"]
    points: Pair
    length: Expression = "auto"


class FixedSliderDescription(_Named):
    """A point on the fixed line through two positions. [Blanco21] eq. (42)"""

    type: Literal["fixed_slider"]
    point: Index
    line: tuple[Vector, Vector]


class MobileSliderDescription(_Named):
    """A point on the line through two other points. [Blanco21] eq. (43)"""

    type: Literal["mobile_slider"]
    point: Index
    line: Pair


class RigidDescription(_Named):
    """A point k rigidly attached to the frame of i → j: r_k = r_i + a e + b e⊥, e the unit vector from i to j."""

    type: Literal["rigid"]
    points: Pair
    point: Index
    offset: Annotated[
        Annotated[Vector, Tag("by value")] | Annotated[Literal["auto"], Tag("by drawing")],
        Discriminator(lambda value: "by drawing" if value == "auto" else "by value"),
    ] = "auto"


class GearDescription(_Named):
    """angle_a − ratio angle_b = offset; `auto` is the offset as drawn."""

    type: Literal["gear"]
    angles: tuple[Name, Name]
    ratio: Expression
    offset: Expression = "auto"


class MotionDescription(_Named):
    """A coordinate that follows a function of the time `t`."""

    type: Literal["motion"]
    coordinate: Name
    value: Expression


ConstraintDescription = (
    DistanceDescription
    | FixedSliderDescription
    | MobileSliderDescription
    | RigidDescription
    | GearDescription
    | MotionDescription
)


class SpringDescription(_Named):
    """A linear spring between two points."""

    points: Pair
    stiffness: Expression
    free_length: Expression = "auto"


class AngularSpringDescription(_Named):
    """A linear spring on an angle."""

    angle: Name
    stiffness: Expression
    free_angle: Expression = "auto"


class _Rubbing(_Named):
    """Viscous friction, and the other numbers of `Friction` where they are given."""

    damping: Expression
    coulomb: Expression | None = None
    stribeck: Expression | None = None
    stribeck_speed: Expression | None = None
    quadratic: Expression | None = None
    asymmetry: Expression | None = None
    offset: Expression | None = None
    width: Expression | None = None
    shape: Literal["tanh", "clip"] = "tanh"

    @property
    def only_viscous(self) -> bool:
        """Whether there is nothing but damping."""
        return all(getattr(self, key, None) is None for key in FRICTION)


class DamperDescription(_Rubbing):
    """A damper between two points, along their line."""

    points: Pair


class AngularDamperDescription(_Rubbing):
    """Friction on an angle."""

    angle: Name
    cosines: tuple[Expression, ...] | None = None
    sines: tuple[Expression, ...] | None = None


FRICTION = ("coulomb", "stribeck", "stribeck_speed", "quadratic", "asymmetry", "offset", "width", "cosines", "sines")
"""Numbers of a damper besides its damping."""


class PointForceDescription(_Named):
    """A force on a point in the fixed frame; may depend on the time `t`."""

    point: Index
    force: Vector


class AngleTorqueDescription(_Named):
    """A torque on an angle; may depend on the time `t`."""

    angle: Name
    torque: Expression


class BodyTorqueDescription(_Named):
    """A torque on a body, counter-clockwise; may depend on the time `t`."""

    body: Index
    torque: Expression


class _Driving(_Named):
    """The numbers of a `Motor` where they are given."""

    gain: Expression | None = None
    gear: Expression | None = None
    rotor_inertia: Expression | None = None
    back_emf: Expression | None = None
    cosines: tuple[Expression, ...] | None = None
    sines: tuple[Expression, ...] | None = None
    periods: Annotated[int, Field(strict=True, ge=1)] = 1

    @property
    def is_motor(self) -> bool:
        """Whether any of them is given."""
        return any(getattr(self, key) is not None for key in MOTOR)


class AngleActuatorDescription(_Driving):
    """A commanded torque on an angle [N·m]."""

    angle: Name


class PointsActuatorDescription(_Named):
    """A commanded force between two points along their line, as of a hydraulic cylinder; positive pushes apart [N]."""

    points: Pair


class CoordinateActuatorDescription(_Driving):
    """A commanded generalized force on a coordinate [N, N·m]."""

    coordinate: Name


MOTOR = ("gain", "gear", "rotor_inertia", "back_emf", "cosines", "sines")
"""Numbers of an actuator that is a motor."""


class BodyActuatorDescription(_Named):
    """A commanded torque on a body against the ground, counter-clockwise [N·m]."""

    body: Index


def _by(*keys: str) -> Discriminator:
    """Tells alternatives apart by the one of these keys that an entry has."""

    def tag(value: Any) -> str | None:
        present = value if isinstance(value, Mapping) else getattr(type(value), "model_fields", ())
        return next((f"by {key}" for key in reversed(keys) if key in present), None)

    return Discriminator(tag)


AnySpringDescription: TypeAlias = Annotated[
    Annotated[SpringDescription, Tag("by points")] | Annotated[AngularSpringDescription, Tag("by angle")],
    _by("points", "angle"),
]
AnyDamperDescription: TypeAlias = Annotated[
    Annotated[DamperDescription, Tag("by points")] | Annotated[AngularDamperDescription, Tag("by angle")],
    _by("points", "angle"),
]
ForceDescription: TypeAlias = Annotated[
    Annotated[PointForceDescription, Tag("by point")]
    | Annotated[AngleTorqueDescription, Tag("by angle")]
    | Annotated[BodyTorqueDescription, Tag("by body")],
    _by("point", "angle", "body"),
]
AnyActuatorDescription: TypeAlias = Annotated[
    Annotated[AngleActuatorDescription, Tag("by angle")]
    | Annotated[PointsActuatorDescription, Tag("by points")]
    | Annotated[CoordinateActuatorDescription, Tag("by coordinate")]
    | Annotated[BodyActuatorDescription, Tag("by body")],
    _by("angle", "points", "coordinate", "body"),
]


class MechanismDescription(_Named):
    """A planar mechanism. Its coordinates: x, y of every free point in file order, then the relative coordinates."""

    parameters: Annotated[tuple[tuple[Name, Expression], ...], BeforeValidator(_items)] = ()
    gravity: Vector = (0.0, -9.81)
    points: Annotated[tuple[PointDescription, ...], Field(min_length=1)]
    planar_bodies: tuple[BodyDescription, ...] = ()
    relative_coordinates: tuple[Annotated[AngleDescription, Field(discriminator="type")], ...] = ()
    constraints: tuple[Annotated[ConstraintDescription, Field(discriminator="type")], ...] = ()
    springs: tuple[AnySpringDescription, ...] = ()
    dampers: tuple[AnyDamperDescription, ...] = ()
    forces: tuple[ForceDescription, ...] = ()
    actuators: tuple[AnyActuatorDescription, ...] = ()
    initial_velocities: Annotated[tuple[tuple[Name, Expression], ...], BeforeValidator(_items)] = ()

    if TYPE_CHECKING:  # what `frozen` makes

        def __hash__(self) -> int: ...

    @functools.cached_property
    def coordinate_names(self) -> tuple[str, ...]:
        """Names of q: `x1`, `y1` or `x_NAME`, `y_NAME` of free points, then angles by name or `q{index in q}`."""
        names: list[str] = []
        for i, point in enumerate(self.points):
            if not point.fixed:
                names += [f"x_{point.name}", f"y_{point.name}"] if point.name else [f"x{i}", f"y{i}"]
        for angle in self.relative_coordinates:
            names.append(angle.name or f"q{len(names)}")
        return tuple(names)

    @functools.cached_property
    def actuator_names(self) -> tuple[str, ...]:
        """Names of the commands: that of each actuator, or `actuator{index}`."""
        return tuple(actuator.name or f"actuator{i}" for i, actuator in enumerate(self.actuators))
