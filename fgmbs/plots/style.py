"""Our style of drawing, and what all figures share."""

import functools
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from fgmbs.errors import ArgumentError
from fgmbs.plots.timeline import thinned

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The colours of Okabe and Ito, which all kinds of sight tell apart; beyond them, line styles.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_STYLES = ("-", "--", "-.", ":")
GREY, _PALE = "#666666", "#C8C8C8"
WORDS = {
    "m": "position",
    "rad": "angle",
    "rad/s": "angular velocity",
    "rad/s²": "angular acceleration",
    "N m": "torque",
}
"""What a column is called, by its unit."""
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
_MOST_NAMES = 24
"""Names that a legend can show."""


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


def one_motion(draw: Callable) -> Callable:
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


def new_figure(size: tuple[float, float]) -> "Figure":
    """An empty figure of a size in inches, which no window shows."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def plot_columns(
    axes: "Axes", t: np.ndarray, values: np.ndarray, names: np.ndarray, shown: np.ndarray | None = None
) -> None:
    """A line for each column of values, in the colour of its place; where they are many, all but a dozen in grey.

    Args:
        shown: Which have colours; by default those `prominent` in `values`.
    """
    shown = prominent(values) if shown is None else shown
    others = np.setdiff1d(np.arange(values.shape[1]), shown)
    for column in others:
        label = f"{len(others)} others" if column == others[-1] else None
        axes.plot(*thinned(t, values[:, column]), color=_PALE, linewidth=0.7, zorder=1, label=label)
    for place, column in enumerate(shown):
        colour, style = look(place)
        axes.plot(*thinned(t, values[:, column]), color=colour, linestyle=style, label=names[column])


def prominent(values: np.ndarray) -> np.ndarray:
    """The columns that are told apart: all, or, where a legend cannot show them, the dozen that vary most."""
    if values.shape[1] <= _MOST_NAMES:
        return np.arange(values.shape[1])
    known = np.where(np.isfinite(values), values, np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of columns without any number
        width = np.nan_to_num(np.nanmax(known, axis=0) - np.nanmin(known, axis=0))
    return np.sort(np.argsort(-width, kind="stable")[: _MOST_NAMES // 2])


def widen(axes: "Axes") -> None:
    """Keeps what is constant but for rounding from filling the axis."""
    low, high = axes.get_ylim()
    if high - low < 1e-3 * max(abs(low), abs(high)):
        axes.set_ylim(min(low, 0.9 * low, 1.1 * low), max(high, 0.9 * high, 1.1 * high))


def look(place: int) -> tuple[str, str]:
    """Colour and line style of the line at this place."""
    return COLOURS[place % len(COLOURS)], _STYLES[place // len(COLOURS) % len(_STYLES)]


def legend(axes: "Axes") -> None:
    """A legend beside the axes."""
    handles, labels = axes.get_legend_handles_labels()
    columns = 1 + (len(labels) > _MOST_NAMES // 2)
    shown = slice(_MOST_NAMES)
    axes.legend(
        handles[shown], labels[shown], loc="upper left", bbox_to_anchor=(1.01, 1.03), ncols=columns, columnspacing=1.2
    )
