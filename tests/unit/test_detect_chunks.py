"""Detectors of incidents absorb chunks: `run` gives what `update` gives, to the last bit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

import mdvpf
from mdvpf.checkpoint.saveable import encoded
from mdvpf.detect import judging
from mdvpf.detect.expectation import summarize
from mdvpf.predictor import Step
from mdvpf.streams.events import Event

V = 4


class Last(mdvpf.Predictor):
    """A predictor of one's own: the last symbol of the key comes again."""

    n_symbols = V

    def __init__(self) -> None:
        self.last: dict[Any, int | None] = {}

    def predict_proba(self, key: Any = None) -> np.ndarray:
        found = np.full(V, 0.1)
        last = self.last.get(key)
        if last is not None:
            found[last] = 0.7
        return found / found.sum()

    def update(self, symbol: int | None, key: Any = None) -> Step:
        log_predictive = 0.0 if symbol is None else float(np.log(self.predict_proba(key)[symbol]))
        self.last[key] = symbol
        return Step(log_predictive, 1.0, 1.0, 1, 0.0)

    def new_sequence(self, key: Any = None) -> None:
        self.last.pop(key, None)

    def copy(self) -> Last:
        twin = Last()
        twin.last = dict(self.last)
        return twin


def a_filter(algorithm: Any, **settings: Any) -> mdvpf.ParticleFilter:
    return mdvpf.ParticleFilter(mdvpf.InfiniteHMM(V, **settings), algorithm, 6, rng=0)


KINDS: dict[str, Callable[[], mdvpf.Predictor]] = {
    "MD-VPA": lambda: a_filter(mdvpf.MDVPA()),
    "SMC": lambda: a_filter(mdvpf.SMC()),
    "half-life": lambda: a_filter(mdvpf.VPA(), half_life=timedelta(seconds=20)),
    "frozen": lambda: a_filter(mdvpf.VPA()).freeze(),
    "chain": lambda: mdvpf.Markov(V, order=2, decay=0.9),
    "context tree": lambda: mdvpf.ContextTree(V),
    "grid": lambda: mdvpf.PitmanYorMixture(V, depths=[0, 1, 2]),
    "learner": lambda: mdvpf.SoftHMM(V, n_states=5, n_seeds=2, rng=0),
    "mixture": lambda: mdvpf.Mixture([mdvpf.Markov(V), a_filter(mdvpf.VPA())]),
    "geometric": lambda: mdvpf.GeometricMixture(
        [
            mdvpf.PitmanYorMixture(V, depths=[0, 1]),
            mdvpf.Mixture([a_filter(mdvpf.VPA(), half_life=timedelta(seconds=20))]),
        ]
    ),
    "recall": lambda: mdvpf.Recall(mdvpf.Markov(V), block=8),
    "own": Last,
}


def a_stream(n: int) -> tuple[list[int | None], list[str | None], list[float | None]]:
    """Symbols with a run of repetitions and gaps, keys in the first half, and times."""
    rng = np.random.default_rng(3)
    symbols: list[int | None] = rng.integers(V, size=n).tolist()
    symbols[n // 2 : n // 2 + 30] = [2] * 30
    keys: list[str | None] = [f"k{k}" if k else None for k in rng.integers(4, size=n).tolist()]
    times: list[float | None] = np.cumsum(rng.exponential(size=n)).tolist()
    for i in (7, 8, 77):
        symbols[i] = None
        times[i + 1] = None
    return symbols, keys, times


def by_update(
    detector: mdvpf.SurpriseDetector,
    symbols: Sequence[int | None],
    keys: Sequence[str | None] | None,
    times: Sequence[float | None] | None,
) -> list[mdvpf.Detection]:
    found = []
    for i, symbol in enumerate(symbols):
        if times is not None and (time := times[i]) is not None:
            detector.tell_time(time)
        found.append(detector.update(symbol, None if keys is None else keys[i]))
    return found


def assert_same(
    one: mdvpf.SurpriseDetector,
    other: mdvpf.SurpriseDetector,
    symbols: Sequence[int | None],
    keys: Sequence[str | None] | None = None,
    times: Sequence[float | None] | None = None,
) -> None:
    found = one.run(symbols, keys=keys, times=times)
    expected = mdvpf.DetectionResult.of(by_update(other, symbols, keys, times))
    for name in ("surprise", "level", "score", "entropy", "p_value", "alarm", "change"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), name)
    assert one.incidents == other.incidents
    assert one.trace is not None and other.trace is not None
    kept, wanted = one.trace.to_values(), other.trace.to_values()
    for name, value in wanted.items():
        np.testing.assert_array_equal(kept[name], value, name)


