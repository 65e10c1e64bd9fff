"""`evaluate`: learn one set of sequences, score another, frozen or learning.

A frozen predictor scores each test sequence independently, as in a competition with a training and
a test file. A learning one is scored as on a live stream: it learns each test symbol after it has
predicted it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mdvpf._support import validate
from mdvpf._support.progress import progress_bar
from mdvpf.predictor import (
    MISSING,
    NO_KEY,
    NONE_ENDS,
    Label,
    Predictor,
    Stream,
    Vocabulary,
    read_step,
)

_PROGRESS = 256  # symbols between two updates of the progress bar


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """Scores of a predictor on test sequences.

    Attributes
    ----------
    nats : float
        Mean log predictive of the symbols that are not missing, in nats; larger is better.
    accuracy : float
        Share of symbols that were predicted to be the likeliest: ``top_k[1]``, NaN if `top_k` has
        no 1.
    top_k : dict of int to float
        For each k, the share of symbols that were among the k likeliest.
    sequence_log_probabilities : ndarray of float64
        Log probability of each test sequence; with keys, of each key, by first appearance.
    log_predictive : ndarray of float64
        Log predictive of each test symbol; 0 for a missing one.
    n_sequences, n_symbols, n_missing : int
        Number of test sequences, of scored symbols, and of missing symbols.
    n_learnt : int
        Number of training symbols, missing ones included.

    Examples
    --------
    >>> import mdvpf
    >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(n_symbols=2, beta=0.01), n_particles=10)
    >>> found = mdvpf.evaluate(pf, [[0, 1, 0, 1]] * 20, [[0, 1], [0, 1, 0, 0]])
    >>> found.n_sequences, found.n_symbols, round(found.accuracy, 3)
    (2, 6, 0.833)
    """

    nats: float
    accuracy: float
    top_k: Mapping[int, float]
    sequence_log_probabilities: NDArray[np.float64]
    log_predictive: NDArray[np.float64]
    n_sequences: int
    n_symbols: int
    n_missing: int
    n_learnt: int

    @property
    def perplexity(self) -> float:
        """Perplexity of a symbol: ``exp(-nats)``."""
        return math.exp(-self.nats) if self.nats > -700.0 else math.inf

    @property
    def bits(self) -> float:
        """Mean code length of a symbol in bits: ``-nats / log(2)``."""
        return -self.nats / math.log(2.0)


def evaluate(
    predictor: Predictor,
    train: Any,
    test: Any,
    *,
    train_keys: Sequence[Label | None] | ArrayLike | None = None,
    test_keys: Sequence[Label | None] | ArrayLike | None = None,
    frozen: bool = True,
    top_k: Iterable[int] = (1, 3),
    continued: bool = False,
    copy: bool = True,
    progress: bool = False,
) -> Evaluation:
    """Train a predictor on one set of sequences and score it on another.

    Parameters
    ----------
    predictor : Predictor
        Any predictor, new or already trained.
    train, test : array_like of int, (array_like, array_like) or list of array_like
        The symbols of one sequence; a tuple of concatenated symbols and the lengths of their
        sequences; or a list of sequences. Missing symbols are as for `Predictor.run`. If `train`
        is None, the predictor is scored without training.
    train_keys, test_keys : sequence of labels, optional
        The key of each symbol of `train` or `test`, where the sequences are interleaved. `train` or
        `test` then has symbols only, without lengths.
    frozen : bool, default True
        Score the frozen predictor (`Predictor.freeze`). Otherwise it learns each test symbol after
        it has predicted it.
    top_k : iterable of int, default (1, 3)
        Sizes k of the top-k accuracies. Among equally likely symbols, smaller numbers come first.
        An empty iterable computes log predictives only, which is faster.
    continued : bool, default False
        Continue the last training sequence with the first test sequence; with `test_keys`, continue
        the sequence of every key. By default all test sequences start anew.
    copy : bool, default True
        Work on a copy. Otherwise the predictor itself learns the training sequences and, unless it
        is frozen, the test sequences.
    progress : bool, default False
        Show progress bars on a terminal.

    Returns
    -------
    Evaluation
        Nats a symbol, accuracies, and log probabilities by sequence.

    Examples
    --------
    >>> import mdvpf
    >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(n_symbols=3, beta=0.01), n_particles=20)
    >>> found = mdvpf.evaluate(pf, [0, 1, 2] * 40, ([0, 1, 2, 0, 1], [3, 2]))
    >>> found.accuracy, found.sequence_log_probabilities.shape
    (1.0, (2,))
    """
    if not isinstance(predictor, Predictor):
        raise TypeError(f"predictor={predictor!r}: expected a predictor")
    predictor._check_symbols("evaluate")
    is_frozen = validate.flag("frozen", frozen)
    is_continued = validate.flag("continued", continued)
    sizes = _read_top_k(top_k)
    show = validate.flag("progress", progress)
    n_symbols, is_open = predictor.n_symbols, predictor.is_open
    vocabulary = None if predictor.vocabulary is None else predictor.vocabulary.copy()
    learnt = None
    if train is not None:
        learnt = read_sequences("train", train, n_symbols, train_keys, is_open, vocabulary)
        if is_open:
            n_symbols = max(n_symbols, 1 + int(learnt.symbols.max()))
    elif train_keys is not None:
        raise ValueError("train_keys without train: expected both, or neither")
    scored = read_sequences("test", test, n_symbols, test_keys, is_open, vocabulary)
    if train_keys is not None or test_keys is not None:
        predictor._check_keys()
    learner = predictor.copy() if validate.flag("copy", copy) else predictor
    if learnt is not None:
        if learnt.keys is not None:
            _end_keys(learner)
        _run(learner, learnt, show, "training")
    if learnt is not None and not is_continued:
        _end_keys(learner)
        learner.new_sequence()  # MD-VPA learns its pending symbol
    judge = learner.freeze() if is_frozen else learner
    sequences = _number_sequences(scored)
    if is_continued:
        scored.ended[0] = NONE_ENDS
    elif scored.keys is not None:
        _end_keys(judge)
    if sizes:
        log_predictive, ranks = _run_ranked(judge, scored, show)
    else:
        log_predictive, ranks = _run(judge, scored, show, "test"), None
    by_sequence = np.zeros(int(sequences.max()) + 1)
    np.add.at(by_sequence, sequences, log_predictive)
    seen = scored.symbols != MISSING
    n_seen = int(seen.sum())
    shares = {}
    if ranks is not None:
        shares = {k: float((ranks[seen] < k).mean()) if n_seen else math.nan for k in sizes}
    return Evaluation(
        nats=float(log_predictive[seen].mean()) if n_seen else math.nan,
        accuracy=shares.get(1, math.nan),
        top_k=shares,
        sequence_log_probabilities=by_sequence,
        log_predictive=log_predictive,
        n_sequences=len(by_sequence),
        n_symbols=n_seen,
        n_missing=len(scored) - n_seen,
        n_learnt=0 if learnt is None else len(learnt),
    )


def read_sequences(
    name: str,
    values: Any,
    n_symbols: int,
    keys: Any = None,
    is_open: bool = False,
    vocabulary: Vocabulary | None = None,
) -> Stream:
    """Return sequences in any of the forms that `evaluate` accepts, or raise.

    With a vocabulary the symbols may be labels.

    Examples
    --------
    >>> from mdvpf.streams.evaluation import read_sequences
    >>> read_sequences("train", [[0, 1], [1]], 2).starts.tolist()
    [1, 0, 1]
    """
    lengths: Any
    if isinstance(values, tuple) and len(values) == 2 and _is_sequence(values[0]):
        symbols, lengths = values
    elif isinstance(values, list) and values and _is_sequence(values[0]):
        symbols, lengths = [], []
        for i, sequence in enumerate(values):
            if not _is_sequence(sequence) or len(sequence) == 0:
                raise ValueError(f"{name}[{i}]={sequence!r}: expected a sequence with symbols")
            symbols += np.ma.asanyarray(sequence).tolist() if _is_array(sequence) else sequence
            lengths.append(len(sequence))
    else:
        symbols, lengths = values, None
    if keys is not None and lengths is not None:
        raise ValueError(f"{name}_keys: expected symbols alone for {name}, not several sequences")
    try:
        stream = Stream.read(
            symbols, lengths, n_symbols, keys, is_open=is_open, vocabulary=vocabulary
        )
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: {error}") from error
    if keys is None:
        stream.ended[0] = NO_KEY
    return stream


def _number_sequences(stream: Stream) -> NDArray[np.int64]:
    """Return the number of each symbol's sequence, by first appearance."""
    if stream.keys is None:
        return np.cumsum(stream.ended != NONE_ENDS) - 1
    found: dict[Label | None, int] = {}
    return np.array([found.setdefault(key, len(found)) for key in stream.keys])


