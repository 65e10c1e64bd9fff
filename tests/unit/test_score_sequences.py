"""`score_sequences`: p-values that do not depend on length, predictors that stay as is."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import mdvpf
from mdvpf import datasets
from mdvpf.detect.sequences import SequenceScores, score_sequences
from tests.kernel.sealing import saved

HMM = datasets.random_hmm(3, 5, rng=7)
Groups = tuple[NDArray[np.int64], NDArray[np.int64]]


def draw(n: int, seed: int, lengths: tuple[int, int] = (10, 600)) -> Groups:
    """Sequences of the HMM, with log-uniform lengths."""
    rng = np.random.default_rng(seed)
    low, high = np.log(lengths)
    sizes = np.exp(rng.uniform(low, high, n)).astype(np.int64)
    moves, emits = np.cumsum(HMM.transition, axis=1), np.cumsum(HMM.emission, axis=1)
    symbols = []
    for size in sizes.tolist():
        state = int(rng.choice(HMM.n_states, p=HMM.start))
        for move, emit in rng.random((size, 2)).tolist():
            symbols.append(min(int(np.searchsorted(emits[state], emit)), HMM.n_symbols - 1))
            state = min(int(np.searchsorted(moves[state], move)), HMM.n_states - 1)
    return np.array(symbols), sizes


def trained() -> mdvpf.Markov:
    chain = mdvpf.Markov(HMM.n_symbols)
    chain.run(*draw(30, seed=1))
    return chain


def shares(found: SequenceScores, level: float) -> list[tuple[float, float]]:
    """Share of p-values up to a level, and its standard error, of short and long sequences."""
    result = []
    for low, high in ((10, 40), (40, 150), (150, 601)):
        mine = found.p_value[(found.length >= low) & (found.length < high)]
        assert len(mine) > 50
        share = float(np.mean(mine <= level))
        result.append((share, math.sqrt(level * (1 - level) / len(mine))))
    return result


def test_p_values_with_a_reference_are_uniform_at_every_length() -> None:
    found = score_sequences(trained(), *draw(400, seed=2), reference=draw(400, seed=3))
    for level in (0.05, 0.2, 0.5):
        for share, error in shares(found, level):
            # the reference is a sample too
            assert abs(share - level) < 3.5 * math.sqrt(2) * error


def test_p_values_of_the_true_model_hold_without_a_reference_at_every_length() -> None:
    found = score_sequences(mdvpf.KnownHMM(HMM), *draw(240, seed=4))
    for level in (0.05, 0.2):
        for share, error in shares(found, level):
            assert share < level + 3.5 * error
    assert abs(float(found.score.mean())) < 3.5 / math.sqrt(240)
    assert abs(float(found.score.std()) - 1.0) < 0.2


def test_score_does_not_follow_length() -> None:
    found = score_sequences(trained(), *draw(300, seed=5), reference=draw(300, seed=6))
    ranks = [np.argsort(np.argsort(each)) for each in (found.score, found.length)]
    assert abs(np.corrcoef(*ranks)[0, 1]) < 3.5 / math.sqrt(300)


def test_a_strange_stretch_is_found_in_short_and_in_long_sequences() -> None:
    symbols, lengths = draw(20, seed=8, lengths=(60, 600))
    starts = np.cumsum(lengths) - lengths
    rare = int(np.argmin(np.bincount(symbols)))
    for start in starts[:10]:
        symbols[start + 30 : start + 55] = rare
    found = score_sequences(trained(), symbols, lengths, reference=draw(200, seed=9))
    assert np.all(found.p_value[:10] < 0.05)
    assert np.all(np.abs(found.worst_start[:10] - 32) <= 6)


def test_frozen_scoring_leaves_predictor_and_background_unchanged() -> None:
    pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(HMM.n_symbols), n_particles=5)
    pf.run([0, 1, 2, 1])
    chain = trained()
    before = saved(pf), saved(chain)
    symbols, lengths = draw(3, seed=10, lengths=(10, 30))
    score_sequences(pf, symbols, lengths, background=chain)
    score_sequences(pf, symbols, lengths, background=chain, reference=(symbols, lengths))
    assert (saved(pf), saved(chain)) == before


def test_learning_is_what_run_does_and_predicts_before_it_sees() -> None:
    symbols, lengths = draw(4, seed=11, lengths=(10, 50))
    one, two, three = trained(), trained(), trained()
    expected = -two.run(symbols, lengths).log_predictive
    found = score_sequences(one, symbols, lengths, learn=True)
    fast = score_sequences(three, symbols, lengths, learn=True, reference=draw(25, seed=12))
    assert np.allclose(found.values, expected) and np.allclose(fast.values, expected)
    assert np.allclose(one.predict_proba(), two.predict_proba())
    assert np.allclose(three.predict_proba(), two.predict_proba())


@pytest.mark.parametrize("reference", [None, draw(25, seed=13)])
def test_keys_equal_grouped_lengths(reference: Groups | None) -> None:
    symbols, lengths = draw(5, seed=14, lengths=(10, 50))
    keys = np.repeat(np.arange(5), lengths)
    mixed = np.empty_like(symbols)
    shuffled = np.random.default_rng(0).permutation(keys)
    for key in range(5):
        mixed[shuffled == key] = symbols[keys == key]
    by_key = score_sequences(trained(), mixed, keys=shuffled, reference=reference)
    by_length = score_sequences(trained(), symbols, lengths, reference=reference)
    place = [by_key.keys.index(key) for key in range(5)]
    for name in ("length", "mean", "score", "worst_window", "worst_start", "p_value"):
        assert np.allclose(getattr(by_key, name)[place], getattr(by_length, name))


def test_each_sequence_is_scored_by_itself() -> None:
    symbols, lengths = draw(3, seed=15, lengths=(10, 50))
    together = score_sequences(trained(), symbols, lengths)
    alone = score_sequences(trained(), symbols[-lengths[-1] :])
    assert alone.keys == [0]
    assert together[2].mean == pytest.approx(alone[0].mean)
    assert together[2].p_value == pytest.approx(alone[0].p_value)


def test_score_is_excess_over_the_root_of_the_variances() -> None:
    chain = mdvpf.KnownHMM(HMM)
    symbols = draw(1, seed=16)[0][:8]
    excess = variance = 0.0
    going = chain.copy()
    for symbol in symbols.tolist():
        p = going.predict_proba()
        entropy = -float(p @ np.log(p))
        excess += -math.log(p[symbol]) - entropy
        variance += float(p @ np.log(p) ** 2) - entropy**2
        going.update(symbol)
    assert score_sequences(chain, symbols)[0].score == pytest.approx(excess / math.sqrt(variance))


def test_ratio_is_background_minus_predictor() -> None:
    symbols, lengths = draw(3, seed=17, lengths=(10, 50))
    chain, other = trained(), mdvpf.Markov(HMM.n_symbols, order=0)
    found = score_sequences(chain, symbols, lengths, background=other)
    back = score_sequences(other, symbols, lengths)
    assert np.allclose(found.ratio, found.mean - back.mean)
    assert np.isnan(back.ratio).all()
    fast = score_sequences(chain, symbols, lengths, background=other, reference=(symbols, lengths))
    assert np.allclose(fast.values, found.values)


def test_worst_window_and_its_start_are_those_of_the_values() -> None:
    found = score_sequences(trained(), draw(1, seed=18)[0][:60], window=7)
    means = [found.values[i : i + 7].mean() for i in range(len(found.values) - 6)]
    assert found[0].worst_start == int(np.argmax(means))
    assert found[0].worst_window == pytest.approx(max(means))


def test_missing_symbols_are_left_out() -> None:
    found = score_sequences(trained(), [None, 0, 1, None, None], lengths=[3, 2])
    assert found.length.tolist() == [3, 2]
    assert np.isnan(found.values).tolist() == [True, False, False, True, True]
    assert found[0].mean == pytest.approx(float(found.values[1:3].mean()))
    assert found[0].worst_start == 1
    assert math.isnan(found[1].mean) and found[1].p_value == 1.0 and found[1].worst_start == -1


def test_an_impossible_symbol_is_as_strange_as_can_be() -> None:
    hmm = datasets.HMM([1.0], [[1.0]], [[0.5, 0.5, 0.0]])
    found = score_sequences(mdvpf.KnownHMM(hmm), [0, 1, 2, 0, 1, 0], lengths=[3, 3])
    assert 0.0 < found.p_value[0] < 1e-9 < found.p_value[1]
    assert np.isfinite(found.mean).all()


def test_scores_of_usual_sequences_serve_as_reference() -> None:
    chain, usual, (symbols, lengths) = trained(), draw(50, seed=19), draw(10, seed=20)
    scores = score_sequences(chain, *usual, reference=usual)
    one = score_sequences(chain, symbols, lengths, reference=scores)
    two = score_sequences(chain, symbols, lengths, reference=usual)
    assert np.array_equal(one.p_value, two.p_value) and np.array_equal(one.score, two.score)
    assert np.all(one.p_value >= 1 / 51)


def test_an_open_alphabet_scores_symbols_never_seen() -> None:
    chain = mdvpf.Markov(None)
    chain.run([0, 1] * 30)
    found = score_sequences(chain, [0, 1, 0, 1, 0, 1, 2, 3], lengths=[4, 4])
    assert found.mean[1] > found.mean[0]
    assert chain.n_symbols == 2


def test_frame_has_a_row_a_sequence() -> None:
    pytest.importorskip("pandas")
    frame = score_sequences(trained(), [0, 1, 1], keys=["a", ("b", 1), "a"]).to_pandas()
    assert frame.index.tolist() == ["a", ("b", 1)]
    assert frame["length"].tolist() == [2, 1]


def over_numbers() -> mdvpf.ParticleFilter:
    return mdvpf.ParticleFilter(mdvpf.InfiniteHMM(emission=mdvpf.Gaussian()), n_particles=2)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"lengths": [1]}, ValueError, "lengths sum to 1"),
        ({"lengths": [0, 2]}, ValueError, r"lengths\[0\]=0"),
        ({"lengths": [2], "keys": ["a", "a"]}, ValueError, "lengths and keys"),
        ({"window": 0}, ValueError, "window=0"),
        ({"learn": 1}, TypeError, "learn=1"),
        ({"background": 3}, TypeError, "background=3: expected a Predictor"),
        ({"background": mdvpf.Markov(2)}, ValueError, "background of 2 symbols: expected 5"),
        ({"background": over_numbers()}, TypeError, "background: Gaussian observations"),
        ({"reference": [0, 1]}, TypeError, "reference of type list"),
        ({"reference": ([0, 9], [2])}, ValueError, r"reference: symbols\[1\]=9"),
        ({"reference": ([None], [1])}, ValueError, "reference: got only missing"),
    ],
)
def test_bad_input_is_named_and_changes_nothing(
    settings: dict[str, Any], error: type[Exception], message: str
) -> None:
    chain = trained()
    before = saved(chain)
    with pytest.raises(error, match=message):
        score_sequences(chain, [0, 1], **{"learn": True, **settings})
    assert saved(chain) == before


def test_no_symbols_and_no_predictor_are_errors() -> None:
    with pytest.raises(ValueError, match="symbols: got none"):
        score_sequences(trained(), [])
    with pytest.raises(TypeError, match="predictor=None: expected a Predictor"):
        score_sequences(None, [0])  # type: ignore[arg-type]


def test_a_reference_with_another_background_is_refused() -> None:
    chain, usual = trained(), draw(20, seed=21, lengths=(10, 30))
    scores = score_sequences(chain, *usual, reference=usual)
    with pytest.raises(ValueError, match="reference: expected scores with background"):
        score_sequences(chain, [0, 1], background=mdvpf.Markov(5), reference=scores)
