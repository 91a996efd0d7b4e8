"""What a dataset or a mechanism says, in a few lines of text."""

from typing import TYPE_CHECKING

import numpy as np

from fgmbs.dynamics.singular import SINGULAR
from fgmbs.kinematics import assemble, mobility
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.results.comparison import energy_drift, rmse
from fgmbs.results.report import aligned

if TYPE_CHECKING:
    import xarray as xr


UNDETERMINED = 1e6
"""Growth of a small change from which on a motion is not determined by a start that is known as well as any is."""


def simulation_summary(dataset: "xr.Dataset", seconds_per_step: float | None = None) -> str:
    """How a simulation went, in a few lines."""
    dt = float(dataset.t[1] - dataset.t[0]) if dataset.sizes["step"] > 1 else float("nan")
    iterations = dataset["iterations"].values
    drift = np.max(np.abs(energy_drift(dataset)))
    largest = float(dataset["kinetic"].max())
    lines = [
        ("mechanism", mechanism_line(dataset)),
        ("steps", f"{dataset.sizes['step']} up to t = {float(dataset.t[-1]):g} s, dt = {dt:g} s"),
        ("coordinates", f"{dataset.attrs['form']}, {dataset.attrs['integrator']}"),
        ("status", dataset.attrs["status"]),
        ("iterations", f"{iterations.mean():.2f} per step, at most {iterations.max()}"),
        ("max |Phi|", f"{float(dataset['constraint_norm'].max()):.2e}"),
        *_rank_margin_lines(dataset),
        *_sensitivity_lines(dataset),
    ]
    if not dataset.attrs["driven"]:  # else the motor's work is missing from the balance
        relative = f" ({drift / largest:.2e} of the largest kinetic energy)" if largest > 0 else ""
        lines.append(("energy drift", f"{drift:.2e} J{relative}"))
    if "truth_q" in dataset:
        lines += [(f"RMSE {key}", f"{value:.3e}") for key, value in rmse(dataset).items()]
    if seconds_per_step is not None:
        lines.append(("time", f"{seconds_per_step * 1e6:.1f} µs per step after compilation"))
    return aligned(lines)


def _rank_margin_lines(dataset: "xr.Dataset") -> list[tuple[str, str]]:
    """How near the motion came to a singular pose."""
    if "rank_margin" not in dataset:
        return []
    margins, dependent = dataset["rank_margin"].values, dataset["rank_margin"].attrs["dependent"]
    least = int(np.argmin(margins))
    where = f"at t = {float(dataset.t[least]):g} s"
    lines = [("rank margin", f"least {margins[least]:.2g}, {where}")]
    if margins[least] < SINGULAR:
        said = f"nearly singular {where}, where {dependent} depend on each other and motions meet"
        lines.append(("warning", f"{said}: what follows is sensitive to the smallest changes"))
    return lines


def _sensitivity_lines(dataset: "xr.Dataset") -> list[tuple[str, str]]:
    """How small changes of the start have grown."""
    if "sensitivity" not in dataset:
        return []
    end = float(dataset["sensitivity"][-1])
    lines = [("sensitivity", f"a small displacement of the start is {end:.2g} times as large at the end")]
    if end > UNDETERMINED:
        beyond = float(dataset.t[int(np.argmax(dataset["sensitivity"].values > UNDETERMINED))])
        said = f"the motion is unstable or chaotic: a start known to a millionth says nothing from t = {beyond:g} s on"
        lines.append(("warning", f"{said}, and errors of integration grow as much"))
    return lines


