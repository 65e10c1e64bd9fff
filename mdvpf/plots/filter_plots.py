"""Figures of a run, and of the transitions and emissions of a particle.

A run has five strips over the same time axis: surprise with alarms, number of states, effective
sample size, discarded share, and the path of states. A particle has a transition graph and an
emission table. All figures can be read without colour.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mdvpf import plots
from mdvpf._support import validate
from mdvpf.filter import ParticleFilter
from mdvpf.predictor import Counts, FilterResult, label_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DARK, _ACCENT, _LIGHT = "#000000", "#d55e00", "0.75"
_WINDOW = 50  # symbols; the window of the mean in longer strips
_COLUMNS = 800  # of the strip of states; fewer than its pixels, so that every column is visible
_FEW_STATES = 12  # up to this number, every state has a tick on the axis


def run_figure(
    result: FilterResult,
    *,
    path: ArrayLike | None = None,
    alarms: ArrayLike | None = None,
    changes: Sequence[int] = (),
    title: str = "",
) -> Figure:
    """Draw an overview of a run.

    Parameters
    ----------
    result : FilterResult
        The run.
    path : array_like of int, optional
        The states of the last symbols of the run, such as ``pf.path()``.
    alarms : array_like of bool, optional
        Whether each symbol raised an alarm.
    changes : sequence of int, optional
        Change points: indices of symbols.
    title : str, optional
        The title.

    Examples
    --------
    >>> import mdvpf
    >>> from mdvpf.plots.filter_plots import run_figure
    >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(3), n_particles=20, history="full")
    >>> result = pf.run([0, 1, 2] * 20)
    >>> figure = run_figure(result, path=pf.path(), title="a cycle of three")
    >>> [axes.get_ylabel().split()[0] for axes in figure.axes[1:]]
    ['states', 'ESS', 'discarded', 'state']
    """
    plots.require()
    from matplotlib.figure import Figure

    n = len(result)
    flags = np.zeros(n, dtype=np.bool_) if alarms is None else np.asarray(alarms)
    if flags.shape != (n,) or flags.dtype != np.bool_:
        raise ValueError(f"alarms of {flags.dtype}, shape {flags.shape}: expected {n} bools")
    states = None
    if path is not None:
        states = validate.integers("path", path, low=0)
        if not 0 < len(states) <= n:
            raise ValueError(f"path of {len(states)} states: expected 1..{n}, the last of the run")
    heights = [2.0, 1.0, 1.0, 1.0] + ([1.6] if states is not None else [])
    figure = Figure(figsize=(10.0, 1.1 * sum(heights) + 1.0), layout="constrained")
    figure.suptitle(title)
    strips = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights, squeeze=False)
    surprise, n_states, ess, discarded, *rest = strips[:, 0]
    _surprise(surprise, -result.log_predictive, flags)
    _line(n_states, result.mean_states, "states\n(mean)")
    _line(ess, result.ess, "ESS\n(particles)")
    _line(discarded, result.discarded, "discarded\n(share)")
    discarded.set_ylim(0.0, None)
    for axes in rest:
        assert states is not None
        _state_strip(axes, states, n)
    for axes in strips[:, 0]:
        axes.set_xlim(-0.5, n - 0.5)
        for i, change in enumerate(changes):
            label = "change point" if i == 0 and axes is surprise else None
            axes.axvline(change, color="0.4", linestyle=(0, (4, 2)), linewidth=1.0, label=label)
    handles, labels = surprise.get_legend_handles_labels()
    surprise.legend(handles, labels, loc="upper left", ncols=len(labels), fontsize="small")
    strips[-1, 0].set_xlabel("time (symbols)")
    figure.align_ylabels(strips[:, 0])
    return figure


def _surprise(axes: Axes, surprise: NDArray[np.float64], alarms: NDArray[np.bool_]) -> None:
    time = np.arange(len(surprise))
    axes.plot(time, surprise, color=_LIGHT, linewidth=0.7, label="each symbol")
    if len(surprise) > 3 * _WINDOW:
        mean = plots.trailing_mean(surprise[np.newaxis], _WINDOW)[0]
        axes.plot(time[_WINDOW - 1 :], mean, color=_DARK, label=f"mean of the last {_WINDOW}")
    if alarms.any():
        axes.plot(time[alarms], surprise[alarms], "v", color=_ACCENT, markersize=5, label="alarm")
    axes.set_ylabel("surprise\n(nats)")
    largest = surprise[np.isfinite(surprise)].max(initial=0.0)
    lowest = surprise[np.isfinite(surprise)].min(initial=0.0)  # log densities may be positive
    axes.set_ylim(1.1 * float(lowest), max(1.0, 1.35 * float(largest)))  # with room for the legend
    axes.grid(alpha=0.25, linewidth=0.5)


def _line(axes: Axes, values: NDArray[np.float64], label: str) -> None:
    axes.plot(np.arange(len(values)), values, color=_DARK, linewidth=1.0)
    axes.set_ylabel(label)
    axes.grid(alpha=0.25, linewidth=0.5)


def _state_strip(axes: Axes, states: NDArray[np.int64], n: int) -> None:
    """Draw one row a state; darker columns mean that the path is in the state more often."""
    n_states = int(states.max()) + 1
    width = -(-len(states) // _COLUMNS)  # symbols a column
    column = np.arange(len(states)) // width
    strip = np.zeros((n_states, int(column[-1]) + 1))
    np.add.at(strip, (states, column), 1.0)
    first = n - len(states) - 0.5
    axes.imshow(
        strip / strip.sum(axis=0),
        interpolation="nearest",
        aspect="auto",
        cmap="Greys",
        vmin=0.0,
        vmax=1.0,
        origin="lower",
        extent=(first, first + width * strip.shape[1], -0.5, n_states - 0.5),
    )
    axes.set_ylabel("state")
    if n_states <= _FEW_STATES:
        axes.set_yticks(range(n_states))


def transition_graph(pf: ParticleFilter, *, k: int | None = None, least: float = 0.05) -> Figure:
    """Draw the transitions between the states of a particle as a graph.

    States are placed on a circle; their size shows how often they were entered. The width of an
    arrow and the number beside it show its share of the transitions from its state.

    Parameters
    ----------
    pf : ParticleFilter
        The filter.
    k : int, optional
        The particle; the heaviest by default.
    least : float, default 0.05
        Leave out arrows with a smaller share.

    Examples
    --------
    >>> import mdvpf
    >>> from mdvpf.plots.filter_plots import transition_graph
    >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(3, beta=0.01), n_particles=20)
    >>> _ = pf.run([0, 1, 2] * 20)
    >>> figure = transition_graph(pf)
    >>> sorted(text.get_text() for text in figure.axes[0].texts)
    ['0', '1', '1.00', '1.00', '1.00', '2']
    """
    least = validate.real("least", least, low=0.0, high=1.0)
    plots.require()
    from matplotlib.figure import Figure

    counts = _counts(pf, k)
    n = len(counts.transition)
    entered = counts.start + counts.transition.sum(axis=0)
    shares = counts.transition / np.maximum(counts.transition.sum(axis=1, keepdims=True), 1)
    angles = np.pi / 2 - 2 * np.pi * np.arange(n) / n
    centres = np.column_stack([np.cos(angles), np.sin(angles)]) * (1.0 if n > 1 else 0.0)
    radii = (0.05 + 0.07 * np.sqrt(entered / entered.max())) * _crowding(n)

    figure = Figure(figsize=(8.5, 8.5), layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(f"transitions of {_which(k)}: {n} states, shares of at least {least:g}")
    for i, j in zip(*np.nonzero((counts.transition > 0) & (shares >= least)), strict=True):
        if i == j:
            _loop(axes, centres[i], radii[i], shares[i, j], _crowding(n))
        else:
            _arrow(axes, centres[i], centres[j], (radii[i], radii[j]), shares[i, j])
    for i in range(n):
        _node(axes, centres[i], radii[i], str(i))
    axes.set_xlim(-1.3, 1.3)
    axes.set_ylim(-1.3, 1.3)
    axes.set_aspect("equal")
    axes.axis("off")
    return figure


def _counts(pf: Any, k: int | None) -> Counts:
    if not isinstance(pf, ParticleFilter):
        raise TypeError(f"pf={pf!r}: expected a ParticleFilter")
    counts = pf.counts(k)
    if len(counts.start) == 0:
        raise ValueError(f"{_which(k)} has no states: expected a filter that has seen a symbol")
    return counts


def _crowding(n: int) -> float:
    return min(1.0, 14.0 / n)


def _which(k: int | None) -> str:
    return "the heaviest particle" if k is None else f"particle {k}"


def _node(axes: Axes, centre: NDArray[np.float64], radius: float, label: str) -> None:
    from matplotlib.patches import Circle

    axes.add_patch(Circle(tuple(centre), radius, facecolor="white", edgecolor=_DARK, zorder=3))
    axes.text(centre[0], centre[1], label, ha="center", va="center", fontsize=9, zorder=4)


def _share(axes: Axes, centre: NDArray[np.float64], share: float) -> None:
    box = {"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.8}
    x, y = centre
    axes.text(x, y, f"{share:.2f}", ha="center", va="center", fontsize=7, zorder=5, bbox=box)


def _arrow(
    axes: Axes,
    start: NDArray[np.float64],
    end: NDArray[np.float64],
    radii: tuple[float, float],
    share: float,
) -> None:
    """Draw an arrow that bends to its left, so that opposite arrows do not overlap."""
    from matplotlib.patches import FancyArrowPatch

    direction = (end - start) / np.linalg.norm(end - start)
    tail, head = start + radii[0] * direction, end - radii[1] * direction
    bend = 0.2
    style: dict[str, Any] = {"arrowstyle": "-|>", "mutation_scale": 8 + 8 * share}
    axes.add_patch(
        FancyArrowPatch(
            tuple(tail),
            tuple(head),
            connectionstyle=f"arc3,rad={bend}",
            linewidth=0.4 + 2.6 * share,
            color="0.25",
            shrinkA=0.0,
            shrinkB=0.0,
            zorder=2,
            **style,
        )
    )
    # The arc is a quadratic Bezier curve whose control point is off the middle by the bend. The
    # label is a third of the way along, because arrows may cross in the middle.
    control = (tail + head) / 2 + bend * np.array([head[1] - tail[1], tail[0] - head[0]])
    at = 0.35
    _share(axes, (1 - at) ** 2 * tail + 2 * at * (1 - at) * control + at**2 * head, share)


def _loop(
    axes: Axes, centre: NDArray[np.float64], radius: float, share: float, scale: float
) -> None:
    """Draw a transition of a state to itself, on the outer side of the circle."""
    from matplotlib.patches import Circle

    length = float(np.linalg.norm(centre))
    outwards = centre / length if length > 0 else np.array([0.0, 1.0])
    size = 0.09 * scale
    middle = centre + outwards * (radius + 0.6 * size)
    axes.add_patch(
        Circle(tuple(middle), size, fill=False, linewidth=0.4 + 2.6 * share, edgecolor="0.25")
    )
    _share(axes, middle + outwards * (size + 0.05), share)


def emission_table(pf: ParticleFilter, *, k: int | None = None, top: int = 30) -> Figure:
    """Draw the emissions of the states of a particle: shares as shades, counts as numbers.

    Parameters
    ----------
    pf : ParticleFilter
        The filter; with a vocabulary, symbols are shown as labels.
    k : int, optional
        The particle; the heaviest by default.
    top : int, default 30
        Number of symbols to show, the most frequent ones.

    Examples
    --------
    >>> import mdvpf
    >>> from mdvpf.plots.filter_plots import emission_table
    >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(3, beta=0.01), n_particles=20)
    >>> pf.vocabulary = mdvpf.Vocabulary(["ls", "cd", "make"])
    >>> _ = pf.run([0, 1, 2] * 20)
    >>> [tick.get_text() for tick in emission_table(pf).axes[0].get_xticklabels()]
    ['ls', 'cd', 'make']
    """
    top = validate.integer("top", top, low=1)
    plots.require()
    from matplotlib.figure import Figure

    counts = _counts(pf, k).emission
    if pf.model.numbers is not None:
        raise TypeError("emission_table: observations are numbers; expected fan_figure")
    shown = np.sort(np.argsort(-counts.sum(axis=0), kind="stable")[:top])
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    n, width = len(counts), len(shown)
    figure = Figure(
        figsize=(max(5.0, 1.8 + 0.5 * width), max(3.0, 1.5 + 0.36 * n)), layout="constrained"
    )
    axes = figure.add_subplot()
    image = axes.imshow(shares[:, shown], cmap="Greys", vmin=0.0, vmax=1.0, aspect="auto")
    if n * width <= 1000:  # more would be too small to read
        for i, j in zip(*np.nonzero(counts[:, shown]), strict=True):
            shade = "white" if shares[i, shown[j]] > 0.5 else "black"
            text = f"{counts[i, shown[j]]}"
            axes.text(j, i, text, ha="center", va="center", fontsize=7, color=shade)
    names = [str(symbol) for symbol in shown]
    if pf.vocabulary is not None:
        labels = list(pf.vocabulary)
        names = [label_text(labels[symbol]) for symbol in shown]
    # Escape dollar signs, which would start a formula, and show blank labels by their repr.
    names = [(name if name.strip() else repr(name)).replace("$", r"\$") for name in names]
    axes.set_xticks(range(width), names, rotation=90 if max(map(len, names)) > 2 else 0)
    axes.set_yticks(range(n))
    axes.set_xlabel("symbol")
    axes.set_ylabel("state")
    some = "" if width == counts.shape[1] else f", {width} of {counts.shape[1]} symbols"
    axes.set_title(f"emissions of {_which(k)}{some} (numbers: counts)", fontsize="medium")
    figure.colorbar(image, ax=axes, label="share of the state's emissions")
    return figure
