"""Anomalies put into logs: what the labels say is what was done."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from mdvpf import datasets
from mdvpf.datasets.log_anomalies import KINDS, spoil

LOG = datasets.help_desk(n_cases=200, rng=0)


def cases_of(log: datasets.EventLog) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for key, symbol in zip(log.keys, log.symbols.tolist(), strict=True):
        found.setdefault(key, []).append(symbol)
    return found


def test_each_case_is_changed_as_its_label_says() -> None:
    spoiled = spoil(LOG, 0.5, rng=1)
    before, after = cases_of(LOG), cases_of(spoiled.log)
    for key, kind in spoiled.kinds.items():
        old, new = before[key], after[key]
        if kind == "":
            assert new == old
        elif kind == "skipped":
            assert any(new == old[:i] + old[i + 1 :] for i in range(len(old)))
        elif kind == "repeated":
            assert any(new == old[: i + 1] + old[i:] for i in range(len(old)))
        else:
            assert new != old
            swaps = [[*old[:i], old[i + 1], old[i], *old[i + 2 :]] for i in range(len(old) - 1)]
            assert new in swaps


def test_share_and_kinds_are_as_asked_for() -> None:
    counts = Counter(spoil(LOG, 0.3, rng=2).kinds.values())
    assert counts == {"": 140, **dict.fromkeys(KINDS, 20)}


def test_labels_follow_the_order_of_grouped() -> None:
    spoiled = spoil(LOG, 0.3, rng=3)
    assert list(spoiled.kinds) == list(cases_of(spoiled.log))
    lengths = [len(case) for case in cases_of(spoiled.log).values()]
    assert spoiled.log.grouped()[1].tolist() == lengths
    assert spoiled.is_strange.sum() == 60


def test_times_stay_in_order_and_the_log_given_is_left_alone() -> None:
    before = LOG.symbols.copy()
    spoiled = spoil(LOG, 1.0, rng=4)
    assert np.all(np.diff(spoiled.log.times) >= 0)
    assert np.array_equal(LOG.symbols, before)
    assert spoiled.log.labels == LOG.labels


def test_the_same_seed_gives_the_same_log() -> None:
    one, two, other = spoil(LOG, rng=5), spoil(LOG, rng=5), spoil(LOG, rng=6)
    assert one.kinds == two.kinds and one.log.keys == two.log.keys
    assert np.array_equal(one.log.symbols, two.log.symbols)
    assert one.kinds != other.kinds


def test_no_case_becomes_empty() -> None:
    spoiled = spoil(LOG, 1.0, kinds=["skipped"], n_changes=50, rng=7)
    assert len(cases_of(spoiled.log)) == 200
    assert {len(case) for case in cases_of(spoiled.log).values()} == {1}


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"share": 1.5}, ValueError, "share=1.5"),
        ({"kinds": ["lost"]}, ValueError, r"kinds\[0\]='lost'"),
        ({"kinds": []}, ValueError, "kinds: got none"),
        ({"n_changes": 0}, ValueError, "n_changes=0"),
        ({"rng": -1}, ValueError, "rng=-1"),
    ],
)
def test_bad_settings_are_named(
    settings: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        spoil(LOG, **settings)


def test_what_is_no_log_is_refused() -> None:
    with pytest.raises(TypeError, match="log of type list: expected an EventLog"):
        spoil([0, 1])  # type: ignore[arg-type]


def test_too_few_cases_that_can_be_spoiled_are_an_error() -> None:
    log = datasets.EventLog(np.zeros(3, np.int64), ["a", "b", "c"], np.arange(3.0), ("x",))
    with pytest.raises(ValueError, match="expected at most 0 cases"):
        spoil(log, 1.0)
