"""Where the recordings of the rigs are."""

import os
from pathlib import Path

DATA = Path(os.environ.get("FGMBS_DATA", Path(__file__).parents[3] / "shared" / "data")) / "measured"


def recorded(rig: str, name: str) -> Path:
    """A file of measurements.

    Raises:
        SystemExit: There is none.
    """
    path = DATA / rig / name
    if not path.exists():
        raise SystemExit(f"no measurements at {path}; set FGMBS_DATA to the folder with measured")
    return path
