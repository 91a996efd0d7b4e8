"""Figures of results. All they show is in the dataset, so that each can be drawn again from its file."""

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fgmbs.errors import ArgumentError
from fgmbs.results import energy_drift, errors, written_whole

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The colours of Okabe and Ito, which all kinds of sight tell apart; beyond them, line styles.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_STYLES = ("-", "--", "-.", ":")
_GREY = "#666666"
_RC: dict[Any, Any] = {
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "lines.linewidth": 1.4,
    "legend.frameon": False,
    "legend.fontsize": 9,
}
_DOTS_PER_INCH = 150
_MOST_FRAMES = 200
_FRAMES_PER_SECOND = 25
_POSES = 7
"""Poses that the drawing shows besides the first."""
_MOST_NAMES = 24
"""Names that a legend can show."""


def save_all(dataset: "xr.Dataset", folder: str | Path, animate: bool = False) -> list[Path]:
    """Draws all figures of a dataset into a folder and returns their files.

    Args:
        animate: Also draw the animation.
    """
    functions = {
        "mechanism.png": mechanism_figure,
        "motion.png": motion_figure,
        "constraints.png": constraint_figure,
        "energy.png": energy_figure,
    }
    if "truth_q" in dataset:
        functions["errors.png"] = error_figure
    paths = []
    for name, draw in functions.items():
        paths.append(Path(folder) / name)
        with written_whole(paths[-1]) as temporary:
            draw(dataset).savefig(temporary, dpi=_DOTS_PER_INCH)
    if animate:
        paths.append(Path(folder) / "animation.gif")
        animation(dataset, paths[-1])
    return paths


def require_matplotlib() -> None:
    """Makes sure that figures can be drawn.

    Raises:
        ArgumentError: A library is missing; says how to install it.
    """
    try:
        import matplotlib  # noqa: F401
        import PIL  # noqa: F401
    except ImportError as error:
        raise ArgumentError(
            f'figures need {error.name}, which is not installed: pip install "fgmbs[plots]", or go without figures'
        ) from None


def _styled(draw: Callable) -> Callable:
    """Draws one motion in our style, without changing the style of the user."""

    @functools.wraps(draw)
    def styled(dataset: "xr.Dataset", *arguments):
        require_matplotlib()
        import matplotlib

        if members := [dim for dim in dataset["t"].dims if dim != "step"]:
            first = ", ".join(f"{dim}=0" for dim in members)
            raise ArgumentError(f"dataset: expected one motion; found a batch; take one: dataset.isel({first})")
        with matplotlib.rc_context(_RC):
            return draw(dataset, *arguments)

    return styled


@_styled
def mechanism_figure(dataset: "xr.Dataset") -> "Figure":
    """The mechanism at the start and, faded, on its way, with the paths of its points."""
    figure = _figure((6.4, 5.6))
    axes = _stage(figure, dataset)
    position = dataset["position"].values
    moving = ~dataset["fixed"].values
    for place, (name, path) in enumerate(
        zip(dataset.point.values[moving], np.moveaxis(position[:, moving], 1, 0), strict=True)
    ):
        colour, style = _look(place)
        axes.plot(*path.T, color=colour, linestyle=style, linewidth=1.0, zorder=2, label=f"path of {name}")
    poses = np.linspace(0, len(position) - 1, _POSES + 1).astype(int).tolist()
    for k, step in enumerate(poses[1:]):
        _draw(axes, dataset, step, alpha=0.10 + 0.10 * (k + 1) / _POSES)
    _draw(axes, dataset, 0, alpha=1.0)
    t = dataset.t.values
    axes.set_title(f"{dataset.attrs['name']}: pose at t = {t[0]:g} s, faded every {t[poses[1]] - t[0]:.3g} s")
    _legend(axes)
    return figure


