"""What the service shows of a stream, as plain values for JSON."""

from __future__ import annotations

import dataclasses
import json
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdvpf.filter import ParticleFilter
from mdvpf.predictor import Label, Predictor, label_text
from mdvpf.predictor.keys import read_key
from mdvpf.streams.methods import method_of
from mdvpf.streams.report import Report, finite
from mdvpf.streams.service.stream import Stream

MOST_STATES = 24  # that are shown, the most visited
TOP = 5  # symbols of a state that are named


class NoForecast(ValueError):
    """The predictor of a stream cannot look further than one symbol ahead."""


def read_query_key(text: str | None, as_json: str | None) -> Label | None:
    """Return the key that a request names, as text or as JSON; or raise.

    Examples
    --------
    >>> from mdvpf.streams.service.views import read_query_key
    >>> read_query_key("7", None), read_query_key(None, "7"), read_query_key(None, '["a", 7]')
    ('7', 7, ('a', 7))
    """
    if as_json is None:
        return read_key("key", text)
    if text is not None:
        raise ValueError("key, key_json: expected one of them")
    try:
        return read_key("key_json", _label(json.loads(as_json)))
    except (RecursionError, json.JSONDecodeError):
        raise ValueError("key_json: expected a text, an integer or a list of them") from None


def _label(value: Any) -> Any:
    return tuple(_label(each) for each in value) if isinstance(value, list) else value


def labels_of(predictor: Predictor) -> list[Any]:
    """Return the labels of all symbols, as JSON shows them."""
    if predictor.vocabulary is None:
        return list(range(predictor.n_symbols))
    found = [_shown(label) for label in predictor.vocabulary]
    return found + [None] * (predictor.n_symbols + predictor.is_open - len(found))


def _shown(label: Label) -> Any:
    return label if isinstance(label, (str, int)) else label_text(label)


def prediction(stream: Stream, key: Label | None, top: int) -> dict[str, Any]:
    """Return the likeliest next symbols of a key."""
    with stream.look() as state:
        reader = state.monitor.detector.reader
        labels = labels_of(reader)
        probabilities = reader.predict_proba() if key is None else reader.predict_proba(key=key)
        n_lines = state.monitor.n_lines
    return {"events": n_lines, "symbols": _likeliest(probabilities, labels, top)}


def forecast(
    stream: Stream, key: Label | None, horizon: int, size: int, top: int
) -> dict[str, Any]:
    """Return the likeliest symbols of each of the next steps of a key."""
    with stream.look() as state:
        reader = state.monitor.detector.reader
        if not isinstance(reader, ParticleFilter):
            raise NoForecast("only a single filter, such as MD-VPA, has forecasts")
        rows = reader.forecast(horizon, size, key, rng=state.monitor.n_lines)
        labels, n_lines = labels_of(reader), state.monitor.n_lines
    return {"events": n_lines, "steps": [_likeliest(row, labels, top) for row in rows]}


def _likeliest(
    probabilities: NDArray[np.float64], labels: list[Any], top: int
) -> list[dict[str, Any]]:
    order = np.argsort(-probabilities, kind="stable")[:top].tolist()
    return [
        {
            "symbol": labels[i] if i < len(labels) else None,
            "probability": float(probabilities[i]),
        }
        for i in order
    ]


def status(stream: Stream) -> dict[str, Any]:
    """Return the status of a stream: events, lag, memory and speed."""
    with stream.look() as state:
        monitor = state.monitor
        predictor = monitor.predictor
        memory = memory_of(predictor)
        found = {
            "name": stream.name,
            "method": method_of(predictor) or type(predictor).__name__,
            "events": monitor.n_lines,
            "rejected": state.n_rejected,
            "symbols": predictor.n_symbols,
            "keys": getattr(predictor, "n_keys", None),
            "mean_states": _mean_states(stream),
            "memory": None if memory is None else dataclasses.asdict(memory),
            "settings": {
                name: finite(value) if isinstance(value, float) else value
                for name, value in monitor.detector.settings.items()
            },
            "incidents": len(state.incidents),
            "last_record": state.applied,
            "remembered_ids": len(state.ids),
        }
    n, seconds = stream.n_symbols, stream.absorb_seconds
    return found | {
        "lag": stream.ingest.lag,
        "repeated": stream.ingest.n_repeated,
        "microseconds_per_event": 1e6 * seconds / n if n else None,
        "checkpoint_seconds_ago": time.monotonic() - stream.kept_at,
    }


