"""Random planar linkages, and a formulation of them that has nothing in common with the one under test: every body has
the place of its centre of mass and an angle, every joint its rows; in NumPy, dense, solved with residuals of more than
double precision."""

from dataclasses import dataclass, field

import numpy as np
from scipy.integrate import solve_ivp

import fgmbs
from fgmbs import planar

TURN = np.array([[0.0, -1.0], [1.0, 0.0]])
GRAVITY = np.array([0.3, -9.81])


def cross(a, b):
    return a[0] * b[1] - a[1] * b[0]


@dataclass
class Body:
    """A rigid body in the drawn pose."""

    points: tuple[str, ...]
    mass: float
    inertia: float
    """About the centre of mass."""
    centre: np.ndarray


@dataclass
class Linkage:
    """Points as drawn, bodies, and what else holds them; joints are where bodies share a point."""

    points: dict[str, np.ndarray]
    fixed: tuple[str, ...]
    bodies: dict[str, Body]
    lines: dict[str, np.ndarray] = field(default_factory=dict)
    """Directions of fixed lines, by the point that slides."""
    rails: tuple[tuple[str, str, str], ...] = ()
    """(point, start, end): the point slides on the line of two others."""
    rods: tuple[tuple[str, str], ...] = ()
    """Massless rods between points."""
    gears: tuple[tuple[str, str, float], ...] = ()
    """(body, body, ratio): turned by the first − ratio · turned by the second is constant."""
    springs: tuple[tuple[str, str, float, float, float], ...] = ()
    """(point, point, stiffness, free length, damping)."""
    driven: tuple[str, ...] = ("crank",)
    """Bodies with motors, one for each degree of freedom."""

    def __post_init__(self):
        self.at = {}  # (body or None, local place) by point, of every body that has it
        for name, place in self.points.items():
            holders = [(body, place - b.centre) for body, b in enumerate(self.bodies.values()) if name in b.points]
            self.at[name] = ([(None, place)] if name in self.fixed else []) + holders
        each = self.bodies.values()
        self.M = np.diag(np.concatenate([[b.mass, b.mass, b.inertia] for b in each]))
        self.weight = np.concatenate([[*(b.mass * GRAVITY), 0.0] for b in each])
        self.drawn = np.concatenate([[*b.centre, 0.0] for b in each])
        self.number = {name: k for k, name in enumerate(self.bodies)}

    def mechanism(self) -> fgmbs.PlanarMechanism:
        """As a user writes it."""
        parts = [planar.point(name, *map(float, p), fixed=name in self.fixed) for name, p in self.points.items()]
        for name, b in self.bodies.items():
            first, second = (self.points[p] for p in b.points[:2])
            along = (second - first) / np.linalg.norm(second - first)
            arm = b.centre - first
            cog = float(arm @ along), float(cross(along, arm))
            I0 = float(b.inertia + b.mass * arm @ arm)
            parts += [
                planar.body(name, *b.points, mass=b.mass, I0=I0, cog=cog),
                planar.absolute_angle(f"of_{name}", *b.points[:2]),
            ]
        for name, along in self.lines.items():
            ends = (tuple(map(float, self.points[name] + s * along)) for s in (-0.4, 0.6))
            parts.append(planar.fixed_slider(f"line_{name}", name, *ends))
        parts += [planar.mobile_slider(f"rail_{p}", p, start, end) for p, start, end in self.rails]
        parts += [planar.distance(f"rod_{a}{b}", a, b) for a, b in self.rods]
        parts += [planar.gear(f"gear_{a}{b}", f"of_{a}", f"of_{b}", ratio) for a, b, ratio in self.gears]
        for a, b, k, free, c in self.springs:
            parts += [planar.spring(f"spring_{a}{b}", a, b, k, free), planar.damper(f"damper_{a}{b}", a, b, c)]
        parts += [planar.actuator(f"motor_{name}", angle=f"of_{name}") for name in self.driven]
        return planar.mechanism(*parts, gravity=tuple(map(float, GRAVITY)))

    def place(self, holder, x, dx):
        """(place, Jacobian, velocity, acceleration without that of the coordinates) of a point of a body."""
        body, s = holder
        J = np.zeros((2, len(x)))
        if body is None:
            return s, J, np.zeros(2), np.zeros(2)
        (a, b, angle), w = x[3 * body : 3 * body + 3], dx[3 * body + 2]
        turned = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]) @ s
        J[:, 3 * body : 3 * body + 2], J[:, 3 * body + 2] = np.eye(2), TURN @ turned
        return np.array([a, b]) + turned, J, J @ dx, -turned * w**2

    def point(self, name, x, dx):
        return self.place(self.at[name][0], x, dx)

    def joints(self, x, dx):
        """(values, what they are by places: (point, holder, gradient), rest of their second derivatives) of each."""
        for name, holders in self.at.items():
            for holder in holders[1:]:
                (r0, *_), (r, *_) = self.place(holders[0], x, dx), self.place(holder, x, dx)
                yield r - r0, [(name, holders[0], -np.eye(2)), (name, holder, np.eye(2))], np.zeros(2)
        for name, along in self.lines.items():
            n = (TURN @ along)[None]
            yield n @ (self.point(name, x, dx)[0] - self.points[name]), [(name, self.at[name][0], n)], np.zeros(1)
        for names in self.rails:
            (p, _, vp, _), (s, _, vs, _), (e, _, ve, _) = (self.point(k, x, dx) for k in names)
            u, w = e - s, p - s
            of_p, of_e = -(TURN.T @ u)[None], (TURN.T @ w)[None]
            parts = zip(names, (of_p, -of_p - of_e, of_e), strict=True)
            yield cross(u, w)[None], [(k, self.at[k][0], G) for k, G in parts], 2 * cross(ve - vs, vp - vs)[None]
        for a, b in self.rods:
            (p, _, vp, _), (s, _, vs, _) = self.point(a, x, dx), self.point(b, x, dx)
            d, drawn, v = p - s, self.points[a] - self.points[b], vp - vs
            ends = [(a, self.at[a][0], d[None]), (b, self.at[b][0], -d[None])]
            yield (d @ d - drawn @ drawn)[None] / 2, ends, (v @ v)[None]

    def rows(self, x, dx):
        """(Φ, Φ_q, −d(Φ_q)/dt dx)."""
        values, jacobians, biases = [], [], []
        for value, parts, rest in self.joints(x, dx):
            ends = [(G, *self.place(holder, x, dx)) for _, holder, G in parts]
            values.extend(value)
            jacobians.append(sum(G @ J for G, _, J, _, _ in ends))
            biases.extend(-rest - sum(G @ b for G, *_, b in ends))
        for a, b, ratio in self.gears:
            J = np.zeros(len(x))
            J[3 * self.number[a] + 2], J[3 * self.number[b] + 2] = 1.0, -ratio
            values.append(J @ x)
            jacobians.append(J[None])
            biases.append(0.0)
        return np.array(values), np.vstack(jacobians), np.array(biases)

    def pushes(self, x, dx):
        """(point, holder, force) of the springs and dampers."""
        for a, b, k, free, c in self.springs:
            (p, _, vp, _), (s, _, vs, _) = self.point(a, x, dx), self.point(b, x, dx)
            d = p - s
            length = np.linalg.norm(d)
            force = -(k * (length - free) + c * d @ (vp - vs) / length) * d / length
            yield a, self.at[a][0], force
            yield b, self.at[b][0], -force

    def forces(self, x, dx):
        return self.weight + sum(force @ self.place(holder, x, dx)[1] for _, holder, force in self.pushes(x, dx))

    def accelerations(self, x, dx):
        """(accelerations, multipliers) without motors."""
        _, J, bias = self.rows(x, dx)
        K = np.block([[self.M, J.T], [J, np.zeros((len(J), len(J)))]])
        found = solved(K, np.concatenate([self.forces(x, dx), bias]))
        return found[: len(x)], found[len(x) :]

    def torques(self, x, dx, wanted, effort):
        """Torques on these bodies, of least Σ (torque/effort)², with which the followed have these accelerations."""
        n, (_, J, bias) = len(x), self.rows(x, dx)
        parts = [self.followed(name, x, dx) for name in wanted]
        both = np.vstack([J, *(row for _, row, _ in parts)])
        bias = np.append(bias, [value - rest for value, (_, _, rest) in zip(wanted.values(), parts, strict=True)])
        K = np.block([[np.eye(n), both.T], [both, np.zeros((len(both), len(both)))]])
        ddx = solved(K, np.concatenate([np.zeros(n), bias]))[:n]
        # Least effort, so that torques and multipliers balance what is left: M ẍ − Q = Bᵀ u − Jᵀ λ.
        B = np.array([np.eye(n)[3 * self.number[name] + 2] for name in effort])
        k, balance = len(B), np.vstack([B, -J])
        K = np.zeros((len(balance) + n, len(balance) + n))
        K[:k, :k] = np.diag([1.0 / size**2 for size in effort.values()])
        K[: len(balance), len(balance) :], K[len(balance) :, : len(balance)] = balance, balance.T
        return solved(K, np.concatenate([np.zeros(len(balance)), self.M @ ddx - self.forces(x, dx)]))[:k]

    def joint_forces(self, x, dx, multipliers):
        """Forces on bodies at their points, as "BODY@POINT", of all that meets there."""
        names, found, k = (
            list(self.bodies),
            {f"{b}@{p}": np.zeros(2) for b in self.bodies for p in self.bodies[b].points},
            0,
        )
        shares = list(self.pushes(x, dx))
        for value, parts, _ in self.joints(x, dx):
            shares += [(point, holder, -multipliers[k : k + len(value)] @ G) for point, holder, G in parts]
            k += len(value)
        for point, (body, _), force in shares:
            if body is not None:
                found[f"{names[body]}@{point}"] += force
        return found

    def followed(self, name, x, dx):
        """(value, Jacobian, rest of the second derivative) of the turn of a body since the drawing, or of "x_POINT"."""
        if name in self.number:
            k = 3 * self.number[name] + 2
            return x[k], np.eye(len(x))[k], 0.0
        axis, point = name.split("_")
        place, J, _, rest = self.point(point, x, dx)
        k = "xy".index(axis)
        return place[k], J[k], rest[k]

    def closed(self, x, wanted=None):
        """The nearest pose that is closed, and in which the followed have these values."""
        for _ in range(50):
            values, J, _ = self.rows(x, 0 * x)
            for name, value in (wanted or {}).items():
                reached, row, _ = self.followed(name, x, 0 * x)
                values, J = np.append(values, reached - value), np.vstack([J, row])
            step = np.linalg.lstsq(J, values, rcond=1e-12)[0]
            x = x - step
            if np.abs(step).max() < 1e-15 * max(1.0, np.abs(x).max()):
                break
        return x

    def tangents(self, x):
        """A basis of the velocities that are possible."""
        _, s, Vt = np.linalg.svd(self.rows(x, 0 * x)[1])
        return Vt[int(np.sum(s > 1e-9 * s[0])) :].T

    def driven_rows(self, x, names):
        """Rows of the joints, and of what is followed."""
        return np.vstack([self.rows(x, 0 * x)[1], *(self.followed(name, x, 0 * x)[1] for name in names)])

    def velocities(self, x, rates):
        """Velocities with which the followed move so."""
        J = self.driven_rows(x, rates)
        return np.linalg.lstsq(J, np.append(np.zeros(len(J) - len(rates)), [*rates.values()]), rcond=1e-12)[0]

    def margin(self, x, names=()):
        """Least singular value of rows made equally long, as many as are independent in the drawing."""
        J, independent = self.driven_rows(x, names), np.linalg.matrix_rank(self.driven_rows(self.drawn, names))
        return np.linalg.svd(J / np.linalg.norm(J, axis=1, keepdims=True), compute_uv=False)[independent - 1]

    def motion(self, x, dx, times):
        """(x, dx) at the times, integrated with the strictest tolerance that pays."""
        n = len(x)

        def slope(_, y):
            return np.concatenate([y[n:], self.accelerations(y[:n], y[n:])[0]])

        found = solve_ivp(slope, (0.0, times[-1]), [*x, *dx], "DOP853", times, rtol=3e-12, atol=1e-12)
        return found.y[:n].T, found.y[n:].T

    def seen(self, x, dx, ddx=None):
        """Coordinates of `mechanism`: velocities, or accelerations if there are any."""
        found = []
        for name in self.points:
            if name not in self.fixed:
                p, J, v, b = self.point(name, x, dx)
                found += [*(v if ddx is None else J @ ddx + b)]
        turned = dx if ddx is None else ddx
        return np.array([*found, *turned[2::3]])

    def seen_at(self, x):
        """Places of the free points, and how far the bodies have turned."""
        free = [self.point(name, x, 0 * x)[0] for name in self.points if name not in self.fixed]
        return np.concatenate([*free, x[2::3]])