@_styled
def motion_figure(dataset: "xr.Dataset") -> "Figure":
    """Coordinates and velocities over time, lengths and angles apart."""
    units = list(dict.fromkeys(dataset.unit.values))
    figure = _figure((9.6, 3.2 * len(units)))
    for row, unit in enumerate(units):
        which = dataset.unit.values == unit
        names = dataset.coordinate.values[which]
        word = "position" if unit == "m" else "angle"
        left, right = (figure.add_subplot(len(units), 2, 2 * row + k) for k in (1, 2))
        _lines(left, dataset.t.values, dataset["q"].values[:, which], names)
        _lines(right, dataset.t.values, dataset["dq"].values[:, which], names)
        left.set(xlabel="time [s]", ylabel=f"{word} [{unit}]")
        right.set(xlabel="time [s]", ylabel=f"{'velocity' if unit == 'm' else 'angular velocity'} [{unit}/s]")
        for axes in (left, right):
            _widen(axes)
        _legend(right)
    return figure


@_styled
def error_figure(dataset: "xr.Dataset") -> "Figure":
    """Coordinates and velocities less those of the known motion, over time."""
    known = ~np.isnan(dataset["truth_q"].values).all(axis=0)
    difference = errors(dataset)
    names = dataset.coordinate.values[known]
    figure = _figure((9.6, 3.2))
    small = [f"m{unit}" for unit in dict.fromkeys(dataset.unit.values[known])]
    units = {"q": ", ".join(small), "dq": ", ".join(f"{unit}/s" for unit in small)}
    for place, (name, unit) in enumerate(units.items(), 1):
        axes = figure.add_subplot(1, 2, place)
        _lines(axes, difference.t.values, 1e3 * difference[name].values[:, known], names)
        axes.set(xlabel="time [s]", ylabel=f"error of {'coordinates' if name == 'q' else 'velocities'} [{unit}]")
    _legend(axes)
    return figure


@_styled
def constraint_figure(dataset: "xr.Dataset") -> "Figure":
    """How well the constraints hold, on a logarithmic axis."""
    figure = _figure((6.4, 3.6))
    axes = figure.add_subplot()
    for name, label, colour in (
        ("constraint_norm", "positions  ‖Φ(q, t)‖ [m², m, rad]", COLOURS[0]),
        ("velocity_constraint_norm", "velocities  ‖dΦ/dt‖ [m²/s, m/s, rad/s]", COLOURS[1]),
    ):
        norm = dataset[name].values
        axes.plot(dataset.t.values, np.where(norm > 0, norm, np.nan), color=colour, linewidth=1.0, label=label)
    norms = np.concatenate([line.get_ydata() for line in axes.lines])
    axes.set_yscale("log")
    if np.isfinite(norms).any():  # the start holds far better than the rest and would stretch the axis
        axes.set_ylim(bottom=0.3 * np.nanquantile(norms, 0.005))
    axes.set(xlabel="time [s]", ylabel="norm of the constraints")
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=1, borderaxespad=0.2)
    return figure


@_styled
def energy_figure(dataset: "xr.Dataset") -> "Figure":
    """Kinetic, potential and total energy, and how far they are out of balance."""
    figure = _figure((6.4, 5.2))
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    t, kinetic, potential = (dataset[name].values for name in ("t", "kinetic", "potential"))
    potential = potential - potential[0]  # its zero is arbitrary and may be far away
    upper.plot(t, kinetic, color=COLOURS[0], label="kinetic")
    upper.plot(t, potential, color=COLOURS[1], linestyle="--", label="potential, from the start")
    upper.plot(t, kinetic + potential, color=COLOURS[6], linestyle="-.", label="total")
    upper.set(ylabel="energy [J]")
    upper.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, borderaxespad=0.2)
    lower.plot(t, energy_drift(dataset), color=COLOURS[2])
    driven = dataset.attrs["driven"]
    lower.set(xlabel="time [s]", ylabel=f"{'gain' if driven else 'drift'} [J]")
    known = "that of the start, put in by the motors" if driven else "that of the start and the work of dampers, forces"
    lower.set_title(f"total energy less {known}", color=_GREY)
    lower.ticklabel_format(axis="y", scilimits=(-2, 3), useMathText=True)
    return figure


