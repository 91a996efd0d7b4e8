"""What a dataset of an estimate holds: motion and forces with their bands, sensors, residuals, unknown numbers."""

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fgmbs.dynamics.singular import nearest_to_singular
from fgmbs.inputs import (
    AbstractInput,
    Disturbance,
    GaussMarkov,
    RandomWalk,
    WhiteNoise,
    augmented,
    commands,
    remembered,
)
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.problems.motion import ABOUT_MARGINS, margins_along
from fgmbs.results.contents import (
    FLAGS,
    Contents,
    all_of,
    attributes,
    codes,
    force_unit,
    names_of_q_and_dq,
    of_mechanism,
    per_second,
    steps_of,
    together,
    worst_text,
)
from fgmbs.sensors.base import AbstractSensor
from fgmbs.unknowns import Place

if TYPE_CHECKING:
    from fgmbs.problems.smooth.smoothed_motion import Group, SmoothedMotion


def estimate(motion: "SmoothedMotion") -> Contents:
    """Everything that an estimate tells; standard deviations are named as what they belong to, with `_std`."""
    attrs = {"status": worst_text(motion.status), "notes": json.dumps(motion.notes, ensure_ascii=False)}
    makers = (_motion, _rank_margin, _forces, _groups, _sensors, _unknowns, _score_tests, _start)
    return together(*(make(motion) for make in makers), Contents({}, {}, attrs), _of_mechanism(motion))


def _of_mechanism(motion: "SmoothedMotion") -> Contents:
    """What the mechanism tells; where recordings have numbers of their own, points lie where those put them."""
    step = steps_of(motion.t)
    if not motion.differ:
        return of_mechanism(motion.mechanism, motion.q, motion.t, step)
    every = [motion.of_recording(k) for k in range(int(np.max(motion.recording)) + 1)]
    first, *others = (of_mechanism(one.mechanism, one.q, one.t, step) for one in every)
    placed = dict(first.variables)
    for name in ("position", "orientation"):
        if name in placed:
            dims, _, told = placed[name]
            placed[name] = (dims, np.concatenate([part.variables[name][1] for part in (first, *others)]), told)
    return first._replace(variables=placed)


def _motion(motion: "SmoothedMotion") -> Contents:
    rates = all_of(motion.mechanism.velocity_units)
    variables = _with_std(motion, "q", "coordinate", "coordinates", all_of(motion.mechanism.coordinate_units))
    variables |= _with_std(motion, "dq", "velocity", "velocities", rates)
    variables |= _with_std(motion, "ddq", "velocity", "accelerations", per_second(rates))
    variables |= _with_std(motion, "multipliers", "constraint", "multipliers", "N, N m per constraint")
    variables |= {
        "status": ((), codes(motion.status), FLAGS),
        "iterations": ((), motion.iterations, attributes("iterations of the solver", "1")),
        "log_likelihood": ((), motion.log_likelihood, attributes("log probability density of the samples", "1")),
        "cost_history": ("iteration", motion.cost_history, attributes("cost after each iteration", "1")),
    }
    if motion.step_status is not None:
        variables["step_status"] = ("step", codes(motion.step_status), FLAGS)
    coordinates = {
        "t": ("step", motion.t, attributes("time", "s")),
        "recording": ("step", motion.recording, {"long_name": "number of the recording"}),
        **names_of_q_and_dq(motion.mechanism),
        "constraint": list(motion.mechanism.constraint_names),
    }
    return Contents(variables, coordinates, {})


def _rank_margin(motion: "SmoothedMotion") -> Contents:
    """How far the motion is from singular poses."""
    recordings, found = np.asarray(motion.recording), []
    for number in np.unique(recordings):
        one = motion.of_recording(int(number)) if motion.differ else motion
        q, t = (np.asarray(x)[recordings == number] for x in (motion.q, motion.t))
        if (along := margins_along(one.mechanism, q, t)) is None:
            return Contents({}, {}, {})
        found.append((along, nearest_to_singular(one.mechanism, q, t, along.margins)))
    number = int(np.argmin([near.steps for _, near in found]))
    along, near = found[number]
    told = {"nearest": near.margin, "nearest_t": near.t, "nearest_steps": near.steps, "nearest_recording": number}
    told["dependent"] = ", ".join(along.dependent)
    margins = np.concatenate([along.margins for along, *_ in found])
    return Contents({"rank_margin": ("step", margins, ABOUT_MARGINS | told)}, {}, {})


def _with_std(motion: "SmoothedMotion", name: str, axis: str, what: str, units: str) -> dict[str, Any]:
    std = getattr(motion, f"{name}_std")
    return {
        name: (("step", axis), getattr(motion, name), attributes(what, units)),
        f"{name}_std": (("step", axis), std, attributes(f"standard deviations of {what}", units)),
    }


