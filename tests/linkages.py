"""Small mechanisms written out by hand, so that the kinematics are tested without the mechanism families."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fgmbs.mechanisms.base import AbstractMechanism


class Linkage(AbstractMechanism):
    """Rods and sliders as plain functions of q, t and `lengths`; it has no mass, kinematics need none."""

    lengths: Float[Array, " p"]
    reference: Float[Array, " n"]
    rows: str = eqx.field(static=True)
    coordinate_names: tuple[str, ...] = eqx.field(static=True)
    constraint_names: tuple[str, ...] = eqx.field(static=True)

    def evaluated(self):
        return self

    def constraints(self, q, t):
        return jnp.stack(ROWS[self.rows](q, t, self.lengths))

    def mass_matrix(self, q):
        return jnp.eye(self.n)

    def forces(self, q, dq, t):
        return jnp.zeros(self.n)

    def potential(self, q):
        return jnp.zeros(())


def _rod(a, b, length):
    return (b[0] - a[0]) ** 2 + (b[1] - a[1]) ** 2 - length**2


def _fourbar(q, t, lengths):
    crank, coupler, rocker, base = lengths
    p1, p2 = q[0:2], q[2:4]
    return [_rod((0, 0), p1, crank), _rod(p1, p2, coupler), _rod((base, 0), p2, rocker)]


def _angle(q, p, length):
    """sin(angle of p − angle q): holds half a turn away too."""
    return (jnp.cos(q) * p[1] - jnp.sin(q) * p[0]) / length


def _fourbar_angle(q, t, lengths):
    return [*_fourbar(q, t, lengths), _angle(q[4], q[0:2], lengths[0])]


def _parallelogram(q, t, lengths):
    """Three equal cranks on one straight coupler: five rods would do, the sixth row is redundant."""
    crank, half = lengths
    p1, p2, p3 = q[0:2], q[2:4], q[4:6]
    cranks = [_rod((0, 0), p1, crank), _rod((half, 0), p2, crank), _rod((2 * half, 0), p3, crank)]
    return [*cranks, _rod(p1, p2, half), p3[0] - 2 * p2[0] + p1[0], p3[1] - 2 * p2[1] + p1[1]]


def _unequal_cranks(q, t, lengths):
    """The third crank is longer: rows that were redundant contradict the others."""
    rows = _parallelogram(q, t, lengths)
    return [*rows[:2], _rod((2 * lengths[1], 0), q[4:6], 3.5 * lengths[0]), *rows[3:]]


def _driven_parallelogram(q, t, lengths):
    rows = _parallelogram(q, t, lengths)
    return [*rows[:4], _angle(q[6], q[0:2], lengths[0]), *rows[4:]]


def _pendulum(q, t, lengths):
    return [q[0] - lengths[0] * jnp.cos(q[2]), q[1] - lengths[0] * jnp.sin(q[2])]


def _slider_crank(q, t, lengths):
    crank, rod = lengths
    return [
        q[0] - crank * jnp.cos(q[3]),
        q[1] - crank * jnp.sin(q[3]),
        (q[2] - q[0]) ** 2 + q[1] ** 2 - rod**2,
    ]


def _driven_pendulum(q, t, lengths):
    return [*_pendulum(q, t, lengths), q[2] - 0.3 - 0.5 * t - 0.2 * t**2]


def _truss(q, t, lengths):
    return [_rod((0, 0), q, lengths[0]), _rod((2, 0), q, lengths[1])]


def _double_pendulum(q, t, lengths):
    return [_rod((0, 0), q[0:2], lengths[0]), _rod(q[0:2], q[2:4], lengths[1])]


def _contradiction(q, t, lengths):
    return [q[0] - lengths[0], q[0] - lengths[1]]


ROWS = {
    "fourbar": _fourbar,
    "fourbar_angle": _fourbar_angle,
    "parallelogram": _parallelogram,
    "unequal_cranks": _unequal_cranks,
    "driven_parallelogram": _driven_parallelogram,
    "pendulum": _pendulum,
    "slider_crank": _slider_crank,
    "driven_pendulum": _driven_pendulum,
    "truss": _truss,
    "double_pendulum": _double_pendulum,
    "contradiction": _contradiction,
}


def _linkage(rows, lengths, reference, coordinates, constraints):
    return Linkage(
        jnp.asarray(lengths, float),
        jnp.asarray(reference, float),
        rows,
        tuple(coordinates.split()),
        tuple(constraints.split()),
    )


FOURBAR_LENGTHS = (1.0, 2.0, np.sqrt(13.0), 4.0)


def fourbar(lengths=FOURBAR_LENGTHS):
    """A = (0, 0), D = (4, 0): crank 1 m, coupler 2 m, rocker √13 m. The crank turns fully."""
    return _linkage("fourbar", lengths, (1, 0, 1, 2), "x1 y1 x2 y2", "crank coupler rocker")


def fourbar_angle(lengths=FOURBAR_LENGTHS):
    return _linkage("fourbar_angle", lengths, (1, 0, 1, 2, 0), "x1 y1 x2 y2 theta", "crank coupler rocker crank-angle")


def parallelogram(crank=1.0):
    reference = (0.6, 0.8, 2.6, 0.8, 4.6, 0.8)
    names = "crank1 crank2 crank3 coupler line-x line-y"
    return _linkage("parallelogram", (crank, 2), reference, "x1 y1 x2 y2 x3 y3", names)


def driven_parallelogram(crank=1.0):
    angle = 0.5
    x, y = crank * np.cos(angle), crank * np.sin(angle)
    names = "crank1 crank2 crank3 coupler crank-angle line-x line-y"
    return _linkage(
        "driven_parallelogram", (crank, 2), (x, y, x + 2, y, x + 4, y, angle), "x1 y1 x2 y2 x3 y3 theta", names
    )


def unequal_cranks():
    names = "crank1 crank2 crank3 coupler line-x line-y"
    return _linkage("unequal_cranks", (1, 2), parallelogram().reference, "x1 y1 x2 y2 x3 y3", names)


def pendulum(length=2.0):
    return _linkage("pendulum", (length,), (length, 0, 0), "x y theta", "rod-x rod-y")


def slider_crank(crank=1.0, rod=3.0):
    reference = (crank, 0, crank + rod, 0)
    return _linkage("slider_crank", (crank, rod), reference, "x1 y1 x_slider theta", "crank-x crank-y rod")


def driven_pendulum(length=2.0):
    reference = (length * np.cos(0.3), length * np.sin(0.3), 0.3)
    return _linkage("driven_pendulum", (length,), reference, "x y theta", "rod-x rod-y motor")


def truss(left=2**0.5, right=2**0.5):
    """Two rods from (0, 0) and (2, 0) to one point: no degree of freedom."""
    return _linkage("truss", (left, right), (1, 1), "x y", "left right")


def double_pendulum(upper=1.0, lower=1.0):
    return _linkage("double_pendulum", (upper, lower), (1, 0, 2, 0), "x1 y1 x2 y2", "upper lower")


def contradiction(first=1.0, second=2.0):
    return _linkage("contradiction", (first, second), (1.4, 0), "x y", "here there")


def circles(a, radius_a, b, radius_b, side):
    """The intersection of two circles that lies left (+1) or right (−1) of a → b."""
    a, b = np.asarray(a, float), np.asarray(b, float)
    d = np.linalg.norm(b - a)
    e = (b - a) / d
    along = (d**2 + radius_a**2 - radius_b**2) / (2 * d)
    return a + along * e + side * np.sqrt(radius_a**2 - along**2) * np.array([-e[1], e[0]])


def fourbar_pose(theta, side=1, lengths=FOURBAR_LENGTHS):
    """x1, y1, x2, y2 of the four-bar in closed form."""
    crank, coupler, rocker, base = lengths
    p1 = crank * np.array([np.cos(theta), np.sin(theta)])
    return np.concatenate([p1, circles(p1, coupler, (base, 0), rocker, side)])
