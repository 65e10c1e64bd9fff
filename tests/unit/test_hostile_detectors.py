"""Detectors from untrusted files: what loads works, and what would fail later is refused."""

from __future__ import annotations

import copy
import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mdvpf
from tests.kernel.sealing import Opened, saved, sealed, unsealed

SYMBOLS = np.random.default_rng(7).integers(4, size=260)
KINDS: dict[str, dict[str, Any]] = {
    "each symbol": {"warm_up": 5, "change_limit": 1.0},
    "smoothed": {"smoothing": 7.5, "warm_up": 5, "change_limit": 0.5},
    "blocks": {"block": 6, "warm_up": 3, "change_limit": 1.0},
    "unflagged": {"block": 6, "learn": "unflagged", "warm_up": 3},
}
PLACES = [
    ("time",),
    ("judged",),
    ("sum",),
    ("count",),
    ("threshold", "seen"),
    ("threshold", "centre"),
    ("threshold", "variance"),
    ("threshold", "cut"),
    ("rise", "total"),
    ("rise", "start"),
    ("rise", "levels"),
    ("rise", "count"),
]
NUMBERS = [-1, 0, 1, 2, 3, 5, 6, 7, 100, 259, 260, 10**6, 2**61, -1.0, 0.0, 0.5, 1e4, 1e100, -1e100]


def detector_of(kind: str, n_symbols: int = 100) -> mdvpf.SurpriseDetector:
    detector = mdvpf.SurpriseDetector(mdvpf.Markov(4), **KINDS[kind])
    detector.run(SYMBOLS[:n_symbols])
    return detector


def changed(opened: Opened, changes: list[tuple[tuple[str, ...], Any]]) -> Opened:
    twin = copy.deepcopy(opened)
    for place, value in changes:
        *way, last = place
        entry = twin.values()["running"]
        for name in way:
            entry = entry[name]
        entry[last] = value
    return twin


def load(content: bytes) -> mdvpf.SurpriseDetector:
    return mdvpf.SurpriseDetector.load(io.BytesIO(content))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=300)
@given(
    n_symbols=st.sampled_from([0, 1, 60, 100]),
    changes=st.lists(
        st.tuples(st.sampled_from(PLACES), st.sampled_from(NUMBERS)), min_size=1, max_size=4
    ),
)
def test_a_detector_that_loads_goes_on_and_can_be_saved_again(
    kind: str, n_symbols: int, changes: list[tuple[tuple[str, ...], Any]]
) -> None:
    opened = unsealed(saved(detector_of(kind, max(n_symbols, 1))))
    try:
        detector = load(sealed(changed(opened, changes)))
    except mdvpf.CheckpointError:
        return
    result = detector.run(SYMBOLS)
    assert np.all(result.change < result.time.max() + 1)
    twin = load(saved(detector))
    assert twin.update(1) == detector.copy().update(1) == detector.update(1)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("threshold", "seen"), -1),  # the next level would be divided by zero
        (("rise", "count"), -1),  # and so would the mean level of the next change point
        (("threshold", "seen"), 10**6),
        (("threshold", "centre"), 1e100),
        (("threshold", "variance"), 1e100),
        (("rise", "start"), 10**6),  # a change point to come
        (("rise", "levels"), 1e100),
        (("sum",), 1e50),
        (("judged",), -1),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_numbers_that_no_stream_leads_to_are_refused(
    kind: str, place: tuple[str, ...], value: Any
) -> None:
    opened = unsealed(saved(detector_of(kind)))
    load(sealed(opened))
    with pytest.raises(mdvpf.CheckpointError):
        load(sealed(changed(opened, [(place, value)])))


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_a_stream_leads_to_is_accepted(kind: str) -> None:
    detector = mdvpf.SurpriseDetector(mdvpf.Markov(4), **KINDS[kind])
    for i, symbol in enumerate(SYMBOLS.tolist()):
        detection = detector.update(None if i % 11 == 0 else symbol)
        if detection.alarm:
            detector.feedback(detection, strange=i % 2 == 0)
        assert saved(load(saved(detector))) == saved(detector)


def test_a_threshold_below_what_is_usual_does_not_run_away() -> None:
    detector = detector_of("each symbol")
    for symbol in np.tile(SYMBOLS, 20).tolist():
        detection = detector.update(symbol)
        if not detection.alarm:  # every level is strange: the threshold goes ever lower
            detector.feedback(detection, strange=True)
    levels = [detector.update(symbol).level for symbol in SYMBOLS.tolist()]
    assert min(levels) <= detector._threshold.centre <= max(levels)
    assert load(saved(detector)).update(0) == detector.update(0)
