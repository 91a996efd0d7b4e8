"""The same motion, wherever the ground is, however the bodies are numbered and in whatever units."""

import numpy as np
import pytest

from fgmbs.io.planar.load import parse_mechanism
from fgmbs.mechanisms.planar.mechanism import PlanarMechanism

POINTS = {"A": (0.0, 0.0), "P1": (1.0, 0.0), "P2": (1.0, 2.0), "B": (4.0, 0.0)}
BODIES = {"crank": ("A", "P1", 1.0), "coupler": ("P1", "P2", 2.0), "rocker": ("P2", "B", 4.0)}


def fourbar(points=tuple(POINTS), bodies=tuple(BODIES)) -> PlanarMechanism:
    """The four-bar, written in this order, with every position a number of its own."""
    lines = ["gravity: [0.0, -9.81]", "points:"]
    for name in points:
        x, y = POINTS[name]
        lines.append(f"  - {{name: {name}, x: {x}, y: {y}, fixed: {str(name in 'AB').lower()}}}")
    lines.append("planar_bodies:")
    for name in bodies:
        a, b, mass = BODIES[name]
        rod = "I0: mass*length^2/3, cog: [length/2, 0.0]"
        lines.append(f"  - {{name: {name}, points: [{a}, {b}], mass: {mass}, {rod}}}")
    lines += ["relative_coordinates:", "  - {name: theta, type: RelativeAngleAbsoluteDOF, points: [A, P1]}"]
    return PlanarMechanism.from_description(parse_mechanism("\n".join(lines)))


@pytest.fixture(scope="module")
def drawn() -> PlanarMechanism:
    return fourbar()


def placed(mechanism, turn, shift, scale=1.0):
    """The mechanism with all points and gravity turned, moved and measured in a unit 1/scale times as long."""
    values = {}
    for name, point in POINTS.items():
        values |= dict(zip((f"{name}.x", f"{name}.y"), scale * (turn @ point + shift), strict=True))
    values |= dict(zip(("gravity.x", "gravity.y"), scale * turn @ [0.0, -9.81], strict=True))
    return mechanism.with_parameters(values)


def positions(result):
    """x, y of P1 and P2 by time."""
    names = ["x_P1", "y_P1", "x_P2", "y_P2"]
    columns = [result.coordinate_names.index(name) for name in names]
    return np.asarray(result.q)[:, columns].reshape(-1, 2, 2)


INDEPENDENT = {"coordinates": "independent", "independent": ("theta",)}


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, INDEPENDENT], ids=["dependent", "independent"])
def test_moved_and_turned_ground(drawn, short_run, options):
    turn = np.array([[np.cos(0.7), -np.sin(0.7)], [np.sin(0.7), np.cos(0.7)]])
    shift = np.array([2.0, -1.0])
    moved = short_run(placed(drawn, turn, shift), **options)
    np.testing.assert_allclose((positions(moved) - shift) @ turn, positions(short_run(drawn, **options)), atol=1e-9)
    np.testing.assert_allclose(moved.q[:, 4] - 0.7, short_run(drawn, **options).q[:, 4], atol=1e-9)


@pytest.mark.parametrize("far", [1e3, 1e6])
def test_far_from_the_origin(drawn, short_run, far):
    """Positions round coarsely there; steps end all the same, and lose no more than that."""
    shift = np.array([far, far])
    moved = short_run(placed(drawn, np.eye(2), shift), 1e-2)
    np.testing.assert_allclose(positions(moved) - shift, positions(short_run(drawn, 1e-2)), atol=1e-14 * far)


@pytest.mark.slow
def test_renumbered_points_and_bodies(drawn, short_run):
    renumbered = short_run(fourbar(("P2", "B", "A", "P1"), ("rocker", "crank", "coupler")))
    np.testing.assert_allclose(positions(renumbered), positions(short_run(drawn)), atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, INDEPENDENT], ids=["dependent", "independent"])
def test_unit_of_mass(drawn, short_run, options):
    """In grams."""
    grams = drawn.with_parameters({f"{name}.mass": 1e3 * mass for name, (*_, mass) in BODIES.items()})
    np.testing.assert_allclose(
        positions(short_run(grams, **options)), positions(short_run(drawn, **options)), atol=1e-9
    )


@pytest.mark.parametrize("scale", [1e3, 1e-3], ids=["millimetres", "kilometres"])
@pytest.mark.parametrize(
    "options", [{}, pytest.param(INDEPENDENT, marks=pytest.mark.slow)], ids=["dependent", "independent"]
)
def test_unit_of_length(drawn, short_run, options, scale):
    rescaled = short_run(placed(drawn, np.eye(2), np.zeros(2), scale), **options)
    np.testing.assert_allclose(positions(rescaled) / scale, positions(short_run(drawn, **options)), atol=1e-9)
