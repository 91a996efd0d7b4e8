"""Units of recorded signals and their conversion to SI."""

import math
import re
from collections.abc import Sequence

from fgmbs.arguments import close_to

_UNITS = (
    ("", 1.0, "1, -, none, dimensionless"),
    ("", 1e-2, "%, percent"),
    ("counts", 1.0, "counts, count, ticks"),
    ("px", 1.0, "px, pixel, pixels"),
    ("rad", 1.0, "rad, radian, radians"),
    ("rad", 1e-3, "mrad"),
    ("rad", math.pi / 180, "deg, °, º, degree, degrees"),
    ("rad", 2 * math.pi, "rev, revs, turn, turns"),
    ("rad/s", 1.0, "rad/s, rad s-1, rad/sec"),
    ("rad/s", math.pi / 180, "deg/s, °/s, º/s, deg s-1, degree/s, degrees/s, deg/sec, dps"),
    ("rad/s", 2 * math.pi, "rev/s, rps, turns/s"),
    ("rad/s", math.pi / 30, "rpm, RPM, rev/min, r/min, 1/min, min-1"),
    ("rad/s^2", 1.0, "rad/s^2, rad s-2, rad/s/s"),
    ("rad/s^2", math.pi / 180, "deg/s^2, °/s^2, º/s^2, deg s-2"),
    ("m", 1.0, "m, metre, metres, meter, meters"),
    ("m", 1e-2, "cm"),
    ("m", 1e-3, "mm"),
    ("m", 1e-6, "um"),
    ("m/s", 1.0, "m/s, m s-1, m/sec"),
    ("m/s", 1e-2, "cm/s, cm s-1"),
    ("m/s", 1e-3, "mm/s, mm s-1"),
    ("m/s^2", 1.0, "m/s^2, m s-2, m/s/s"),
    ("m/s^2", 1e-3, "mm/s^2, mm s-2"),
    ("m/s^2", 9.80665, "g, g0, gn"),
    ("m/s^2", 9.80665e-3, "mg"),
    ("N", 1.0, "N, newton, newtons"),
    ("N", 1e-3, "mN"),
    ("N", 1e3, "kN"),
    ("N m", 1.0, "N m, Nm"),
    ("N m", 1e-3, "mN m, mNm"),
    ("N m", 1e-2, "N cm, Ncm"),
    ("N m", 1e3, "kN m, kNm"),
    ("A", 1.0, "A, amp, amps, ampere, amperes"),
    ("A", 1e-3, "mA"),
    ("V", 1.0, "V, volt, volts"),
    ("V", 1e-3, "mV"),
    ("W", 1.0, "W, watt, watts"),
    ("J", 1.0, "J, joule, joules"),
    ("kg", 1.0, "kg"),
    ("s", 1.0, "s, sec, second, seconds"),
    ("s", 1e-3, "ms, millisecond, milliseconds"),
    ("s", 1e-6, "us, microsecond, microseconds"),
    ("s", 1e-9, "ns, nanosecond, nanoseconds"),
    ("s", 60.0, "min, minute, minutes"),
    ("s", 3600.0, "h, hour, hours"),
)
"""(SI unit, its multiple, ways to write that), the first of which stands in messages."""


def _spelled(text: str) -> str:
    """A unit in the one way of writing products, powers and quotients that the table is searched by."""
    text = text.translate(str.maketrans({"²": "2", "⁻": "-", "¹": "1", "µ": "u", "μ": "u", "^": None}))
    text = " ".join(re.sub(r"\*\*|[·⋅∙×*]", lambda sign: "" if sign[0] == "**" else " ", text).split())
    return re.sub(r"\s*/\s*", "/", text)


_BY_SPELLING = {_spelled(text): (si, scale) for si, scale, texts in _UNITS for text in texts.split(", ")} | {
    "": ("", 1.0)
}
_FIRST = tuple((si, texts.split(", ")[0]) for si, _, texts in _UNITS)


def find_unit(text: str) -> tuple[str, float] | None:
    """(SI unit, its multiple) that a text means, or None."""
    return _BY_SPELLING.get(_spelled(text))


def unit_fault(text: str, of: Sequence[str] = ()) -> str:
    """'expected a unit; found …' for a text that means none.

    Args:
        of: The SI units that would do; any by default.
    """
    accepted = [name for si, name in _FIRST if not of or si in of]
    return f"expected a unit; found '{text}'{close_to(text, accepted) or ';'} known units: {', '.join(accepted)}"


def split_header(header: str) -> tuple[str, str | None]:
    """(name, unit) of a header 'angle [deg]' or 'angle (deg)'; no unit in 'angle' and 'angles[0]'."""
    match = re.fullmatch(r"(.*\S)\s*(?:\[([^\[\]]*)\]|\(([^()]*)\))", header)
    if match is None or (match[2] or "").isdigit():
        return header, None
    return match[1], (match[2] if match[2] is not None else match[3]).strip()
