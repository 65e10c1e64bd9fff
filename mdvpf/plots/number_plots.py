"""Pictures of a filter over numbers: a fan of quantiles, and whether predictions are calibrated.

Observations are drawn in the colour and with the marker of their state, so that nothing depends on
colour alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mdvpf import plots
from mdvpf._support import validate
from mdvpf.filter import Predictive
from mdvpf.plots.panels import STYLES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEVELS = (0.5, 0.8, 0.95)
_STATES_NAMED = len(STYLES) - 1  # the last style is for all other states
_SHADES = (0.45, 0.15)  # opacity of the narrowest and of the widest interval


def fan_figure(
    observations: ArrayLike,
    predictives: Sequence[Predictive] = (),
    *,
    start: int | None = None,
    path: ArrayLike | None = None,
    levels: Sequence[float] = LEVELS,
    changes: Sequence[int] = (),
    title: str = "",
) -> Figure:
    """Draw numbers with their states, and what was expected as intervals that fan out.

    Parameters
    ----------
    observations : array_like of float, shape (n,)
        The numbers; NaN for a missing one.
    predictives : sequence of Predictive, optional
        Distributions of one number at consecutive times, such as ``pf.forecast(20)``, or what
        `ParticleFilter.predictive` returned before each observation. If observations have several
        numbers, pass a `marginal` of each distribution.
    start : int, optional
        The time of the first distribution; by default they follow the last observation.
    path : array_like of int, optional
        The states at the last observations, such as ``pf.path()``.
    levels : sequence of float, default (0.5, 0.8, 0.95)
        Probabilities of the intervals.
    changes : sequence of int, optional
        Change points: indices of observations.
    title : str, optional
        The title.

    Examples
    --------
    >>> import mdvpf
    >>> from mdvpf.plots import fan_figure
    >>> model = mdvpf.InfiniteHMM(emission=mdvpf.Gaussian(shape=2.0, scale=0.1))
    >>> pf = mdvpf.ParticleFilter(model, n_particles=20, history="full")
    >>> load = [0.1, 0.0, 5.0, 5.2]
    >>> _ = pf.run(load)
    >>> figure = fan_figure(load, pf.forecast(5, size=20, rng=0), path=pf.path())
    >>> len(figure.axes)
    1
    """
    y = np.asarray(observations, dtype=np.float64)
    if y.ndim != 1:
        raise ValueError(f"observations of shape {y.shape}: expected one number each")
    states = np.zeros(len(y), dtype=np.int64)
    if path is not None:
        states[:] = -1
        given = validate.integers("path", path, low=0)
        if not 0 < len(given) <= len(y):
            raise ValueError(f"path of {len(given)} states: expected 1..{len(y)}, those at the end")
        states[len(y) - len(given) :] = given
    first = len(y) if start is None else validate.integer("start", start, low=0)
    wanted = sorted(validate.real("levels", level, low=0.0, high=1.0) for level in levels)
    for i, each in enumerate(predictives):
        if not isinstance(each, Predictive) or each.n_dims != 1:
            raise ValueError(f"predictives[{i}]={each!r}: expected a Predictive of one number")
    plots.require()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.0, 4.5), layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title)
    if len(predictives):
        _fan(axes, predictives, first, wanted)
    for change in changes:
        axes.axvline(change, color="0.4", linestyle=(0, (4, 2)), linewidth=1.0)
    _points(axes, y, states, path is not None)
    axes.set_xlabel("time (observations)")
    axes.set_ylabel("observation")
    axes.grid(alpha=0.25, linewidth=0.5)
    axes.legend(loc="upper left", ncols=4, fontsize="small")
    return figure


def _fan(axes: Axes, predictives: Sequence[Predictive], first: int, levels: list[float]) -> None:
    """Draw the intervals of all levels, the widest first, and the median."""
    tails = [(1.0 - level) / 2.0 for level in reversed(levels)]
    q = np.array([*tails, 0.5, *(1.0 - tail for tail in reversed(tails))])
    quantiles = np.array([each.ppf(q) for each in predictives])
    time = first + np.arange(len(predictives))
    opacities = np.linspace(_SHADES[1], _SHADES[0], len(levels))
    for i, (level, opacity) in enumerate(zip(reversed(levels), opacities, strict=True)):
        axes.fill_between(
            time,
            quantiles[:, i],
            quantiles[:, -1 - i],
            step="mid",
            color="0.4",
            alpha=float(opacity),
            linewidth=0,
            label=f"{level:.0%}",
        )
    edges = first - 0.5 + np.arange(len(predictives) + 1)
    axes.stairs(quantiles[:, len(levels)], edges, baseline=None, color="#000000", label="median")


def _points(
    axes: Axes, y: NDArray[np.float64], states: NDArray[np.int64], with_states: bool
) -> None:
    time = np.arange(len(y))
    for state in np.unique(states).tolist():
        shown = states == state
        named = 0 <= state < _STATES_NAMED
        style = STYLES[state if named else -1]
        label = "observed" if not with_states or state < 0 else f"state {state}"
        axes.scatter(
            time[shown],
            y[shown],
            marker=style["marker"] or ".",
            s=16,
            color=style["color"] if with_states else "#000000",
            label=label if named or state < 0 else None,
        )


def calibration_figure(
    transforms: ArrayLike | Mapping[str, ArrayLike], *, n_bins: int = 20, title: str = ""
) -> Figure:
    """Draw the histogram of probability integral transforms: it is flat if a filter is calibrated.

    A hump in the middle means that predictions are too wide; peaks at both ends mean that they are
    too narrow. The band holds 95 % of the bars of a calibrated filter.

    Parameters
    ----------
    transforms : array_like of float, or mapping of str to array_like
        What `integral_transforms` returned: for one filter, or by name for several. NaN is
        ignored.
    n_bins : int, default 20
        Bars of the histogram.
    title : str, optional
        The title.

    Examples
    --------
    >>> import numpy as np
    >>> from mdvpf.plots import calibration_figure
    >>> figure = calibration_figure(np.linspace(0.0, 1.0, 100))
    >>> len(figure.axes[0].patches) >= 20
    True
    """
    n_bins = validate.integer("n_bins", n_bins, low=2)
    found: dict[str, NDArray[np.float64]] = {}
    given = transforms if isinstance(transforms, Mapping) else {"": transforms}
    for name, entry in given.items():
        values = np.asarray(entry, dtype=np.float64).ravel()
        found[name] = values = values[~np.isnan(values)]
        if len(values) == 0 or values.min() < 0.0 or values.max() > 1.0:
            raise ValueError(f"transforms={entry!r}: expected numbers from 0 to 1")
    plots.require()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(1.5 + 5.0 * len(found), 4.0), layout="constrained")
    figure.suptitle(title)
    grid = figure.subplots(1, len(found), sharey=True, squeeze=False)[0]
    for axes, (name, values) in zip(grid, found.items(), strict=True):
        axes.set_title(name)
        _histogram(axes, values, n_bins)
    grid[0].set_ylabel("density")
    grid[0].legend(fontsize="small")
    return figure


def _histogram(axes: Axes, values: NDArray[np.float64], n_bins: int) -> None:
    heights, edges = np.histogram(values, bins=n_bins, range=(0.0, 1.0))
    scale = n_bins / len(values)
    style: dict[str, Any] = {"color": "0.7", "edgecolor": "white"}
    axes.bar(edges[:-1], heights * scale, 1.0 / n_bins, align="edge", label="observed", **style)
    # A bar is binomial: 1.96 standard deviations of it.
    half = 1.96 * np.sqrt((n_bins - 1.0) / len(values))
    axes.axhspan(max(0.0, 1.0 - half), 1.0 + half, color="#0072b2", alpha=0.2, label="95 %")
    axes.axhline(1.0, color="#0072b2", label="calibrated")
    axes.set_xlim(0.0, 1.0)
    axes.set_xlabel("distribution function at the observation")
