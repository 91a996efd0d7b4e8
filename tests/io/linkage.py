"""The mechanism file that the tests of `fgmbs.io` change and break."""

import pytest

from fgmbs.errors import DescriptionError
from fgmbs.io.planar.load import parse_mechanism

FOURBAR = """\
%YAML 1.2
---
parameters:
  L: 1.0
  xb: 4.0
points:
  - {name: A, x: 0, y: 0, fixed: true}
  - {x: L, y: 0}
  - {x: L, y: 2*L}
  - {name: B, x: xb, y: 0, fixed: true}
planar_bodies:
  - points: [A, 1]
    length: L
    mass: 1.0
    I0: (1/3)*mass*length^2
    cog: [0.5*length, 0.0]
  - points: [1, 2]
    name: coupler
    mass: 2.0
    I0: (1/3)*mass*length^2
    cog: [0.5*length, 0.0]
  - {points: [2, B], mass: 4, I0: mass*length^2/3, cog: [0.5*length, 0.0]}
relative_coordinates:
  - {name: theta, type: RelativeAngleAbsoluteDOF, points: [A, 1]}
"""


def faults_of(text):
    with pytest.raises(DescriptionError) as caught:
        parse_mechanism(text, source="bar.yaml")
    return caught.value.faults


def changed(old, new):
    assert FOURBAR.count(old) == 1, old
    return FOURBAR.replace(old, new)
