"""The incidents of `mdvpf detect`: explained when they are found, written at the end."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdvpf import plots
from mdvpf.cli.shared import complain
from mdvpf.detect import DetectionResult, Incident, SurpriseDetector
from mdvpf.detect.explanation import Explanation
from mdvpf.detect.number_explanation import NumberExplanation
from mdvpf.streams.readers import FileStream
from mdvpf.streams.records import plain


@dataclass(frozen=True, slots=True)
class IncidentLine:
    """An incident, its explanation, and its positions in the file.

    Attributes
    ----------
    incident : Incident
    explanation : Explanation
    start, end, peak : int
        Positions in the file, from 0.
    """

    incident: Incident
    explanation: Explanation | NumberExplanation
    start: int
    end: int
    peak: int

    def write(
        self, data: FileStream, strange: NDArray[np.bool_] | None, *, words: bool, first: int
    ) -> None:
        """Print a JSON object or, with `words`, a paragraph that shows time 0 as `first`."""
        peak = origin(data, self.peak)
        if words:
            key = peak.get("key")
            prefix = "" if key is None else f"key {key!s}: "
            print(prefix + self.explanation.text(first))
            return
        line: dict[str, Any] = {
            "incident": self.incident.number,
            "symbols": [self.start + 1, self.end + 1],
            "peak": self.peak + 1,
            "side": self.incident.side,
            "p_value": self.incident.p_value,
            "alarms": self.incident.n_alarms,
            "why": self.explanation.to_dict(first),
        }
        if strange is not None:
            line["strange"] = bool(strange[self.start : self.end + 1].any())
        print(json.dumps(line | peak, allow_nan=False))


def check_picture(path: Path) -> None:
    """Raise if no picture can be written to a path; a run may take hours before it is written."""
    plots.require()
    from matplotlib.backend_bases import FigureCanvasBase

    known = sorted(FigureCanvasBase.get_supported_filetypes())
    suffix = path.suffix.removeprefix(".").lower()
    if suffix and suffix not in known:  # without a suffix it becomes a PNG
        raise ValueError(
            f"picture={str(path)!r}: expected a name that ends in .{', .'.join(known)}"
        )
    if not path.parent.is_dir():
        raise ValueError(f"picture={str(path)!r}: expected a folder that exists")


class IncidentList:
    """The incidents of a run, each explained when it is found: the trace is bounded.

    Attributes
    ----------
    detector : SurpriseDetector
    train : int
        Number of symbols before the first judged one.
    found : dict of int to IncidentLine
        Lines by the number of the incident.
    """

    def __init__(self, detector: SurpriseDetector, train: int) -> None:
        self.detector = detector
        self.train = train
        self.found: dict[int, IncidentLine] = {}
        self._figure: tuple[float, Any] | None = None

    def add(self, result: DetectionResult, picture: bool) -> None:
        """Add the incidents of a chunk; with `picture` draw the strangest one so far."""
        for incident in result.incidents:
            explanation = self.detector.explain(incident)
            times = (incident.start, incident.end, incident.peak)
            positions = (self.train + time for time in times)
            self.found[incident.number] = IncidentLine(incident, explanation, *positions)
            if picture and (self._figure is None or incident.p_value <= self._figure[0]):
                figure = plots.incident_figure(
                    self.detector.trace, explanation, first=self.train + 1
                )
                self._figure = incident.p_value, figure

    def save_picture(self, path: Path) -> None:
        """Save the picture of the strangest incident, or complain that there is none."""
        if self._figure is None:
            complain(f"{path}: no picture was written, as there is no incident")
        else:
            self._figure[1].savefig(path, dpi=150, bbox_inches="tight")


def origin(data: FileStream, position: int) -> dict[str, Any]:
    """Return the key and the time of a symbol, where the file has them."""
    found: dict[str, Any] = {}
    if data.keys is not None:
        found["key"] = plain(data.keys[position])
    if data.times is not None:
        found["time"] = float(data.times[position])
    return found
