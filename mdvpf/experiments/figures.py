"""Panels that several experiments share: predictions and states over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mdvpf.experiments.results import Group
from mdvpf.plots import Line, Panel, trailing_mean, with_band
from mdvpf.streams.methods import ALGORITHMS, BASE

PAPER_FILTERS = ("SMC", "VPA", BASE)  # the filters in the figures of the paper
MOST_POINTS = 300  # points of a line; with more, jags hide its dash pattern


def shown_labels(group: Group, *more: str) -> list[str]:
    """Return the methods to draw: the filters, MD-VPA first, and some others."""
    filters = [BASE, *(name for name in ALGORITHMS if name != BASE)]
    return [label for label in (*filters, *more) if label in group.labels]


def band_note(n: int, over: str = "streams") -> str:
    """Return the line of a title that explains the bands, if there are any."""
    return f"\n(band: standard error over {over})" if n > 1 else ""


def paper_panels(
    group: Group, window: int, *, marks: Sequence[float] = (), every: int = 0, over: str = "streams"
) -> list[Panel]:
    """Return the panels of a figure in the paper, with its three filters.

    They show the predictive log-likelihood and, if it was measured (every `every` symbols), the
    estimation variance.
    """
    labels = [label for label in PAPER_FILTERS if label in group.labels]
    prediction, _ = course(group, labels, window, marks=marks, over=over)
    panels = [replace(prediction, title=f"as in the paper: {prediction.title}")]
    if every and all(group.curves(label, "variance").size for label in labels):
        band = band_note(len(group.streams), over)
        lines = []
        for label in labels:
            values = group.curves(label, "variance")
            lines.append(with_band(label, every * np.arange(1.0, values.shape[1] + 1), values))
        title = f"as in the paper: estimation variance{band}"
        ylabel = "variance within the particles"
        panels.append(Panel(title, "time (symbols)", ylabel, lines, marks))
    return panels


def course(
    group: Group,
    labels: Sequence[str],
    window: int,
    *,
    marks: Sequence[float] = (),
    mark_label: str = "change of source",
    over: str = "streams",
) -> list[Panel]:
    """Return two panels over time: the trailing mean log predictive, and the number of states."""
    time = np.arange(1.0, min(len(data) for data in group.streams.values()) + 1)
    window = min(window, len(time) // 2)
    stride = -(-len(time) // MOST_POINTS)

    def smooth(label: str) -> Line:
        values = trailing_mean(group.curves(label), window)
        return with_band(group.titles[label], time[window - 1 :: stride], values[:, ::stride])

    def states(label: str) -> Line:
        return with_band(label, time[::stride], group.curves(label, "n_states")[:, ::stride])

    band = band_note(len(group.streams), over)
    with_states = [name for name in labels if name in ALGORITHMS]
    return [
        Panel(
            f"prediction, mean of the last {window} symbols{band}",
            "time (symbols)",
            "log predictive (nats a symbol)",
            [smooth(label) for label in labels],
            marks,
            mark_label,
        ),
        Panel(
            f"states of a particle{band}",
            "time (symbols)",
            "states (weighted mean)",
            [states(name) for name in with_states],
            marks,
            mark_label,
        ),
    ]
