"""Panels that several experiments draw: predictions and states in the course of the streams."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mdvpf.experiments.methods import ALGORITHMS, BASE
from mdvpf.experiments.results import Group
from mdvpf.plots import Line, Panel, trailing_mean, with_band


def shown_labels(group: Group, *more: str) -> list[str]:
    """Return the methods that are drawn: the filters, MD-VPA first, and some others."""
    filters = [BASE, *(name for name in ALGORITHMS if name != BASE)]
    return [label for label in (*filters, *more) if label in group.labels]


def course(
    group: Group,
    labels: Sequence[str],
    window: int,
    *,
    marks: Sequence[float] = (),
    mark_label: str = "change of source",
    over: str = "streams",
) -> list[Panel]:
    """Return two panels: the mean log predictive of the last symbols, and the number of states."""
    time = np.arange(1.0, min(len(data) for data in group.streams.values()) + 1)
    window = min(window, len(time) // 2)

    def smooth(label: str) -> Line:
        values = trailing_mean(group.curves(label), window)
        return with_band(group.shown[label], time[window - 1 :], values)

    band = f"\n(band: standard error over {over})" if len(group.streams) > 1 else ""
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
            "states of a particle",
            "time (symbols)",
            "states (weighted mean)",
            [with_band(name, time, group.curves(name, "n_states")) for name in with_states],
            marks,
            mark_label,
        ),
    ]