def solved(K, b):
    """Solution of least norm of a symmetric system, refined by residuals of extended precision."""
    size = np.sqrt(np.maximum(np.abs(np.diag(K)), 0.0))
    size = np.where(size > 0, size, 1.0)
    short = np.max(np.abs(K) / size, axis=1)  # rows of constraints: of the size of one over accelerations
    size = np.where(np.diag(K) != 0, size, short)
    scaled = K / np.outer(size, size)
    inverse = np.linalg.pinv(scaled, rcond=1e-11, hermitian=True)
    exact, right = K.astype(np.longdouble), np.asarray(b, np.longdouble)
    x = np.zeros(len(b), np.longdouble)
    for _ in range(4):
        residual = np.asarray(right - exact @ x, float)
        x = x + (inverse @ (residual / size)) / size
    return np.asarray(x, float)


# ----------------------------------------------------------------------------------------------------------------------


def _bar(rng, points, *names):
    """A body of these points, of random mass, centre and inertia."""
    places = np.array([points[name] for name in names])
    length = np.linalg.norm(places[1] - places[0])
    mass = float(10 ** rng.uniform(-0.7, 0.7))
    centre = places.mean(axis=0) + length * rng.uniform(-0.2, 0.2, 2)
    return Body(names, mass, float(mass * length**2 * rng.uniform(0.05, 0.3)), centre)


