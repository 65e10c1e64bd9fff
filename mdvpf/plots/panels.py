"""Line plots that can be read without colour: every method has its own dashes, shade and marker.

A figure is a grid of panels; a panel is a set of lines. Figures are saved as PNG and SVG without
dates, so that the same lines give the same files.
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mdvpf._support.extras import needed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Colours that differ in lightness, each with its own dashes and marker.
STYLES: tuple[dict[str, Any], ...] = (
    {"color": "#000000", "linestyle": "-", "marker": "o"},
    {"color": "#d55e00", "linestyle": (0, (5, 1.5)), "marker": "s"},
    {"color": "#0072b2", "linestyle": (0, (1, 1)), "marker": "^"},
    {"color": "#56b4e9", "linestyle": (0, (6, 1.5, 1, 1.5)), "marker": "v"},
    {"color": "#009e73", "linestyle": (0, (3, 1, 1, 1, 1, 1)), "marker": "D"},
    {"color": "#999999", "linestyle": (0, (9, 3)), "marker": "X", "markersize": 8},
    {"color": "#cc79a7", "linestyle": (0, (2, 2)), "marker": "P", "markersize": 8},
    {"color": "#7f7f7f", "linestyle": (0, (4, 2, 1, 2)), "marker": "*", "markersize": 11},
    {"color": "#666666", "linestyle": (0, (1, 4)), "marker": ""},
    {"color": "#4d3300", "linestyle": (0, (8, 1, 1, 1, 1, 1)), "marker": "h"},
)
# A method looks the same in every figure.
STYLE_OF = {
    "MD-VPA": 0,
    "SMC": 1,
    "VPA": 2,
    "OptimalResampling": 3,
    "ParticleLearning": 4,
    "generator": 5,
    "Markov": 6,
    "ContextTree": 7,
    "naive": 5,  # Bayes; never together with the generator
    "block_detector": 4,  # never together with ParticleLearning
    "slope": 8,  # a line to compare with
    "auto": 9,
    "PitmanYorTree": 5,  # never together with the generator
    "SoftHMM": 9,  # never together with auto
    "hmmlearn": 6,  # never together with Markov chains
}
MARKERS_A_LINE = 8


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """One line: its label, its points, and half the width of its band."""

    label: str
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    band: NDArray[np.float64] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Panel:
    """One plot: lines, a title, labelled axes, and vertical marks."""

    title: str
    xlabel: str
    ylabel: str
    lines: Sequence[Line]
    marks: Sequence[float] = ()  # vertical lines
    mark_label: str = "change of source"
    log_x: bool = False
    log_y: bool = False


def require() -> None:
    """Raise an ImportError that names the package to install if Matplotlib is missing."""
    with needed("a figure", "matplotlib", "plot"):
        import matplotlib  # noqa: F401


def figure(panels: Sequence[Panel], title: str, columns: int = 3) -> Figure:
    """Return a figure with the panels in rows, and one legend for all of them.

    Examples
    --------
    >>> import numpy as np
    >>> from mdvpf.plots.panels import Line, Panel, figure
    >>> line = Line("VPA", np.arange(3.0), np.arange(3.0))
    >>> len(figure([Panel("left", "x", "y", [line])], "example").axes)
    1
    """
    require()
    from matplotlib.figure import Figure

    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    width = max(7.5, 5.0 * columns)
    result = Figure(figsize=(width, 3.6 * rows + 1.0), layout="constrained")
    # About ten letters fit into an inch; a longer line would be cut off.
    result.suptitle("\n".join(textwrap.fill(line, round(9 * width)) for line in title.splitlines()))
    grid = result.subplots(rows, columns, squeeze=False).ravel()
    handles: dict[str, Any] = {}
    for axes, panel in zip(grid, panels, strict=False):
        handles |= _draw(axes, panel)
    for axes in grid[len(panels) :]:
        axes.remove()
    result.legend(
        handles.values(),
        handles.keys(),
        loc="outside lower center",
        ncols=_legend_columns(handles, width),
        handlelength=4,
    )
    return result


def _legend_columns(labels: Collection[str], width: float) -> int:
    """Return the number of columns that fit into the width in inches and fill the rows evenly."""
    longest = max(map(len, labels))
    column_width = 1.7 + 0.1 * max(0, longest - len("OptimalResampling"))
    rows = -(-len(labels) // int(width / column_width))
    return -(-len(labels) // rows)


def _marked(line: Line, i: int, panel: Panel) -> list[int]:
    """Return the indices of the points with a marker, which differ between the lines."""
    if len(line.x) <= MARKERS_A_LINE:
        return list(range(len(line.x)))
    x = np.log(np.maximum(line.x, line.x[line.x > 0].min())) if panel.log_x else line.x
    steps = np.arange(MARKERS_A_LINE) + (i + 0.5) / len(panel.lines)
    targets = x[0] + (x[-1] - x[0]) * steps / MARKERS_A_LINE
    found: list[int] = np.searchsorted(x, targets).tolist()
    return found


def _draw(axes: Axes, panel: Panel) -> dict[str, Any]:
    handles: dict[str, Any] = {}
    for point in panel.marks:
        handles[panel.mark_label] = axes.axvline(point, color="0.7", linewidth=1, zorder=0)
    for i, line in enumerate(panel.lines):
        style = STYLES[STYLE_OF.get(line.label.split(" ")[0].rstrip(","), i % len(STYLES))]
        (handles[line.label],) = axes.plot(
            line.x,
            line.y,
            linewidth=1.6,
            markeredgecolor="white",  # keeps markers visible on crossing lines
            markeredgewidth=0.5,
            markevery=_marked(line, i, panel),
            **{"markersize": 6.5, **style},
        )
        if line.band is not None:
            axes.fill_between(
                line.x,
                line.y - line.band,
                line.y + line.band,
                color=style["color"],
                alpha=0.12,
                linewidth=0,
            )
    if panel.log_x:
        axes.set_xscale("log")
    if panel.log_y:
        axes.set_yscale("log")
    axes.set_title(panel.title, fontsize="medium")
    axes.set_xlabel(panel.xlabel)
    axes.set_ylabel(panel.ylabel)
    axes.grid(alpha=0.25, linewidth=0.5)
    return handles


def save(drawing: Figure, stem: Path) -> list[Path]:
    """Write a figure as PNG and as SVG; return the files."""
    import matplotlib

    png, svg = stem.with_suffix(".png"), stem.with_suffix(".svg")
    with matplotlib.rc_context({"svg.hashsalt": "mdvpf", "svg.fonttype": "path"}):
        drawing.savefig(png, dpi=130, metadata={"Software": None})
        drawing.savefig(svg, metadata={"Date": None})
    return [png, svg]


def trailing_mean(values: NDArray[np.float64], window: int) -> NDArray[np.float64]:
    """Return the mean over the last `window` columns, from column ``window - 1`` on.

    The window only looks back: the mean at a change point uses nothing after it.

    Examples
    --------
    >>> import numpy as np
    >>> from mdvpf.plots.panels import trailing_mean
    >>> trailing_mean(np.array([[1.0, 3.0, 5.0]]), 2).tolist()
    [[2.0, 4.0]]
    """
    sums = np.cumsum(np.pad(values, ((0, 0), (1, 0))), axis=1)
    means: NDArray[np.float64] = (sums[:, window:] - sums[:, :-window]) / window
    return means


def with_band(
    label: str, x: NDArray[np.float64], values: NDArray[np.float64], scale: float = 1.0
) -> Line:
    """Return a `Line`: the mean over rows, with a band of `scale` standard errors."""
    band = None
    if len(values) > 1:
        band = scale * values.std(axis=0, ddof=1) / np.sqrt(len(values))
    return Line(label, x, values.mean(axis=0), band)
