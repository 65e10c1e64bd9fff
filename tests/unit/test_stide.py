"""STIDE: mismatches as its definition counts them."""

from __future__ import annotations

import numpy as np
import pytest

from mdvpf.detect.stide import Stide


def test_counts_are_those_of_the_definition() -> None:
    rng = np.random.default_rng(0)
    train, test = rng.integers(3, size=200).tolist(), rng.integers(3, size=80).tolist()
    found = Stide(window=5, frame=7).learn(train).score(test)
    known = {tuple(train[i : i + 5]) for i in range(196)}
    strange = [tuple(test[i : i + 5]) not in known for i in range(76)]
    assert found.n_windows.tolist() == [76]
    assert found.n_mismatches.tolist() == [sum(strange)]
    assert found.locality.tolist() == [max(sum(strange[i : i + 7]) for i in range(70))]
    assert 0 < sum(strange) < 76


def test_what_was_learnt_has_no_mismatch() -> None:
    symbols = np.random.default_rng(1).integers(4, size=100)
    found = Stide().learn(symbols, [40, 60]).score(symbols, [40, 60])
    assert found.mismatch_share.tolist() == [0.0, 0.0]
    assert found.locality.tolist() == [0, 0]


def test_windows_do_not_cross_sequences() -> None:
    assert len(Stide(window=2).learn([0, 1, 2, 3], [2, 2])) == 2
    assert len(Stide(window=2).learn([0, 1, 2, 3])) == 3


def test_a_sequence_shorter_than_a_window_is_one_window() -> None:
    found = Stide(window=6).learn([0, 1]).score([0, 1, 1], [2, 1])
    assert found.n_windows.tolist() == [1, 1]
    assert found.n_mismatches.tolist() == [0, 1]


def test_scoring_learns_nothing() -> None:
    stide = Stide(window=2).learn([0, 1, 2])
    before = len(stide)
    stide.score([2, 2, 2])
    assert len(stide) == before


@pytest.mark.parametrize(
    ("symbols", "lengths", "message"),
    [
        ([], None, "symbols: got none"),
        ([0, -1], None, r"symbols\[1\]=-1"),
        ([0, 1], [1], "lengths sum to 1: expected 2"),
        ([0, 1], [0, 2], r"lengths\[0\]=0"),
    ],
)
def test_bad_input_is_named(symbols: list[int], lengths: list[int] | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Stide().learn(symbols, lengths)


def test_bad_settings_are_named() -> None:
    with pytest.raises(ValueError, match="window=0"):
        Stide(window=0)
    with pytest.raises(TypeError, match=r"frame=1\.5"):
        Stide(frame=1.5)  # type: ignore[arg-type]
