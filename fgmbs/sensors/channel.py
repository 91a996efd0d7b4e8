"""What every sensor has besides what it measures: name, columns, noise, calibration."""

from collections.abc import Sequence
from typing import Any, Required, TypedDict

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from fgmbs.arguments import Numbers, finite, nearest, refuse
from fgmbs.errors import ArgumentError
from fgmbs.losses import AbstractLoss
from fgmbs.unknowns import Unknown, known, number


class ChannelOptions(TypedDict, total=False):
    """Arguments that all sensors take; the noise and each of the calibration numbers may be `Unknown`."""

    sigma: Required[Numbers | Unknown]
    """Standard deviation of the noise, one number or one for each row, in the unit of the reading. If it is unknown,
    the search begins at its value, and the standard deviation of its own is relative."""
    columns: str | Sequence[str] | None
    """Signal of the recording for each row; by default the name, for several rows NAME.x, NAME.y, NAME.z."""
    bias: Numbers | Unknown | None
    """Added to every reading, one number or one for each row."""
    gain: Numbers | Unknown | None
    """Unit of the reading per SI unit."""
    delay: Numbers | Unknown | None
    """How much later than it happens a value is stamped [s]."""
    misalignment: Numbers | Unknown | None
    """How far a sensor of two axes is turned from where it is meant to be, from its first axis to its second; of one of
    three axes the rotation vector in these, three numbers or one for all [rad]."""
    resolution: Numbers
    """Step of the readings, in their unit; 0 for fine ones."""
    time_sigma: Numbers | Unknown | None
    """Standard deviation of the stamps around the times that were read [s]. By default it is found where the stamps of
    a recording are irregular, and 0 elsewhere; it may be `Unknown`, as `sigma`."""
    loss: AbstractLoss | None
    """Robust loss for outliers."""


_OPTIONS = tuple(ChannelOptions.__annotations__)


class Channel(eqx.Module):
    """Name, columns, noise and calibration of a sensor; see `ChannelOptions`."""

    name: str = eqx.field(static=True)
    columns: tuple[str, ...] = eqx.field(static=True)
    group: int = eqx.field(static=True)
    """Rows that read one thing: calibration and robust losses are of each group by itself."""
    sigma: Float[Array, "*rows"] | Unknown
    resolution: Float[Array, ""]
    calibration: dict[str, Float[Array, "*rows"] | Unknown]
    """The calibration numbers there are, by name: `bias`, `gain`, `delay`, `misalignment`."""
    time_sigma: Float[Array, ""] | Unknown | None
    loss: AbstractLoss | None

    def __init__(
        self,
        name: str,
        rows: int,
        *,
        group: int | None = None,
        sigma: Numbers | Unknown | None = None,
        columns: str | Sequence[str] | None = None,
        bias: Numbers | Unknown | None = None,
        gain: Numbers | Unknown | None = None,
        delay: Numbers | Unknown | None = None,
        misalignment: Numbers | Unknown | None = None,
        resolution: Numbers = 0.0,
        time_sigma: Numbers | Unknown | None = None,
        loss: AbstractLoss | None = None,
        **unknown: object,
    ):
        if not isinstance(name, str) or not name:
            raise ArgumentError(f"name: expected a text; found {name!r}")
        self.name, self.group = name, group or rows
        try:
            for key in unknown:
                raise ArgumentError(f"there is no argument {key!r}{nearest(key, _OPTIONS, 'those of all sensors')}")
            if sigma is None:
                raise ArgumentError(
                    "sigma: expected the standard deviation of its noise, in the unit of its readings; found none; "
                    "Unknown(0.01) finds it from there on"
                )
            self.columns = _columns(name, rows, columns)
            self.sigma = _fitting("sigma", _positive("sigma", sigma), (rows,), whole=False)
            self.resolution = _fitting("resolution", jnp.asarray(finite("resolution", resolution), dtype=float), ())
            if not isinstance(self.resolution, Tracer) and float(self.resolution) < 0:
                raise ArgumentError(f"resolution: expected a positive number or 0; found {float(self.resolution):g}")
            self.time_sigma = None
            if time_sigma is not None:
                spread = finite("time_sigma", known(time_sigma))
                if isinstance(spread, np.ndarray):
                    refuse("time_sigma", spread, spread < 0, "a positive number or 0")
                self.time_sigma = _fitting("time_sigma", number("time_sigma", time_sigma), ())
            if misalignment is not None and self.group not in (2, 3):
                found = "one row" if rows == 1 else f"{rows} rows"
                raise ArgumentError(f"misalignment: only for sensors of two axes or three; this one has {found}")
            calibration = {}
            given = {"bias": bias, "gain": gain, "delay": delay, "misalignment": misalignment}
            for key, value in given.items():
                shape = (self.group,) if key == "bias" or (key == "misalignment" and self.group == 3) else ()
                if value is not None:
                    calibration[key] = _fitting(key, number(key, value), shape)
            gain = known(calibration.get("gain"))
            if gain is not None and not isinstance(gain, Tracer) and gain == 0:
                raise ArgumentError("gain: expected a number other than 0; found 0")
        except ArgumentError as error:
            raise ArgumentError(f"sensor {name!r}: {error}") from None
        self.calibration, self.loss = calibration, loss

    @property
    def rows(self) -> int:
        """Numbers of one reading."""
        return len(self.columns)


def _columns(name: str, rows: int, columns: str | Sequence[str] | None) -> tuple[str, ...]:
    if columns is None:
        return (name,) if rows == 1 else tuple(f"{name}.{axis}" for axis in ("xyz" if rows < 4 else range(rows)))[:rows]
    columns = (columns,) if isinstance(columns, str) else tuple(columns)
    if len(columns) != rows or not all(isinstance(column, str) for column in columns):
        raise ArgumentError(f"columns: expected {rows} name{'s' * (rows > 1)}; found {columns!r}")
    if len(set(columns)) < rows:
        raise ArgumentError(f"columns: expected different names; found {columns!r}")
    return columns


def _positive(argument: str, value: Numbers | Unknown) -> Array | Unknown:
    array = finite(argument, known(value))
    if isinstance(array, np.ndarray):
        refuse(argument, array, array <= 0, "positive numbers")
    return value if isinstance(value, Unknown) else jnp.asarray(array, dtype=float)


def _fitting(argument: str, value: Array | Unknown, shape: tuple[int, ...], *, whole: bool = True) -> Any:
    """`value` with this shape, a single number for every row; left single unless `whole`."""
    found = value.value.shape if isinstance(value, Unknown) else value.shape
    if found not in ((), shape):
        words = f"{shape[0]} numbers, one for each row, or one" if shape else "one number"
        raise ArgumentError(f"{argument}: expected {words}; found shape {found}")
    if not whole:
        return value
    return value.reshaped(shape) if isinstance(value, Unknown) else jnp.broadcast_to(value, shape)