def _forces(motion: "SmoothedMotion") -> Contents:
    mechanism, variables, coordinates = motion.mechanism, {}, {}
    if unknown := augmented(motion.inputs):
        units = [force_unit(mechanism, force.on) for force in unknown]
        variables |= _with_std(motion, "forces", "force", "unknown forces", all_of(units))
        coordinates |= {"force": list(motion.force_names), "force_unit": ("force", units)}
    if remembered(motion.inputs) is not None:
        units = [force_unit(mechanism, name) for name in mechanism.velocity_names]
        variables |= _with_std(motion, "disturbance", "velocity", "generalized unknown forces", all_of(units))
    if known := commands(motion.inputs):
        units = [force_unit(mechanism, force.on) for force in known]
        variables["commands"] = (("step", "command"), motion.commands, attributes("known forces", all_of(units)))
        coordinates |= {"command": list(motion.command_names), "command_unit": ("command", units)}
    if mechanism.pin_names:
        along, what = ("step", "pin", "axis"), "force on each body at each of its points"
        values, std = motion.joint_forces()
        variables |= {
            "joint_forces": (along, values, attributes(what, "N")),
            "joint_forces_std": (along, std, attributes(f"standard deviations of the {what}", "N")),
        }
        coordinates |= {"pin": list(mechanism.pin_names), "axis": list("xyz"[: values.shape[-1]])}
    return Contents(variables, coordinates, {})


def _groups(motion: "SmoothedMotion") -> Contents:
    fields = {
        "kind": {"long_name": "what the residuals belong to"},
        "count": attributes("residuals", "1"),
        "dof": attributes("expected sum of squares", "1"),
        "chi2": attributes("sum of squares of the whitened residuals", "1"),
        "size": attributes("standard deviation or size of the noise, of the unit `group_unit`", "SI"),
        "found": {"long_name": "whether the size was found from the data"},
        "p_value": attributes("probability of such a sum of squares", "1"),
        "correlation": attributes("correlation of neighbouring residuals", "1"),
        "whiteness": attributes("p-value of Ljung and Box", "1"),
    }
    variables = {
        f"group_{key}": ("group", [getattr(group, key) for group in motion.groups], told)
        for key, told in fields.items()
    }
    units = [_size_unit(motion, group) for group in motion.groups]
    names = [group.name for group in motion.groups]
    return Contents(variables, {"group": names, "group_unit": ("group", units)}, {})


def _size_unit(motion: "SmoothedMotion", group: "Group") -> str:
    """Unit of the size of a group."""
    for sensor in motion.sensors:
        if sensor.name == group.name:
            return all_of(list(sensor.units))
    return next((_unit_of(motion.mechanism, force) for force in motion.inputs if force.name == group.name), "")


def _unit_of(mechanism: AbstractMechanism, force: AbstractInput) -> str:
    match force:
        case Disturbance():
            return "W"
        case WhiteNoise(on=on):
            return f"{force_unit(mechanism, on)} √s"
        case RandomWalk(on=on):
            return f"{force_unit(mechanism, on)}/√s"
        case GaussMarkov(on=on):
            return force_unit(mechanism, on)
    return ""


def _sensors(motion: "SmoothedMotion") -> Contents:
    """What each sensor read, in variables `SENSOR.measured`, … over `SENSOR.sample` and `SENSOR.row`."""
    variables, keys = {}, []
    coordinates: dict[str, Any] = {}
    for sensor, fit in zip(motion.sensors, motion.fits, strict=True):
        key = re.sub(r"\W", "_", sensor.name)
        key += f"_{len(keys)}" * (key in keys)
        keys.append(key)
        sample, row = f"{key}.sample", f"{key}.row"
        unit = all_of(list(sensor.units))
        told = {"sensor": sensor.name, "circular": int(sensor.circular), "robust": int(sensor.loss is not None)}
        variables |= {
            f"{key}.measured": ((sample, row), fit.measured, attributes("readings", unit) | told),
            f"{key}.predicted": ((sample, row), fit.predicted, attributes("readings that the estimate predicts", unit)),
            f"{key}.normalized": ((sample, row), fit.normalized, attributes("(predicted − measured)/σ", "1")),
            f"{key}.weight": (sample, fit.weight, attributes("weight that the robust loss leaves", "1")),
        }
        coordinates |= {
            f"{key}.t": (sample, fit.t, attributes("time", "s")),
            f"{key}.recording": (sample, fit.recording, {"long_name": "number of the recording"}),
            row: list(sensor.columns),
            f"{key}.unit": (row, list(sensor.units)),
        }
    names = [sensor.name for sensor in motion.sensors]
    return Contents(variables, {**coordinates, "sensor": names, "sensor_key": ("sensor", keys)}, {})