def _points(rng, **about):
    """Points near those given, up to 0.35 in each direction."""
    return {name: np.array(place, float) + rng.uniform(-0.35, 0.35, 2) for name, place in about.items()}


def _linkage(rng, points, fixed, bodies, **more):
    return Linkage(points, tuple(fixed), {name: _bar(rng, points, *names) for name, names in bodies.items()}, **more)


def four_bar(rng):
    """Any lengths: cranks, rockers, triple rockers, change points nearly."""
    lengths = rng.uniform(0.3, 1.5, 2)
    points = {"A": np.zeros(2), "D": np.array([rng.uniform(0.3, 2.5), rng.uniform(-0.3, 0.3)])}
    for name, origin, length in zip("BC", "AD", lengths, strict=True):
        angle = rng.uniform(-np.pi, np.pi)
        points[name] = points[origin] + length * np.array([np.cos(angle), np.sin(angle)])
    return _linkage(rng, points, "AD", dict(crank="AB", coupler="BC", rocker="DC"))


def watt(rng):
    """Watt's six-bar: two bodies of three points next to each other."""
    points = _points(rng, A=(0, 0), D=(3, 0), B=(0.3, 1), C=(2.4, 1.6), E=(1.4, 2.3), F=(2.6, 3), G=(3.6, 1.8))
    bodies = dict(crank="AB", plate="BCE", rocker="DCG", upper="EF", last="GF")
    return _linkage(rng, points, "AD", bodies)


