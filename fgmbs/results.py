"""Results as labelled datasets, and their files.

A dataset holds everything that its figures show: coordinates, positions of all points, which points each body has, the
mechanism's description and parameters, the settings of the run, how it ended and the versions of what made it.
"""

import contextlib
import json
import os
import platform
import tempfile
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import numpy as np

from fgmbs.errors import ArgumentError, Status
from fgmbs.io.load import parse_mechanism, to_yaml
from fgmbs.io.schema import MotionDescription
from fgmbs.mechanisms.planar import PlanarMechanism
from fgmbs.problems.simulation import Simulation

if TYPE_CHECKING:
    import xarray as xr

STATUSES = ("running", "converged", "stalled", "iteration_limit", "non_finite", "not_assembled")
"""Meaning of the numbers in `step_status`."""


def to_dataset(simulation: Simulation, config: Mapping[str, Any] | None = None) -> "xr.Dataset":
    """A simulation as a dataset; batch axes become the dimensions `member`, `member_1`, …

    Args:
        config: Settings of the run, kept as JSON in the attribute `config`.
    """
    import xarray as xr

    mechanism = simulation.mechanism
    batch = tuple("member" + f"_{i}" * (i > 0) for i in range(simulation.t.ndim - 1))
    names = list(mechanism.coordinate_names)
    units = _units(mechanism)
    kinds = ", ".join(dict.fromkeys(units))
    rates = {order: ", ".join(f"{unit}/s{order}" for unit in dict.fromkeys(units)) for order in ("", "²")}
    force = ", ".join(dict.fromkeys("N" if unit == "m" else "N m" for unit in units))
    step = (*batch, "step")
    variables: dict[str, Any] = {
        "q": ((*step, "coordinate"), simulation.q, _attrs("coordinates", kinds)),
        "dq": ((*step, "coordinate"), simulation.dq, _attrs("velocities", rates[""])),
        "ddq": ((*step, "coordinate"), simulation.ddq, _attrs("accelerations", rates["²"])),
        "multipliers": ((*step, "constraint"), simulation.multipliers, _attrs("multipliers", "N, N m per constraint")),
        "reactions": ((*step, "coordinate"), simulation.reactions, _attrs("generalized reaction forces", force)),
        "kinetic": (step, simulation.kinetic, _attrs("kinetic energy", "J")),
        "potential": (step, simulation.potential, _attrs("potential energy", "J")),
        "power": (step, simulation.power, _attrs("power of forces without potential", "W")),
        "constraint_norm": (step, simulation.constraint_norm, _attrs("norm of the constraints", "m², m, rad")),
        "velocity_constraint_norm": (
            step,
            simulation.velocity_constraint_norm,
            _attrs("norm of the constraint rates", "m²/s, m/s, rad/s"),
        ),
        "iterations": (step, simulation.iterations, _attrs("iterations of the solver", "1")),
        "step_status": (
            step,
            _codes(simulation.step_status),
            {"flag_values": np.arange(len(STATUSES)), "flag_meanings": " ".join(STATUSES)},
        ),
        "status": (batch, _codes(simulation.status), {"flag_meanings": " ".join(STATUSES)}),
    }
    coordinates: dict[str, Any] = {
        "t": (step, simulation.t, _attrs("time", "s")),
        "coordinate": names,
        "unit": ("coordinate", units),
        "constraint": list(mechanism.constraint_names),
    }
    if simulation.z is not None and simulation.independent is not None:
        variables["z"] = ((*step, "freedom"), simulation.z, _attrs("independent coordinates", kinds))
        variables["independent"] = (
            (*step, "freedom"),
            simulation.independent,
            {"long_name": "which of the coordinates are independent"},
        )
    if simulation.covariance is not None:
        axis = [f"{dot}{name}" for dot in ("", "d ", "dd ") for name in names]
        coordinates |= {"state": axis, "state_": axis}
        variables["covariance"] = (
            (*step, "state", "state_"),
            simulation.covariance,
            _attrs("covariance of (q, dq, ddq)", "products of the units of q, dq and ddq"),
        )
    attrs = {"status": _worst_text(simulation.status), "config": json.dumps(dict(config or {})), **_versions()}
    if isinstance(mechanism, PlanarMechanism):
        parameters = list(mechanism.parameters)
        values = np.stack([np.asarray(mechanism.parameters[name]) for name in parameters], axis=-1)
        coordinates |= {
            "parameter": parameters,
            "point": list(mechanism.point_names),
            "fixed": ("point", np.isin(np.arange(len(mechanism.point_names)), mechanism.fixed_points)),
            "axis": ["x", "y"],
        }
        variables["parameters"] = ((*batch, "parameter"), values, _attrs("parameters of the mechanism", "SI"))
        variables["position"] = (
            (*step, "point", "axis"),
            _positions(mechanism, simulation.q),
            _attrs("positions of the points", "m"),
        )
        bodies = dict(zip(mechanism.body_names, mechanism.body_points, strict=True))
        attrs |= {
            "mechanism": to_yaml(mechanism.description),
            "name": mechanism.description.name or "mechanism",
            "bodies": json.dumps(bodies),
            "driven": int(any(isinstance(c, MotionDescription) for c in mechanism.description.constraints)),
        }
    dataset = xr.Dataset(
        {key: (dims, np.asarray(values), attributes) for key, (dims, values, attributes) in variables.items()},
        coords={
            key: (entry[0], np.asarray(entry[1]), *entry[2:]) if isinstance(entry, tuple) else entry
            for key, entry in coordinates.items()
        },
        attrs=attrs,
    )
    dataset["q"].attrs["note"] = "the unit of each coordinate stands in the variable `unit`"
    return dataset


