"""One mechanism with every kind of element, and the reference mechanisms."""

import jax
import jax.numpy as jnp
import pytest

from fgmbs.io.planar.load import parse_mechanism, read_mechanism
from fgmbs.mechanisms.planar.mechanism import PlanarMechanism

EVERYTHING = """
parameters: {L: 1.2, k: 30.0, w: 3*L}
points:
  - {x: 0.0, y: 0.0, fixed: true, name: A}
  - {x: L, y: 0.1, name: B}
  - {x: 1.8, y: 1.1}
  - {x: 3.0, y: 0.0, fixed: true, name: D}
  - {x: 1.9, y: 0.4}
  - {x: 2.5, y: -0.6, name: F}
  - {x: 1.5, y: 0.6, name: G}
  - {x: 0.6, y: 0.4, name: H}
planar_bodies:
  - {points: [A, B], length: L, mass: 1.5, I0: mass*length^2/3, cog: [0.4*length, 0.05], name: crank}
  - {points: [B, 2, 4], mass: 2.0, I0: mass*length13^2, cog: [0.5*length12, -0.1], name: coupler}
  - {points: [D, 2], length: auto, mass: 0.8, I0: 0.9, cog: [0.6, 0.0]}
  - {points: [4, F], length: auto, mass: 0.3, I0: 0.2, cog: [0.5*auto, 0.0]}
relative_coordinates:
  - {type: RelativeAngleAbsoluteDOF, points: [A, B], name: theta}
  - {type: RelativeAngleDOF, points: [[A, B], [B, 2]], name: phi}
  - {type: RelativeAngleAbsoluteDOF, points: [D, 2]}
constraints:
  - {type: fixed_slider, point: F, line: [[0.0, -0.6], [w, -0.6]]}
  - {type: mobile_slider, point: G, line: [B, 2]}
  - {type: distance, points: [G, 4], length: 0.5*auto}
  - {type: rigid, points: [A, B], point: H, offset: auto}
  - {type: gear, angles: [theta, phi], ratio: -2.0, offset: auto, name: mesh}
  - {type: motion, coordinate: theta, value: 0.3*sin(w*t) + 0.1, name: drive}
  - {type: motion, coordinate: x_F, value: 2.5}
springs:
  - {points: [A, 4], stiffness: k, free_length: 0.9*auto, name: tie}
  - {points: [2, F], stiffness: 2*k}
  - {angle: theta, stiffness: 4.0, free_angle: 0.2}
dampers:
  - {points: [B, F], damping: 2.5}
  - {angle: phi, damping: 0.7}
forces:
  - {point: F, force: [3.0, -1.0]}
  - {point: B, force: [2*sin(w*t), t^2]}
  - {point: D, force: [100.0, 100.0]}
  - {angle: phi, torque: 1.5}
  - {body: coupler, torque: 0.5*cos(t)}
initial_velocities: {theta: 2.0, x_B: -0.3*L}
"""

REFERENCES = ("fourbars1", "fourbars1-with-rel-angle", "pendulum1", "pick-and-place-robot")


@pytest.fixture(scope="session")
def everything() -> PlanarMechanism:
    return PlanarMechanism.from_description(parse_mechanism(EVERYTHING))


@pytest.fixture(scope="session")
def references(data_dir) -> dict[str, PlanarMechanism]:
    """The mechanisms of the reference implementation, by file name."""
    folder = data_dir / "multibody-factor-graphs" / "mechanisms"
    return {n: PlanarMechanism.from_description(read_mechanism(folder / f"{n}.yaml")) for n in REFERENCES}


@pytest.fixture(scope="session")
def state(everything):
    """Coordinates, velocities and a time at which nothing is special."""
    keys = jax.random.split(jax.random.key(5))
    q = everything.reference + 0.1 * jax.random.normal(keys[0], (everything.n,))
    return q, jax.random.normal(keys[1], (everything.n,)), jnp.asarray(0.7)
