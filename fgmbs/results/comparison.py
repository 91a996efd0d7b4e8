"""Results beside what is known: another motion, other forces, the balance of energy."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import xarray as xr

_UNITS = {"q": "unit", "dq": "velocity_unit", "forces": "force_unit"}
"""Coordinate of the dataset that holds the units, by variable that may be known."""


def with_truth(dataset: "xr.Dataset", truth: Mapping[str, np.ndarray]) -> "xr.Dataset":
    """The dataset with known values beside it: `truth_t`; `truth_q` and `truth_dq`, or `truth_forces`, or all of them.

    They are NaN where nothing is known.

    Args:
        truth: Columns `t`, coordinates by name, velocities as `d_NAME` where they go by the names of coordinates, else
            by their own, forces of actuators as `force_NAME`.
    """
    missing = np.full(truth["t"].shape, np.nan)
    known = {}
    for variables in (("q", "dq"), ("forces",)):
        columns = {variable: _columns(dataset, variable) for variable in variables if variable in dataset}
        if any(key in truth for keys in columns.values() for key in keys):
            known |= {
                f"truth_{variable}": (
                    ("truth_step", dataset[variable].dims[-1]),
                    np.stack([truth.get(key, missing) for key in keys], -1),
                    dict(dataset[variable].attrs),
                )
                for variable, keys in columns.items()
            }
    return dataset.assign(known).assign_coords(truth_t=("truth_step", truth["t"], {"long_name": "time", "units": "s"}))


def _columns(dataset: "xr.Dataset", variable: str) -> list[str]:
    """Names that the columns of a variable have in a table of known values."""
    names = dataset[dataset[variable].dims[-1]].values
    if variable == "dq":
        return [f"d_{name}" if name in dataset.coordinate.values else str(name) for name in names]
    return [f"force_{name}" if variable == "forces" else str(name) for name in names]


def errors(dataset: "xr.Dataset") -> "xr.Dataset":
    """q, dq and forces less the known ones, as far as there are any, at the times that both have."""
    t, t_truth = dataset.t.values, dataset.truth_t.values
    at = np.clip(np.searchsorted(t, t_truth), 1, len(t) - 1)
    at -= t_truth - t[at - 1] < t[at] - t_truth
    common = np.abs(t[at] - t_truth) < 1e-6 * (t[1] - t[0])
    known = {f"truth_{variable}": variable for variable in _UNITS if f"truth_{variable}" in dataset}
    here = dataset[list(known.values())].isel(step=at[common])
    truth = dataset[list(known)].isel(truth_step=common).drop_vars("truth_t")
    return here - truth.rename(known | {"truth_step": "step"})


def rmse(dataset: "xr.Dataset") -> dict[str, float]:
    """Root mean square errors against known values, over columns of one unit and all times.

    Keys are "q [m]", "q [rad]", "dq [m/s]", "dq [rad/s]", "forces [N]", "forces [N m]", as far as they are known.
    """
    found = {}
    for key, error in errors(dataset).data_vars.items():
        units = dataset[_UNITS[str(key)]].values
        for unit in dict.fromkeys(units):
            square = error.values[:, units == unit] ** 2
            if not np.isnan(square).all():
                found[f"{key} [{unit}]"] = float(np.sqrt(np.nanmean(square)))
    return found


def work(power: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Work from the first step to each, by the trapezoidal rule [J]."""
    return np.concatenate([[0.0], np.cumsum((power[1:] + power[:-1]) / 2 * np.diff(t))])


def energy_drift(dataset: "xr.Dataset") -> np.ndarray:
    """Total energy less that of the start and the work of actuators and of forces without potential, at every step [J].

    Work of prescribed motions is not in the balance; `dataset.attrs["driven"]` says whether there are any.
    """
    total, power = (dataset["kinetic"] + dataset["potential"]).values, dataset["power"].values
    if "motor_power" in dataset:
        power = power + dataset["motor_power"].sum("actuator").values
    return total - total[0] - work(power, dataset.t.values)
