"""Units: ways to write them, their multiples of SI, and what is said about others."""

import math

import pytest

from fgmbs.signals.recordings.units import find_unit, split_header, unit_fault


@pytest.mark.parametrize(
    "texts, si, scale",
    [
        (("rad", "radians", " rad "), "rad", 1.0),
        (("deg", "°", "degree", "degrees"), "rad", math.pi / 180),
        (("rev",), "rad", 2 * math.pi),
        (("m",), "m", 1.0),
        (("mm",), "m", 1e-3),
        (("cm",), "m", 1e-2),
        (("s", "sec", "seconds"), "s", 1.0),
        (("ms",), "s", 1e-3),
        (("us", "µs", "μs"), "s", 1e-6),
        (("ns",), "s", 1e-9),
        (("rad/s", "rad / s", "rad·s⁻¹", "rad s-1", "rad*s^-1"), "rad/s", 1.0),
        (("deg/s", "°/s", "deg s-1", "dps"), "rad/s", math.pi / 180),
        (("rpm", "RPM", "rev/min"), "rad/s", 2 * math.pi / 60),
        (("m/s", "m s-1"), "m/s", 1.0),
        (("m/s^2", "m/s²", "m/s2", "m/s**2", "m s-2", "m·s⁻²"), "m/s^2", 1.0),
        (("g",), "m/s^2", 9.80665),
        (("rad/s^2", "rad/s²"), "rad/s^2", 1.0),
        (("N",), "N", 1.0),
        (("N m", "Nm", "N·m", "N⋅m", "N*m", "N  m"), "N m", 1.0),
        (("mN m", "mNm", "mN·m"), "N m", 1e-3),
        (("A",), "A", 1.0),
        (("mA",), "A", 1e-3),
        (("V",), "V", 1.0),
        (("px", "pixels"), "px", 1.0),
        (("counts",), "counts", 1.0),
        (("", "1", "-", " "), "", 1.0),
        (("%",), "", 0.01),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else None,
)
def test_a_unit_may_be_written_in_several_ways(texts, si, scale):
    for text in texts:
        assert find_unit(text) == (si, pytest.approx(scale, rel=1e-15)), text


@pytest.mark.parametrize("text", ["furlong", "nm", "MN m", "m s", "m N", "m/s^3", "Deg"])
def test_what_is_no_unit_is_not_guessed(text):
    assert find_unit(text) is None


def test_an_unknown_unit_is_reported_with_those_accepted():
    found = unit_fault("degr")
    assert found.startswith(
        "expected a unit; found 'degr'; did you mean 'deg'? known units: 1, %, counts, px, rad, mrad, deg,"
    )
    assert unit_fault("days", ("s",)) == "expected a unit; found 'days'; known units: s, ms, us, ns, min, h"


@pytest.mark.parametrize(
    "header, parts",
    [
        ("angle [deg]", ("angle", "deg")),
        ("angle (deg)", ("angle", "deg")),
        ("angle[deg/s]", ("angle", "deg/s")),
        ("motor torque [ N m ]", ("motor torque", "N m")),
        ("ratio []", ("ratio", "")),
        ("joint[0]", ("joint[0]", None)),
        ("joint[0] [deg]", ("joint[0]", "deg")),
        ("angle", ("angle", None)),
        ("[deg]", ("[deg]", None)),
    ],
)
def test_a_header_may_end_in_its_unit(header, parts):
    assert split_header(header) == parts