def _end_keys(predictor: Predictor) -> None:
    """End the sequences of all keys."""
    for key in predictor._table.labels():
        if key is None:
            predictor.new_sequence()
        else:
            predictor.new_sequence(key)


def _is_array(value: Any) -> bool:
    return hasattr(value, "__array__")


def _is_sequence(value: Any) -> bool:
    if _is_array(value):
        return np.ndim(value) > 0
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _read_top_k(top_k: Any) -> list[int]:
    if isinstance(top_k, (str, bytes)) or not isinstance(top_k, Iterable):
        raise TypeError(f"top_k={top_k!r}: expected a sequence of integers")
    return [validate.integer(f"top_k[{i}]", k, low=1) for i, k in enumerate(top_k)]


def _run(predictor: Predictor, stream: Stream, show: bool, label: str) -> NDArray[np.float64]:
    with progress_bar(show, len(stream), label) as advance:
        return predictor._run_keyed(stream, advance)[:, 0]


def _run_ranked(
    predictor: Predictor, stream: Stream, show: bool
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the log predictive of each symbol, and its rank among the predicted symbols.

    Rank 0 is the likeliest symbol; among equally likely symbols the smaller number comes first. The
    prediction is made before the symbol is used.
    """
    # Validates the whole stream as a run does, before the predictor changes.
    predictor._plan(predictor._numbered(stream, predictor._table.copy()))
    n = len(stream)
    log_predictive = np.zeros(n)
    ranks = np.zeros(n, dtype=np.int64)
    with progress_bar(show, n, "test") as advance:
        keys = [None] * n if stream.keys is None else stream.keys
        for i, (symbol, start, key) in enumerate(
            zip(stream.symbols.tolist(), stream.starts.tolist(), keys, strict=True)
        ):
            named = {} if key is None else {"key": key}  # not every predictor accepts a key
            if start:
                predictor.new_sequence()
            if symbol != MISSING:
                prediction = predictor.predict_proba(**named)
                own = prediction[symbol]
                ranks[i] = (prediction > own).sum() + (prediction[:symbol] == own).sum()
            step = predictor.update(None if symbol == MISSING else symbol, **named)
            log_predictive[i] = read_step(predictor, step).log_predictive
            if i % _PROGRESS == _PROGRESS - 1:
                advance(_PROGRESS)
        advance(n % _PROGRESS)
    return log_predictive, ranks