@_styled
def animation(dataset: "xr.Dataset", path: str | Path) -> None:
    """Writes the motion as a GIF, in real time unless it is longer than 8 s."""
    from matplotlib.animation import FuncAnimation, PillowWriter

    figure = _figure((5.6, 5.0))
    axes = _stage(figure, dataset)
    t, position = dataset.t.values, dataset["position"].values
    count = int(np.clip((t[-1] - t[0]) * _FRAMES_PER_SECOND + 1, 2, _MOST_FRAMES))
    moving = np.flatnonzero(~dataset["fixed"].values)
    trails = [axes.plot([], [], color=_look(k)[0], linewidth=1.0, zorder=2)[0] for k in range(len(moving))]
    drawn: list = []

    def frame(step: int):
        for artist in drawn:
            artist.remove()
        drawn[:] = _draw(axes, dataset, step, alpha=1.0)
        for trail, point in zip(trails, moving, strict=True):
            trail.set_data(*position[: step + 1, point].T)
        axes.set_title(f"{dataset.attrs['name']}: t = {t[step]:.2f} s")

    steps = np.linspace(0, len(t) - 1, count).astype(int).tolist()
    film = FuncAnimation(figure, frame, steps, init_func=lambda: None)
    with written_whole(Path(path)) as temporary:
        film.save(temporary, PillowWriter(fps=_FRAMES_PER_SECOND), dpi=80)


def _figure(size: tuple[float, float]) -> "Figure":
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _stage(figure: "Figure", dataset: "xr.Dataset") -> "Axes":
    """Axes in metres that hold the whole motion, with the supports."""
    axes = figure.add_subplot()
    position = dataset["position"].values.reshape(-1, 2)
    position = position[np.isfinite(position).all(axis=1)]
    low, high = position.min(axis=0), position.max(axis=0)
    margin = 0.08 * max(*(high - low), 1e-9)
    axes.set_aspect("equal")
    axes.set(xlim=(low[0] - margin, high[0] + margin), ylim=(low[1] - margin, high[1] + margin))
    axes.set(xlabel="x [m]", ylabel="y [m]")
    supports = dataset["position"].values[0, dataset["fixed"].values]
    axes.plot(*supports.T, "^", color=_GREY, markersize=11, markeredgecolor="black", zorder=5, clip_on=False)
    return axes


def _draw(axes: "Axes", dataset: "xr.Dataset", step: int, alpha: float) -> list:
    """Draws the bodies of one pose: two points as a rod, more as a plate."""
    points = dataset["position"].values[step]
    if not np.isfinite(points).all():
        return []
    artists = []
    for indices in json.loads(dataset.attrs["bodies"]).values():
        corners = points[indices]
        if len(indices) > 2:
            x, y = (corners - corners.mean(axis=0)).T
            corners = corners[np.argsort(np.arctan2(y, x))]
            artists += axes.fill(*corners.T, facecolor="#BBBBBB", edgecolor="none", alpha=0.6 * alpha, zorder=3)
            corners = np.concatenate([corners, corners[:1]])
        artists += axes.plot(*corners.T, color="#333333", linewidth=3.0, alpha=alpha, solid_capstyle="round", zorder=3)
    moving = points[~dataset["fixed"].values]
    artists += axes.plot(*moving.T, "o", color="white", markeredgecolor="#333333", markersize=5, alpha=alpha, zorder=4)
    return artists


def _lines(axes: "Axes", t: np.ndarray, values: np.ndarray, names: np.ndarray) -> None:
    for place, (name, value) in enumerate(zip(names, values.T, strict=True)):
        colour, style = _look(place)
        axes.plot(t, value, color=colour, linestyle=style, label=name)


def _widen(axes: "Axes") -> None:
    """Keeps what is constant but for rounding from filling the axis."""
    low, high = axes.get_ylim()
    if high - low < 1e-3 * max(abs(low), abs(high)):
        axes.set_ylim(min(low, 0.9 * low, 1.1 * low), max(high, 0.9 * high, 1.1 * high))


def _look(place: int) -> tuple[str, str]:
    """Colour and line style of the line at this place."""
    return COLOURS[place % len(COLOURS)], _STYLES[place // len(COLOURS) % len(_STYLES)]


def _legend(axes: "Axes") -> None:
    """A legend beside the axes."""
    handles, labels = axes.get_legend_handles_labels()
    columns = 1 + (len(labels) > _MOST_NAMES // 2)
    shown = slice(_MOST_NAMES)
    axes.legend(
        handles[shown], labels[shown], loc="upper left", bbox_to_anchor=(1.01, 1.03), ncols=columns, columnspacing=1.2
    )