def _unknowns(motion: "SmoothedMotion") -> Contents:
    names, units, columns = [], [], []
    for place in (*motion.free.places, *motion.sizes.places):
        name, unknown = place.name, motion.priors[place.name]
        prior_std = unknown.sigma * unknown.value if unknown.log else unknown.sigma
        found, bounds = motion.unknowns[name], (unknown.lower, unknown.upper)
        away = np.log(found / unknown.value) if unknown.log else np.asarray(found) - unknown.value
        std = motion.unknowns_std[name]
        left = std / (found if unknown.log else 1.0) / unknown.sigma
        leaves = (found, std, unknown.value, prior_std, *bounds, np.abs(away) / unknown.sigma, left)
        names += place.names
        units += units_of_numbers(motion.mechanism, motion.sensors, motion.inputs, place)
        columns.append(np.stack([np.ravel(leaf) for leaf in leaves]))
    if not names:
        return Contents({}, {}, {})
    value, std, prior, sigma, lower, upper, away, left = np.concatenate(columns, axis=1)
    told = "of the unit `unknown_unit`"
    return Contents(
        {
            "unknown_value": ("unknown", value, attributes("estimated numbers of mechanism and sensors", told)),
            "unknown_std": ("unknown", std, attributes("their standard deviations", told)),
            "unknown_prior": ("unknown", prior, attributes("what was known before", told)),
            "unknown_prior_std": ("unknown", sigma, attributes("and its standard deviations", told)),
            "unknown_lower": ("unknown", lower, attributes("their least values", told)),
            "unknown_upper": ("unknown", upper, attributes("their largest values", told)),
            "unknown_away": (
                "unknown",
                away,
                attributes("how far they ended from it, in its deviations", "1"),
            ),
            "unknown_left": ("unknown", left, attributes("their standard deviations, in those that it had", "1")),
        },
        {"unknown": names, "unknown_unit": ("unknown", units)},
        {},
    )


def _score_tests(motion: "SmoothedMotion") -> Contents:
    tests = motion.score_tests()
    if not tests:
        return Contents({}, {}, {})
    told = "of the unit `known_unit`"
    units = []
    for test in tests:
        name, _, row = test.name.removesuffix("]").partition("[")
        units.append(_unit(motion.mechanism, motion.sensors, motion.inputs, name, int(row or 0)))
    columns = {
        "value": attributes("numbers of mechanism and sensors that were taken as known", told),
        "change": attributes("change of each at which the cost would be least", told),
        "std": attributes("standard deviation of each if it were found", told),
    }
    return Contents(
        {f"known_{key}": ("known", [getattr(test, key) for test in tests], words) for key, words in columns.items()},
        {"known": [test.name for test in tests], "known_unit": ("known", units)},
        {},
    )


_OF_BODIES = {"mass": "kg", "I0": "kg m²", "length": "m"}
"""Units of what mechanism files give of bodies."""

_OF_SENSORS = {
    **{"delay": "s", "time_sigma": "s", "misalignment": "rad", "gain": "", "at": "m"},
    **{"position": "m", "rotation": "rad", "distortion": ""},
}
"""Units of numbers of sensors, but for those of what is read, one for each row. Others are of a class of one's own."""


def units_of_numbers(
    mechanism: AbstractMechanism, sensors: Sequence[AbstractSensor], inputs: Sequence[AbstractInput], place: Place
) -> list[str]:
    """The unit of each number at a place of θ."""
    return [_unit(mechanism, sensors, inputs, place.name, k % place.width) for k in range(place.size)]


def _unit(mechanism, sensors, inputs, name: str, row: int) -> str:
    owner, _, key = name.rpartition(".")
    for sensor in sensors:
        if sensor.name == owner and hasattr(sensor, key):
            # A gain is of the column's unit, which is not known, per that of the sensor.
            return sensor.units[row] if key in ("bias", "sigma") else _OF_SENSORS.get(key, "SI")
    if key in ("delay", "lag", "limit", "time_constant"):  # a command's limit is of the column's unit
        return "" if key == "limit" else "s"
    own = _OF_BODIES.get(key, "SI") if owner else "SI"
    return next((_unit_of(mechanism, force) for force in inputs if force.name == owner), own)


def _start(motion: "SmoothedMotion") -> Contents:
    if not motion.branches:
        return Contents({}, {}, {})
    told = {
        "recording": ("number of the recording of each start", "1"),
        "given": ("whether each start is the one that was given", "1"),
        "cost": ("how much more the first samples cost from each start than from the best", "1"),
        "weight": ("probability of the motion from each start among those that were solved", "1"),
    }
    columns = {
        f"start_{key}": ("start", [getattr(branch, key) for branch in motion.branches], attributes(*words))
        for key, words in told.items()
    }
    places = np.array([branch.q for branch in motion.branches])
    words = attributes("coordinates of each start", all_of(motion.mechanism.coordinate_units))
    return Contents(columns | {"start_q": (("start", "coordinate"), places, words)}, {}, {})
