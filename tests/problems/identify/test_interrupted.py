"""Ctrl-C: what there is is kept, however early."""

import pytest
from rod import INPUTS, START, measured, rod

import fgmbs
from fgmbs.errors import Interrupted


@pytest.mark.parametrize("doing", ["solving along the first motion", "solving with larger forces"])
def test_what_there_is_is_kept(doing):
    sensors, recording = measured(rod(2.0, 0.8), 2e-2, seed=1)

    def progress(what, *_):
        if what == doing:
            raise KeyboardInterrupt

    free = ["rod.mass", "rod.I0"]
    with pytest.raises(Interrupted, match="interrupted after") as caught:
        fgmbs.identify(rod(1.5, 1.0), recording, sensors, INPUTS, free=free, start=START, progress=progress)
    found = caught.value.result
    assert isinstance(found, fgmbs.Identification) and "interrupted" in found.notes
    first = doing == "solving along the first motion"
    assert found.parameters["rod.mass"] == pytest.approx(1.5 if first else 2.0, rel=1e-3 if first else 0.2)
    assert found.states.q.shape[0] == 201 and found.report()
