"""The comparison of predictors: the parts in which a mistake would give a wrong figure."""

from __future__ import annotations

import math

import numpy as np
import pytest

import mdvpf
from benchmarks.predict import report
from benchmarks.predict.runs import Run, run_stream
from benchmarks.predict.sets import CHUNK, Stream, _interleaved
from mdvpf import datasets

SYMBOLS = np.random.default_rng(1).integers(5, size=2 * CHUNK + 300)


def plain_run(scores: list[float]) -> Run:
    return Run(np.array(scores), len(scores), 0.0, np.empty(0, np.int64), np.empty((0, 0)))


def score_of(*runs: Run) -> report.Score:
    rate = float(np.mean([run.rate for run in runs]))
    return report.Score("", report._parts(list(runs)), rate, 0.0, list(runs))


def test_chunks_cover_the_stream_and_keep_sequences_whole() -> None:
    lengths = np.array([3, CHUNK + 5, CHUNK - 10, 302])
    assert lengths.sum() == len(SYMBOLS)
    chunks = list(Stream("", SYMBOLS, 5, lengths).chunks())
    np.testing.assert_array_equal(np.concatenate([c["symbols"] for c in chunks]), SYMBOLS)
    np.testing.assert_array_equal(np.concatenate([c["lengths"] for c in chunks]), lengths)
    assert all(len(c["symbols"]) == sum(c["lengths"]) for c in chunks)


@pytest.mark.parametrize("kind", ["plain", "keys", "lengths"])
def test_a_run_in_chunks_is_a_run(kind: str) -> None:
    keys = (np.arange(len(SYMBOLS)) % 7).tolist() if kind == "keys" else None
    lengths = np.array([400, *[900] * 11]) if kind == "lengths" else None
    stream = Stream("", SYMBOLS, 5, lengths, keys)
    whole = mdvpf.Markov(5, order=1).run(SYMBOLS, lengths=lengths, keys=keys)
    found = run_stream(lambda n: mdvpf.Markov(n, order=1), stream)
    np.testing.assert_array_equal(found.log_predictive, whole.log_predictive)
    assert found.n_symbols_seen == len(SYMBOLS)


def test_users_click_at_the_same_time_and_in_their_own_order() -> None:
    lengths = np.array([4, 1, 7] * 20)
    symbols = np.arange(lengths.sum())
    stream = _interleaved(symbols, lengths, len(symbols), seed=0)
    assert sorted(stream.symbols.tolist()) == symbols.tolist()
    keys = np.array(stream.keys)
    for user, part in enumerate(np.split(symbols, np.cumsum(lengths)[:-1])):
        np.testing.assert_array_equal(stream.symbols[keys == user], part)
    assert len(set(keys[:30].tolist())) > 10


def test_a_file_has_the_symbols_sequence_after_sequence() -> None:
    stream = Stream("", np.array([0, 7, 1, 8]), 9, keys=[3, 5, 3, 5])
    assert stream.to_bytes() == bytes([0, 1, 7, 8])
    assert Stream("", np.array([0, 300]), 301).to_bytes() is None


def test_a_lead_is_taken_part_by_part() -> None:
    one = score_of(plain_run([-1.0, -2.0]), plain_run([-3.0, -4.0]))
    other = score_of(plain_run([-1.1, -2.1]), plain_run([-3.3, -4.3]))
    gain, error = report.lead(one, other)
    assert gain == pytest.approx(0.2)
    assert error == pytest.approx(0.1)  # of differences 0.1 and 0.3
    single = score_of(plain_run(np.repeat(np.arange(10.0), 3).tolist()))
    np.testing.assert_allclose(single.parts, np.arange(10.0))


def test_the_distance_to_the_best_member_is_in_nats_a_symbol() -> None:
    points, sums = np.array([4, 8]), np.array([[-5.0, -6.0], [-13.0, -9.0]])
    run = Run(np.full(8, -1.25), 8, 0.0, points, sums)
    assert report.member_distance(score_of(run), at=3) == (0.0, 0)
    assert report.member_distance(score_of(run), at=5) == (0.125, 1)
    assert report.member_distance(score_of(run), at=9) is None
    assert report.member_distance(score_of(plain_run([-1.0])), at=1) is None


def test_members_are_summed_over_chunks() -> None:
    chains = [mdvpf.Markov(5, order=order) for order in (0, 1)]
    found = run_stream(lambda n: mdvpf.Mixture(chains), Stream("", SYMBOLS, 5))
    assert found.member_points.tolist() == [CHUNK, 2 * CHUNK, len(SYMBOLS)]
    for i, chain in enumerate(chains):
        alone = chain.copy().run(SYMBOLS).log_predictive
        for n, sums in zip(found.member_points, found.member_sums, strict=True):
            assert sums[i] == pytest.approx(math.fsum(alone[:n]), rel=1e-12)


def test_regret_by_visit_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    made = datasets.taking_turns(2, n_visits=3, length=40, rng=0)
    points = tuple(made.change_points.tolist())
    generator = mdvpf.KnownHMM(made.hmms, points)
    stream = Stream("", made.symbols, made.n_symbols, generator=generator, change_points=points)
    known = generator.copy().run(made.symbols).log_predictive
    behind = np.repeat([5.0, 7.0, 2.0, 4.0, 1.0, 1.0], 40) / 40  # nats a visit of either source
    found = score_of(plain_run((known - behind).tolist()))
    monkeypatch.setattr(report, "score", lambda *arguments: found)
    monkeypatch.setattr(report, "streams_of", lambda *arguments: [stream])
    regret = report.regret_by_visit(report.SETS["turns"], "choosing", "any")
    assert regret is not None
    np.testing.assert_allclose(regret, [[6.0, 3.0, 1.0]])
