"""The coordinate or velocity that a sensor reads."""

from fgmbs.errors import ArgumentError

_KINDS = {"m": "a length", "rad": "an angle"}


def check_unit(name: str, unit: str, own: str) -> None:
    """Refuses to read the coordinate or velocity `name` in another unit than its own; "SI" is any.

    Raises:
        ArgumentError: Says what it is.
    """
    kind = _KINDS.get(own.removesuffix("/s"))
    if kind is None and own != "SI":
        raise ArgumentError(f"of: expected an angle or a length; found {name!r}, which is a number [{own}]")
    if own not in (unit, "SI"):
        raise ArgumentError(f"unit: expected {own!r} for {name!r}, which is {kind}; found {unit!r}")