def driven_summary(dataset: "xr.Dataset", seconds: float | None = None) -> str:
    """What inverse dynamics found, in a few lines."""
    t, forces, power = (dataset[name].values for name in ("t", "forces", "motor_power"))
    steps = np.diff(t)
    uniform = np.ptp(steps) < 1e-6 * steps.mean()
    dt = f"{steps.mean():g} s" if uniform else f"{steps.min():g} to {steps.max():g} s"
    lines = [
        ("mechanism", mechanism_line(dataset)),
        ("samples", f"{len(t)} from t = {t[0]:g} to {t[-1]:g} s, dt = {dt}"),
        ("status", dataset.attrs["status"]),
    ]
    for name, unit, u, p in zip(dataset.actuator.values, dataset.force_unit.values, forces.T, power.T, strict=True):
        rms, peak = np.sqrt(np.mean(u**2)), np.argmax(np.abs(p))
        lines.append(("actuator", f"{name}: {u.min():.6g} to {u.max():.6g} {unit}, RMS {rms:.6g} {unit}"))
        lines.append(("", f"peak power {p[peak]:.5g} W at t = {t[peak]:.6g} s"))
    if "force_covariance" in dataset:
        largest = np.sqrt(np.diagonal(dataset["force_covariance"].values, axis1=1, axis2=2)).max(axis=0)
        for name, unit, sigma in zip(dataset.actuator.values, dataset.force_unit.values, largest, strict=True):
            lines.append(("max sigma", f"{name}: {sigma:.2e} {unit}"))
    for k, (name, unit) in enumerate(zip(dataset.desired.values, dataset.desired_unit.values, strict=True)):
        error, sigma = np.abs(dataset["tracking_error"].values[:, k]).max(), float(dataset["sigma"][k])
        found = f"; standard deviation of the samples {sigma:.1e} {unit}" if sigma > 0 else ""
        lines.append(("tracking", f"{name}: error at most {error:.1e} {unit}{found}"))
    if len(jumps := t[dataset["jumps"].values.any(axis=1)]):
        shown = ", ".join(f"{time:g}" for time in jumps[:8]) + ", …" * (len(jumps) > 8)
        lines.append(("jumps", f"the desired acceleration jumps after t = {shown} s"))
    lines.append(("max |Phi|", f"{float(dataset['constraint_norm'].max()):.2e}"))
    lines += _rank_margin_lines(dataset)
    if seconds is not None:
        lines.append(("time", f"{seconds:.3g} s including compilation"))
    return aligned(lines)


def mechanism_summary(mechanism: AbstractMechanism) -> str:
    """Coordinates, actuators, degrees of freedom, redundant constraints and the assembled pose."""
    q = assemble(mechanism)
    found = mobility(mechanism, q)
    redundant = [mechanism.constraint_names[row] for row in found.redundant_rows]
    velocities = "" if mechanism.is_vector_space else f"nv = {mechanism.nv} velocities, "
    effects = zip(mechanism.actuator_names, mechanism.actuator_effects, strict=True)
    actuators = [f"{name} ({effect})" if effect else name for name, effect in effects]
    lines = [
        f"n = {mechanism.n} coordinates, {velocities}m = {mechanism.m} constraints",
        f"actuators: {', '.join(actuators) or 'none'}",
        f"dof = {found.dof}, rank {mechanism.m - len(redundant)} of {mechanism.m} constraints",
        *(f"redundant: {name} follows from the constraints before it" for name in redundant),
    ]
    if found.singular:
        here = f"{found.dof_here} degrees of freedom in it, {found.dof} nearby"
        lines.append(f"warning: the pose is singular: {here}")
    lines.append("assembled pose, and how far it is from the drawing:")
    drawn = np.asarray(mechanism.reference)
    for name, value, reference in zip(mechanism.coordinate_names, np.asarray(q), drawn, strict=True):
        lines.append(f"  {name:<14} {value:>14.9g}   {value - reference:+.1e}")
    return "\n".join(lines)


def mechanism_line(dataset: "xr.Dataset") -> str:
    """Its name and its coordinates."""
    names = dataset.coordinate.values
    return f"{dataset.attrs['name']}: {', '.join(names[:8])}{', …' * (len(names) > 8)}"