def stephenson(rng):
    """Stephenson's six-bar: a body of three points on a crank and a rocker, whose third carries a dyad."""
    points = _points(rng, A=(0, 0), D=(3, 0), B=(0.3, 1), C=(2.4, 1.6), E=(1.4, 2.3), F=(3.4, 2.9), H=(5, 0.5))
    bodies = dict(crank="AB", plate="BCE", rocker="DC", link="EF", last="HF")
    return _linkage(rng, points, "ADH", bodies)


def slider_crank(rng):
    """On an inclined line with an offset."""
    points = _points(rng, A=(0, 0), B=(0.3, 0.7), C=(2.6, 0.2))
    angle = rng.uniform(-0.7, 0.7)
    line = {"C": np.array([np.cos(angle), np.sin(angle)])}
    return _linkage(rng, points, "A", dict(crank="AB", rod="BC"), lines=line)


def quick_return(rng):
    """A crank whose pin slides along a rocker."""
    points = _points(rng, A=(0, 0), B=(0.3, 0.9), D=(0.5, -1.8))
    along = points["B"] - points["D"]
    points["E"] = points["D"] + along * rng.uniform(1.3, 1.8)
    return _linkage(rng, points, "AD", dict(crank="AB", rocker="DE"), rails=(("B", "D", "E"),))


