"""Figure of an incident: the surprise around it, and below it what contributed most."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mdvpf.detect.explanation import Contribution, Explanation
from mdvpf.detect.number_explanation import NumberExplanation
from mdvpf.detect.trace import Trace, TraceWindow
from mdvpf.plots.panels import require
from mdvpf.predictor import label_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEAST_MARGIN = 100  # symbols shown before and after an incident
LONGEST_LABEL = 24  # characters
MOST_NUMBERS = 4  # numbers of an observation that are drawn


def incident_figure(
    trace: Trace | None, explanation: Explanation | NumberExplanation, *, first: int = 0
) -> Figure:
    """Draw an incident: surprise and expected entropy over time, and the largest contributions.

    Over numbers, the lower panel has the observations and what was expected of them, for the most
    unusual numbers.

    Parameters
    ----------
    trace : Trace
        The last symbols: `SurpriseDetector.trace`.
    explanation : Explanation
        The result of `SurpriseDetector.explain`.
    first : int, default 0
        The number shown for the symbol at time 0.

    Examples
    --------
    >>> import mdvpf
    >>> import numpy as np
    >>> from mdvpf.plots import incident_figure
    >>> detector = mdvpf.SurpriseDetector(mdvpf.Markov(8, order=1), false_incidents=1.0)
    >>> _ = detector.run(np.random.default_rng(0).integers(8, size=2000))
    >>> _ = detector.run([3] * 40)
    >>> figure = incident_figure(detector.trace, detector.explain(detector.incidents[-1]))
    >>> len(figure.axes)
    2
    """
    if not isinstance(trace, Trace):
        raise TypeError(f"trace={trace!r}: expected a Trace")
    if not isinstance(explanation, (Explanation, NumberExplanation)):
        raise TypeError(f"explanation={explanation!r}: expected an Explanation")
    require()
    from matplotlib.figure import Figure

    start, end = explanation.start, explanation.end
    margin = max(LEAST_MARGIN, end - start + 1)
    shown = trace.window(max(0, start - margin), end + margin)
    figure = Figure(figsize=(8.0, 6.0), layout="constrained")
    above, below = figure.subplots(2, 1, height_ratios=(3, 2))
    surprise = np.where(np.isfinite(shown.surprise), shown.surprise, np.nan)
    time = shown.time + first
    above.plot(time, surprise, lw=0.8, color="C0", label="surprise")
    if np.isfinite(shown.entropy).any():
        above.plot(time, shown.entropy, lw=1.2, color="C1", label="expected (entropy)")
    above.axvspan(
        start + first - 0.5, end + first + 0.5, color="C3", alpha=0.2, lw=0, label="incident"
    )
    above.set(xlabel="symbol", ylabel="nats", title=explanation.text(first, n=0).splitlines()[0])
    above.margins(x=0.01)
    above.legend(loc="upper left", fontsize="small")
    if isinstance(explanation, NumberExplanation):
        above.set(xlabel="observation")
        _draw_numbers(below, shown, explanation, first)
    else:
        _draw_contributions(below, explanation)
    return figure


def _draw_numbers(
    axes: Axes, shown: TraceWindow, explanation: NumberExplanation, first: int
) -> None:
    """Draw the observations around an incident, with dashed lines for what was expected."""
    time = shown.time + first
    n_dims = len(explanation.numbers)
    for i, each in enumerate(explanation.numbers[:MOST_NUMBERS]):
        name = "observed" if n_dims == 1 else f"number {each.number + 1}"
        style: dict[str, Any] = {"color": f"C{i}", "lw": 0.8}
        axes.plot(time, shown.numbers[:, each.number], label=name, **style)
        expected = shown.expected_numbers[:, each.number]
        if np.isfinite(expected).any():
            label = "expected" if i == 0 else None
            axes.plot(time, expected, ls="--", alpha=0.6, label=label, **style)
    start, end = explanation.start + first, explanation.end + first
    axes.axvspan(start - 0.5, end + 0.5, color="C3", alpha=0.2, lw=0)
    axes.set(xlabel="observation", ylabel="number")
    axes.margins(x=0.01)
    axes.legend(loc="upper left", fontsize="small")


def _draw_contributions(below: Axes, explanation: Explanation) -> None:
    """Draw the symbols and transitions that contribute most, as bars."""
    found = (*explanation.symbols, *explanation.transitions)
    is_surprising = explanation.side == "surprising"
    values = [each.nats if is_surprising else each.count for each in found]
    below.barh(range(len(found)), values, color="C3", alpha=0.7)
    if not is_surprising:
        usual = np.nan_to_num([each.usual for each in found])
        below.barh(range(len(found)), usual, height=0.3, color="0.3", label="usually")
        below.legend(loc="lower right", fontsize="small")
    below.set_yticks(range(len(found)), [_name(each) for each in found], fontsize="small")
    below.invert_yaxis()
    below.set(xlabel="nats contributed" if is_surprising else "times in the incident")


def _name(each: Contribution) -> str:
    name = _short(label_text(each.what))
    return name if each.after is None else f"{_short(label_text(each.after))} → {name}"


def _short(text: str) -> str:
    text = text.replace("$", r"\$")
    return text if len(text) <= LONGEST_LABEL else text[: LONGEST_LABEL - 1] + "…"