def memory_of(predictor: Predictor) -> Any:
    """Return the memory report of a predictor; None if it has none."""
    memory = getattr(predictor, "memory", None)
    return None if memory is None else memory()


def _mean_states(stream: Stream) -> float | None:
    return finite(stream.recent[-1].mean_states) if stream.recent else None


def incidents(stream: Stream) -> list[dict[str, Any]]:
    """Return the last incidents, the latest first."""
    with stream.look() as state:
        return [noted.to_dict() for noted in reversed(state.incidents.values())]


def feedback(stream: Stream, number: int) -> tuple[bool, bool | None]:
    """Return whether an incident exists, and the feedback on it."""
    with stream.look() as state:
        noted = state.incidents.get(number)
        return noted is not None, None if noted is None else noted.strange


def recent(stream: Stream) -> list[dict[str, Any]]:
    """Return the surprise of the last symbols, the latest last."""
    return [_point(report) for report in list(stream.recent)]


def _point(report: Report) -> dict[str, Any]:
    return {
        "line": report.line,
        "surprise": finite(report.surprise),
        "level": finite(report.level),
        "alarm": report.alarm,
    }


def model(stream: Stream) -> dict[str, Any]:
    """Return the states of the heaviest particle: visits, transitions, what they emit."""
    with stream.look() as state:
        predictor = state.monitor.predictor
        found = _heaviest_filter(predictor)
        if found is None:
            return {"filter": None, "states": [], "transitions": []}
        counts, weights = found.counts(), found.weights
        labels = labels_of(predictor)
        current = int(found.states[int(np.argmax(weights))])
    transition = np.asarray(counts.transition, dtype=np.float64)
    if transition.ndim == 3:  # a Mealy machine: sum over the symbols
        transition = transition.sum(axis=1)
    emission = np.asarray(counts.emission, dtype=np.float64)
    visits = emission.sum(axis=1)
    shown = np.sort(np.argsort(-visits, kind="stable")[:MOST_STATES])
    states = []
    for i in shown.tolist():
        order = [j for j in np.argsort(-emission[i], kind="stable")[:TOP] if emission[i, j] > 0]
        states.append(
            {
                "state": i,
                "visits": float(visits[i]),
                "is_current": i == current,
                "emits": [
                    {
                        "symbol": labels[j] if j < len(labels) else None,
                        "share": float(emission[i, j] / visits[i]),
                    }
                    for j in order
                ],
            }
        )
    totals = transition.sum(axis=1)
    transitions = [
        {"from": i, "to": j, "count": float(transition[i, j]), "share": share}
        for i in shown.tolist()
        for j in shown.tolist()
        if totals[i] > 0 and (share := float(transition[i, j] / totals[i])) >= 0.01
    ]
    return {
        "filter": method_of(found) or type(found).__name__,
        "n_states": len(visits),
        "weight": float(weights.max()),
        "states": states,
        "transitions": transitions,
    }


def _heaviest_filter(predictor: Predictor) -> ParticleFilter | None:
    """Return the filter itself, or the heaviest filter of a mixture."""
    if isinstance(predictor, ParticleFilter):
        return predictor
    flatten = getattr(predictor, "flatten", None)
    if flatten is not None:
        found = [pair for pair in flatten() if isinstance(pair[1], ParticleFilter)]
        best = max(found, key=lambda pair: pair[0], default=(0.0, None))[1]
        return best if isinstance(best, ParticleFilter) else None
    return None
