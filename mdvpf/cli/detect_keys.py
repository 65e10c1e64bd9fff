"""`mdvpf detect --each-key`: a detector for each key, and one background for all."""

from __future__ import annotations

import math
from typing import Any

from mdvpf._support.progress import progress_bar
from mdvpf.cli.detect_incidents import IncidentLine
from mdvpf.detect import KeyedDetector, SurpriseDetector
from mdvpf.predictor import Label
from mdvpf.streams.readers import FileStream


def detect_each_key(
    template: SurpriseDetector, max_keys: int, data: FileStream
) -> tuple[list[IncidentLine], dict[str, int]]:
    """Judge every symbol by the detector of its key; return the incidents and the totals.

    A detector counts the symbols of its key; incidents are given as positions in the file. A key
    that was dropped and comes back gets a new detector, whose count starts at 0.
    """
    assert data.keys is not None
    users = KeyedDetector(template, max_keys=max_keys)
    positions: dict[Label | None, list[int]] = {}
    found: dict[tuple[int, int], IncidentLine] = {}
    n_detectors, n_judged, n_alarms = 0, 0, 0
    with progress_bar(True, len(data.symbols), "detect") as advance:
        for i, key in enumerate(data.keys):
            given: dict[str, Any] = {} if data.times is None else {"times": [data.times[i]]}
            detection = users.run(data.symbols[i : i + 1], [key], **given)[0]
            if detection.time == 0:
                positions[key] = []
                n_detectors += 1
            positions[key].append(i)
            n_judged += not math.isnan(detection.p_value)
            advance(1)
            if detection.incident is None:
                continue
            n_alarms += 1
            incident, own = detection.incident, positions[key]
            explanation = users.of(key).explain(incident)
            in_file = (own[incident.start], own[incident.end], own[incident.peak])
            found[own[0], incident.number] = IncidentLine(incident, explanation, *in_file)
    counted = {"keys": len(positions), "judgements": n_judged, "alarms": n_alarms}
    counted["incidents"] = len(found)
    if n_detectors > len(positions):
        counted["detectors that started anew, see --max-keys"] = n_detectors - len(positions)
    return list(found.values()), counted