def save(simulation: Simulation, path: str | os.PathLike[str]) -> None:
    """Writes a simulation to a netCDF file; see `write`."""
    write(to_dataset(simulation), path)


def write(dataset: "xr.Dataset", path: str | os.PathLike[str]) -> None:
    """Writes a dataset to a netCDF file, whole or not at all.

    Raises:
        ArgumentError: The file cannot be written.
    """
    with written_whole(Path(path)) as temporary:
        dataset.to_netcdf(temporary, engine="h5netcdf")


def load_results(path: str | os.PathLike[str]) -> "xr.Dataset":
    """The dataset in a netCDF file.

    Raises:
        ArgumentError: There is no such file, or it is not a netCDF file.
    """
    import xarray as xr

    try:
        with xr.open_dataset(path, engine="h5netcdf") as dataset:
            return dataset.load()
    except (OSError, ValueError) as error:
        raise ArgumentError(f"path: expected a netCDF file of results; found {str(path)!r}: {error}") from None


def with_truth(dataset: "xr.Dataset", truth: Mapping[str, np.ndarray]) -> "xr.Dataset":
    """The dataset with a known motion beside it, as `truth_t`, `truth_q`, `truth_dq`; NaN where it says nothing.

    Args:
        truth: Columns `t`, coordinates by name, and velocities as `d_NAME`, see `fgmbs.io.truth`.
    """
    missing = np.full(truth["t"].shape, np.nan)
    names = dataset.coordinate.values
    columns = {
        f"truth_{rate}q": np.stack([truth.get(f"{rate and 'd_'}{name}", missing) for name in names], -1)
        for rate in ("", "d")
    }
    dims = ("truth_step", "coordinate")
    return dataset.assign(
        {name: (dims, values, dict(dataset[name.removeprefix("truth_")].attrs)) for name, values in columns.items()}
    ).assign_coords(truth_t=("truth_step", truth["t"], _attrs("time", "s")))