def five_bar(rng):
    points = _points(rng, A=(0, 0), E=(2, 0), B=(-0.5, 1.2), D=(2.6, 1.1), C=(1, 2.4))
    return _linkage(rng, points, "AE", dict(left="AB", arm="BC", fore="DC", right="ED"), driven=("left", "right"))


def geared_five_bar(rng):
    linkage = five_bar(rng)
    ratio = float(rng.choice([-2.0, -1.0, -0.5, 0.5, 1.0, 3.0]))
    return Linkage(linkage.points, linkage.fixed, linkage.bodies, gears=(("left", "right", ratio),), driven=("left",))


def pendulum(rng):
    """Three links that hang on each other, the second with four points; springs and dampers between them."""
    points = _points(
        rng, A=(0, 0), B=(0.8, -0.6), C=(1.9, -0.7), F=(1.4, -1.5), G=(1.2, 0.2), H=(2.8, -1.6), S=(3, 0.9)
    )
    bodies = dict(upper="AB", plate="BCFG", lower="CH")
    springs = (("G", "S", 8.0, 1.1, 0.6), ("A", "F", 15.0, 1.2, 0.3), ("B", "H", 5.0, 1.0, 0.1))
    return _linkage(rng, points, "AS", bodies, springs=springs, driven=tuple(bodies))


def trammel(rng):
    """Both ends of a rod on lines, a pendulum on it."""
    points = _points(rng, A=(1.2, 0), B=(0, 1.4), C=(1.1, 1.3), E=(1.6, 0.1))
    angles = rng.uniform(-0.3, 0.3, 2) + [0.0, np.pi / 2]
    lines = {name: np.array([np.cos(a), np.sin(a)]) for name, a in zip("AB", angles, strict=True)}
    return _linkage(rng, points, "", dict(rod="ABC", bob="CE"), lines=lines, driven=("rod", "bob"))


def parallelogram(rng):
    """Three equal cranks: one of its rows says nothing new."""
    crank = np.array([rng.uniform(-0.5, 0.5), rng.uniform(0.7, 1.3)])
    points = {name: np.array([x, rng.uniform(-0.2, 0.2)]) for name, x in (("A", 0.0), ("D", 1.3), ("G", 2.9))}
    points |= {end: points[base] + crank for base, end in ("AB", "DE", "GH")}
    return _linkage(rng, points, "ADG", dict(crank="AB", beam="BEH", second="DE", third="GH"))


def toggle(rng):
    """A crank with rods of no mass to a slider and to a rocker."""
    points = _points(rng, A=(0, 0), B=(0.4, 0.9), C=(2.3, 1.1), D=(2.6, -0.4), E=(4.1, 0.4))
    line = {"E": np.array([1.0, rng.uniform(-0.2, 0.2)])}
    bodies = dict(crank="AB", rocker="DC", tail="CE")
    return _linkage(rng, points, "AD", bodies, lines=line, rods=(("B", "C"),))


KINDS = (
    four_bar,
    watt,
    stephenson,
    slider_crank,
    quick_return,
    five_bar,
    geared_five_bar,
    pendulum,
    trammel,
    parallelogram,
    toggle,
)

PATHS = {
    four_bar: ("x_C",),
    watt: ("y_F",),
    stephenson: ("x_F",),
    slider_crank: ("x_C",),
    quick_return: ("x_E",),
    five_bar: ("x_C", "y_C"),
    geared_five_bar: ("y_C",),
    pendulum: ("x_H", "y_H", "upper"),
    trammel: ("x_E", "y_E"),
    parallelogram: ("x_H",),
    toggle: ("x_E",),
}
"""What is desired of an end point, and of a body beside it: as many coordinates as there are degrees of freedom."""

SECOND_MOTORS = {
    four_bar: ("rocker",),
    watt: ("last",),
    stephenson: ("last", "rocker"),
    slider_crank: ("rod",),
    quick_return: ("rocker",),
    five_bar: ("arm",),
    geared_five_bar: ("right", "fore"),
    parallelogram: ("second", "third"),
    toggle: ("rocker", "tail"),
}
"""Bodies with motors beside those of which there is one for each degree of freedom."""
