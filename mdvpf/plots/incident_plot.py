"""Figure of an incident: the surprise around it, and the largest contributions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mdvpf.detect.explanation import Contribution, Explanation
from mdvpf.detect.trace import Trace
from mdvpf.plots.panels import require
from mdvpf.predictor import label_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEAST_MARGIN = 100  # symbols shown before and after an incident
LONGEST_LABEL = 24  # characters


def incident_figure(trace: Trace | None, explanation: Explanation, *, first: int = 0) -> Figure:
    """Draw an incident: surprise and expected entropy over time, and the largest contributions.

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
    if not isinstance(explanation, Explanation):
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
    return figure


def _name(each: Contribution) -> str:
    name = _short(label_text(each.what))
    return name if each.after is None else f"{_short(label_text(each.after))} → {name}"


def _short(text: str) -> str:
    text = text.replace("$", r"\$")
    return text if len(text) <= LONGEST_LABEL else text[: LONGEST_LABEL - 1] + "…"