def errors(dataset: "xr.Dataset") -> "xr.Dataset":
    """q and dq less the known motion, at the times that both have."""
    t, t_truth = dataset.t.values, dataset.truth_t.values
    at = np.clip(np.searchsorted(t, t_truth), 1, len(t) - 1)
    at -= t_truth - t[at - 1] < t[at] - t_truth
    common = np.abs(t[at] - t_truth) < 1e-6 * (t[1] - t[0])
    here = dataset[["q", "dq"]].isel(step=at[common])
    truth = dataset[["truth_q", "truth_dq"]].isel(truth_step=common).drop_vars("truth_t")
    return here - truth.rename(truth_q="q", truth_dq="dq", truth_step="step")


def rmse(dataset: "xr.Dataset") -> dict[str, float]:
    """Root mean square errors against the known motion, of q and dq, over coordinates of one unit and all times.

    Keys are "q [m]", "q [rad]", "dq [m/s]", "dq [rad/s]", as far as the known motion has them.
    """
    found = {}
    for key, error in errors(dataset).data_vars.items():
        for unit in dict.fromkeys(dataset.unit.values):
            square = error.values[:, dataset.unit.values == unit] ** 2
            if not np.isnan(square).all():
                found[f"{key} [{unit}{'/s' * (key == 'dq')}]"] = float(np.sqrt(np.nanmean(square)))
    return found


def energy_drift(dataset: "xr.Dataset") -> np.ndarray:
    """Total energy less that of the start and the work of forces without potential, at every step [J].

    Work of prescribed motions is not in the balance; `dataset.attrs["driven"]` says whether there are any.
    """
    total, power, t = (dataset[name].values for name in ("kinetic", "power", "t"))
    total = total + dataset["potential"].values
    work = np.concatenate([[0.0], np.cumsum((power[1:] + power[:-1]) / 2 * np.diff(t))])
    return total - total[0] - work


def mechanism_of(dataset: "xr.Dataset") -> PlanarMechanism:
    """The mechanism of a dataset without batch dimensions, with the parameters it was simulated with."""
    mechanism = PlanarMechanism.from_description(parse_mechanism(dataset.attrs["mechanism"], source="results"))
    values = dataset["parameters"]
    pairs = zip(values.parameter.values, values.values, strict=True)
    return mechanism.with_parameters({str(name): float(value) for name, value in pairs})


@contextlib.contextmanager
def written_whole(path: Path):
    """A temporary path beside `path` that takes its place once the block has ended well.

    Raises:
        ArgumentError: The file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
        os.close(handle)
    except OSError as error:
        raise ArgumentError(f"path: cannot write {str(path)!r}: {error.strerror}") from None
    try:
        yield Path(temporary)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _attrs(long_name: str, units: str) -> dict[str, str]:
    return {"long_name": long_name, "units": units}


def _units(mechanism) -> list[str]:
    """Unit of each coordinate: angles come last."""
    angles = len(mechanism.description.relative_coordinates) if isinstance(mechanism, PlanarMechanism) else 0
    return ["m"] * (mechanism.n - angles) + ["rad"] * angles


def _codes(status: Status) -> np.ndarray:
    """Places in `STATUSES`."""
    each = [np.asarray(status == getattr(Status, name)) for name in STATUSES]
    return np.asarray(np.argmax(np.stack(each), axis=0))


def _worst_text(status: Status) -> str:
    """How the worst member ended, in words."""
    name = STATUSES[int(np.max(_codes(status)))]
    return f"{name}: {Status[getattr(Status, name)].removeprefix(f'{name}: ')}"


def _versions() -> dict[str, str]:
    versions = {"fgmbs": version("fgmbs"), "jax": jax.__version__, "python": platform.python_version()}
    return {f"{name}_version": number for name, number in versions.items()}


def _positions(mechanism: PlanarMechanism, q: jax.Array) -> np.ndarray:
    """Positions of all points at every step of every member [m]."""
    function: Callable = lambda mechanism, q: jax.vmap(mechanism.point_positions)(q)  # noqa: E731
    for _ in range(q.ndim - 2):
        function = eqx.filter_vmap(function)
    return np.asarray(eqx.filter_jit(function)(mechanism, q))