@pytest.mark.parametrize("learn", ["all", "unflagged"])
@pytest.mark.parametrize("kind", KINDS)
def test_run_is_update_on_each(kind: str, learn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "PART", 61)  # does not end with a block
    symbols, keys, times = a_stream(180)
    one, other = (
        mdvpf.SurpriseDetector(
            KINDS[kind](), false_incidents=300.0, warm_up=8, learn=learn, trace=100
        )
        for _ in range(2)
    )
    assert_same(one, other, symbols, keys, times)
    assert_same(one, other, symbols)
    assert one.incidents
    if kind != "own":
        assert b"".join(encoded(one)) == b"".join(encoded(other))


@pytest.mark.parametrize(
    "make",
    [
        lambda: mdvpf.Markov(None),
        lambda: mdvpf.PitmanYorMixture(None, depths=[0, 1]),
        lambda: mdvpf.ParticleFilter(
            mdvpf.InfiniteHMM(emission=mdvpf.OpenVocabulary()), n_particles=5
        ),
    ],
)
def test_an_open_alphabet_also_beyond_many_symbols(
    make: Callable[[], mdvpf.Predictor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging, "MANY_SYMBOLS", 10)
    one, other = (mdvpf.SurpriseDetector(make(), false_incidents=1.0) for _ in range(2))
    rng = np.random.default_rng(0)
    symbols: list[int] = []
    for n in range(1, 14):  # a new symbol, then some that are known
        symbols += [n - 1, *rng.integers(n, size=4).tolist()]
    assert_same(one, other, symbols)
    assert other.trace is not None
    kept = other.trace.window(0, 100)
    entropy = kept.entropy
    seen = np.maximum.accumulate([-1, *symbols[:-1]]) + 1
    assert kept.expected[0] == -1 and math.isnan(kept.probability[0])
    assert (kept.expected < seen).all()  # a symbol never seen has no number
    assert not np.isnan(entropy[40]) and np.isnan(entropy[60])


@pytest.mark.parametrize("learn", ["unflagged", "none"])
def test_a_monitor_with_times_reads_the_first_symbol_of_a_block(learn: str) -> None:
    symbols, _, times = a_stream(120)
    one, other = (
        mdvpf.SurpriseDetector(KINDS["half-life"](), block=5, learn=learn) for _ in range(2)
    )
    monitor = mdvpf.Monitor(one)
    pairs = zip(symbols, times, strict=True)
    reports = [monitor.absorb(Event(symbol, time=time)) for symbol, time in pairs]
    expected = other.run(symbols, times=times).surprise.tolist()
    assert [report.surprise for report in reports if report is not None] == expected


def test_summaries_are_those_of_the_definition() -> None:
    rng = np.random.default_rng(1)
    rows = rng.dirichlet(np.full(30, 0.2), size=50)
    rows[:, [3, 11]] = 0.0
    rows[0], rows[1] = 0.0, 1.0 / 30.0
    rows[0, 7] = 1.0
    for row, found in zip(rows, summarize(rows), strict=True):
        expected = -math.fsum(p * math.log(p) for p in row.tolist() if p > 0.0)
        assert found.entropy == pytest.approx(expected, rel=1e-13)
        assert (found.symbol, found.probability) == (row.tolist().index(row.max()), row.max())
    assert repr(summarize(rows)[0].entropy) == "0.0"


def test_zeros_and_the_rows_around_do_not_change_a_bit() -> None:
    rows = np.random.default_rng(2).dirichlet(np.ones(9), size=20)
    padded = np.zeros((20, 40))
    padded[:, 5:14] = rows
    together = [each.entropy for each in summarize(padded)]
    assert together == [summarize(row[np.newaxis])[0].entropy for row in rows]
