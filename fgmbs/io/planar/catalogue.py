"""Mechanisms that are made by a rule instead of drawn in a file."""

from fgmbs.errors import ArgumentError
from fgmbs.mechanisms.planar.description import MechanismDescription


def chain(links: int) -> MechanismDescription:
    """A hanging chain of equal uniform rods, stretched out along +X from the ground, for the study of scaling.

    As a whole it is as long and as heavy as the parameters `L` [m] and `m` [kg] say, whatever its number of links.
    """
    if links < 1:
        raise ArgumentError(f"links: expected at least 1; found {links}")
    return MechanismDescription.model_validate(
        {
            "name": f"chain{links}",
            "parameters": {"L": 1.0, "m": 1.0, "link": f"L/{links}"},
            "points": [{"x": 0, "y": 0, "fixed": True}, *({"x": f"{i}*link", "y": 0} for i in range(1, links + 1))],
            "planar_bodies": [
                {
                    "name": f"link{i + 1}",
                    "points": [i, i + 1],
                    "length": "link",
                    "mass": f"m/{links}",
                    "I0": "mass*length^2/3",
                    "cog": ["length/2", 0],
                }
                for i in range(links)
            ],
        }
    )
