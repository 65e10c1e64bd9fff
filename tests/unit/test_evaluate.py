"""`evaluate`: correct sums in every form of input, and an unchanged predictor."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import mdvpf
from mdvpf.cli import main
from tests.kernel.sealing import saved

V = 4
TRAIN: list[list[int | None]] = [[0, 1, 2, 3, 0, 1], [3, 3, 3], [0, 1, None, 3], [2]]
TEST: list[list[int | None]] = [[0, 1, 2], [3, None, 3, 1], [2]]


class Counts(mdvpf.Predictor):
    """Frequencies of the symbols so far, each counted once beforehand; ignores sequences."""

    n_symbols = V

    def __init__(self, learns: bool = True) -> None:
        self.counts = [1] * V
        self.learns = learns
        self.sequences = 0

    def predict_proba(self) -> NDArray[np.float64]:
        return np.array(self.counts) / sum(self.counts)

    def update(self, symbol: int | None) -> mdvpf.Step:
        log_predictive = 0.0
        if symbol is not None:
            log_predictive = math.log(self.counts[symbol] / sum(self.counts))
            self.counts[symbol] += self.learns
        return mdvpf.Step(log_predictive, 1.0, 1.0, 1, 0.0)

    def new_sequence(self) -> None:
        self.sequences += 1

    def copy(self) -> Counts:
        other = Counts(self.learns)
        other.counts, other.sequences = list(self.counts), self.sequences
        return other

    def freeze(self) -> Counts:
        other = self.copy()
        other.learns = False
        return other


def expected(learning: bool) -> tuple[list[float], list[int]]:
    """Log predictives and ranks of the test symbols, by hand."""
    counts = [1] * V
    for y in (y for sequence in TRAIN for y in sequence if y is not None):
        counts[y] += 1
    logs, ranks = [], []
    for y in (y for sequence in TEST for y in sequence):
        if y is None:
            logs.append(0.0)
            continue
        order = sorted(range(V), key=lambda z: (-counts[z], z))
        logs.append(math.log(counts[y] / sum(counts)))
        ranks.append(order.index(y))
        counts[y] += learning
    return logs, ranks


@pytest.mark.parametrize("learning", [False, True])
def test_sums_by_hand(learning: bool) -> None:
    found = mdvpf.evaluate(Counts(), TRAIN, TEST, frozen=not learning, top_k=(1, 2, 4))
    logs, ranks = expected(learning)
    np.testing.assert_allclose(found.log_predictive, logs, rtol=1e-12)
    assert found.nats == pytest.approx(sum(logs) / 7, rel=1e-12)
    assert found.bits == pytest.approx(-sum(logs) / 7 / math.log(2), rel=1e-12)
    assert found.perplexity == pytest.approx(math.exp(-sum(logs) / 7), rel=1e-12)
    assert found.accuracy == sum(rank < 1 for rank in ranks) / 7
    assert found.top_k == {k: sum(rank < k for rank in ranks) / 7 for k in (1, 2, 4)}
    by_sequence = [sum(logs[:3]), sum(logs[3:7]), logs[7]]
    np.testing.assert_allclose(found.sequence_log_probabilities, by_sequence, rtol=1e-12)
    counts = (found.n_sequences, found.n_symbols, found.n_missing, found.n_learnt)
    assert counts == (3, 7, 1, 14)
    fast = mdvpf.evaluate(Counts(), TRAIN, TEST, frozen=not learning, top_k=())
    np.testing.assert_array_equal(fast.log_predictive, found.log_predictive)
    assert math.isnan(fast.accuracy)
    assert fast.top_k == {}


FORMS: dict[str, Callable[[list[Any]], Any]] = {
    "list of lists": lambda sequences: sequences,
    "list of arrays": lambda sequences: [
        np.ma.masked_equal([-1 if y is None else y for y in s], -1) for s in sequences
    ],
    "symbols and lengths": lambda sequences: (
        [y for s in sequences for y in s],
        [len(s) for s in sequences],
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_input(form: str) -> None:
    pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(V, beta=0.1), n_particles=20)
    found = mdvpf.evaluate(pf, FORMS[form](TRAIN), FORMS[form](TEST))
    twin = pf.copy()
    twin.run(*FORMS["symbols and lengths"](TRAIN))
    score = twin.freeze().score(*FORMS["symbols and lengths"](TEST))
    np.testing.assert_allclose(found.log_predictive, score, rtol=1e-12, atol=1e-15)


def test_symbols_alone_are_one_sequence() -> None:
    pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(V, beta=0.1), n_particles=20)
    pf.run([3, 2, 1])
    twin = pf.copy()
    found = mdvpf.evaluate(pf, [0, 1, 2, 3] * 5, np.array([0, 1]))
    twin.run([0, 1, 2, 3] * 5, [20])
    np.testing.assert_allclose(found.log_predictive, twin.freeze().score([0, 1], [2]), rtol=1e-12)
    assert found.n_sequences == 1


def test_a_test_can_continue_where_the_training_ended() -> None:
    pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(V, beta=0.1), mdvpf.VPA(), n_particles=20)
    whole = [0, 1, 2, 3] * 6
    found = mdvpf.evaluate(pf, whole[:18], whole[18:], frozen=False, continued=True)
    twin = pf.copy()
    np.testing.assert_allclose(found.log_predictive, twin.run(whole).log_predictive[18:])
    assert found.n_sequences == 1
    pf.run(whole[:18])
    np.testing.assert_allclose(
        mdvpf.evaluate(pf, None, whole[18:], continued=True).log_predictive,
        pf.freeze().score(whole[18:]),
        rtol=1e-12,
    )


@pytest.mark.parametrize("frozen", [False, True])
def test_the_predictor_is_copied_unless_asked_otherwise(frozen: bool) -> None:
    pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(V), mdvpf.SMC(), n_particles=20, rng=1)
    before = saved(pf)
    first = mdvpf.evaluate(pf, TRAIN, TEST, frozen=frozen)
    assert saved(pf) == before
    again = mdvpf.evaluate(pf, TRAIN, TEST, frozen=frozen, copy=False)
    np.testing.assert_array_equal(again.log_predictive, first.log_predictive)
    twin = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(V), mdvpf.SMC(), n_particles=20, rng=1)
    for sequences in [TRAIN] if frozen else [TRAIN, TEST]:
        twin.run(*FORMS["symbols and lengths"](sequences))
    if frozen:
        twin.new_sequence()  # the last training sequence ends before the predictor is frozen
    assert saved(pf) == saved(twin)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"predictor": 3}, TypeError, "predictor=3"),
        ({"train": []}, ValueError, "train: symbols: got none"),
        ({"train": [[0], []]}, ValueError, r"train\[1\]=\[\]"),
        ({"train": [[0], 1]}, ValueError, r"train\[1\]=1"),
        ({"test": [0, 4]}, ValueError, r"test: symbols\[1\]=4"),
        ({"test": ([0, 1], [1])}, ValueError, "test: lengths sum to 1"),
        ({"test": [0.5]}, TypeError, r"test: symbols\[0\]=0.5"),
        ({"top_k": 3}, TypeError, "top_k=3"),
        ({"top_k": (0,)}, ValueError, r"top_k\[0\]=0"),
        ({"frozen": 1}, TypeError, "frozen=1"),
    ],
)
def test_bad_input_changes_nothing(
    change: dict[str, Any], error: type[Exception], message: str
) -> None:
    counts = Counts()
    arguments: dict[str, Any] = {"predictor": counts, "train": TRAIN, "test": TEST} | change
    with pytest.raises(error, match=message):
        mdvpf.evaluate(**arguments, copy=False)
    assert counts.counts == [1] * V
    assert counts.sequences == 0


def test_hmmlearn_gives_strings_the_same_probability() -> None:
    hmmlearn = pytest.importorskip("hmmlearn.hmm")
    hmm = mdvpf.datasets.random_hmm(4, 5, transition=0.5, emission=0.5, rng=2)
    theirs = hmmlearn.CategoricalHMM(n_components=4)
    for name, array in hmm.to_hmmlearn().items():
        setattr(theirs, name, array)
    theirs.n_features = 5
    stream = mdvpf.datasets.sample_hmms([hmm], [60], rng=0).symbols
    lengths = [10, 20, 30]
    own = mdvpf.KnownHMM(hmm).score(stream, lengths).sum()
    found = theirs.score(stream.reshape(-1, 1), lengths)
    assert found == pytest.approx(own, rel=1e-9)


def test_the_arrays_for_hmmlearn_are_copies() -> None:
    hmm = mdvpf.datasets.random_hmm(2, 3, rng=0)
    arrays = hmm.to_hmmlearn()
    assert list(arrays) == ["startprob_", "transmat_", "emissionprob_"]
    for array, own in zip(arrays.values(), (hmm.start, hmm.transition, hmm.emission), strict=True):
        np.testing.assert_array_equal(array, own)
        array[:] = 0.0
    np.testing.assert_allclose(hmm.transition.sum(axis=1), 1.0)


# -- the command -----------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """Two files: one with the symbols b, c, d, and one with an additional symbol."""
    train, test = tmp_path / "train.txt", tmp_path / "test.txt"
    train.write_text("\n\n".join("\n".join("bcdbcd") for _ in range(10)))
    test.write_text("b\nc\nd\n\na\nb\n")
    return str(train), str(test)


@pytest.mark.parametrize("learning", [False, True])
def test_the_command_is_the_function(
    learning: bool, files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("typer")
    options = ["--method", "VPA", "-K", "20", "--beta", "0.05", "--top-k", "1,2", "--json"]
    assert main(["evaluate", *files, *options, *["--learning"][: int(learning)]]) == 0
    printed = json.loads(capsys.readouterr().out)
    model = mdvpf.InfiniteHMM(4, beta=0.05)
    pf = mdvpf.ParticleFilter(model, mdvpf.VPA(), n_particles=20)
    train, test = [[1, 2, 3, 1, 2, 3]] * 10, [[1, 2, 3], [0, 1]]
    found = mdvpf.evaluate(pf, train, test, frozen=not learning, top_k=(1, 2))
    assert printed["nats"] == found.nats
    assert printed["top_k"] == {str(k): share for k, share in found.top_k.items()}
    assert printed["sequence_log_probabilities"] == found.sequence_log_probabilities.tolist()
    assert (printed["alphabet"], printed["n_learnt"], printed["n_symbols"]) == (4, 60, 5)
    assert printed["frozen"] is not learning


def test_the_command_freezes_mealy_machines_whose_counts_fade(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("typer")
    options = ["--method", "VPA", "-K", "20", "--oracle", "rows", "--machine", "mealy"]
    assert main(["evaluate", *files, *options, "--forget", "1", "--kappa", "0.5", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    model = mdvpf.InfiniteHMM(4, oracle="rows", machine="mealy", forget=1.0, kappa=0.5)
    pf = mdvpf.ParticleFilter(model, mdvpf.VPA(), n_particles=20)
    found = mdvpf.evaluate(pf, [[1, 2, 3, 1, 2, 3]] * 10, [[1, 2, 3], [0, 1]])
    assert printed["sequence_log_probabilities"] == found.sequence_log_probabilities.tolist()


def test_the_command_prints_a_table(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("typer")
    assert main(["evaluate", *files, "--method", "MD-VPA", "-K", "20"]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"alphabet\W+4, 1 of them only in the test file", printed)
    assert re.search(r"among the 3 likeliest\W+\d", printed)


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--method", "nothing"], 2, "method='nothing'"),
        (["--top-k", "1;2"], 2, "top_k='1;2'"),
        (["--top-k", "1,0"], 2, "top_k='1,0': expected integers from 1 on"),
        (["--method", "Markov 1", "-K", "9"], 2, "particles=9: Markov 1 has none"),
        (["--breaks", "process"], 1, "breaks='process'"),
    ],
)
def test_a_wrong_command_line(
    options: list[str],
    code: int,
    message: str,
    files: tuple[str, str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("typer")
    assert main(["evaluate", *files, *options]) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert message in printed.err


def test_the_end_of_the_last_training_sequence_is_learnt() -> None:
    # A learner that counts late has counted nothing before the end of the sequence.
    learner = mdvpf.SoftHMM(3, 4, lag=50, rng=0)
    found = mdvpf.evaluate(learner, [0, 1, 2] * 10, [0, 1, 2] * 3)
    assert found.nats > -np.log(3) + 0.1
