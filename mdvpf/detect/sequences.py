"""`score_sequences`: score the strangeness of whole sequences of any lengths.

Each symbol has a value: its surprise, or log p_background - log p with a background. Two statistics
of the values are judged. The mean finds sequences that are slightly strange throughout, and the
mean of the worst window finds sequences that are strange in one place. Both depend on the length:
the mean of few symbols varies more, and the maximum over many windows is larger. Each statistic
therefore becomes a p-value given the length, and the smaller one is used.

The distributions given the length are estimated from normal sequences if there are any, otherwise
from the predictor's own probabilities (`sequence_calibration.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mdvpf._support import validate
from mdvpf._support.extras import needed
from mdvpf._support.progress import progress_bar
from mdvpf._support.shown import shown_fields
from mdvpf.detect.learning import end_sequence
from mdvpf.detect.sequence_calibration import (
    TILTS,
    Floats,
    Moments,
    UsualSequences,
    expected_p_value,
    worst_mean,
)
from mdvpf.predictor import MISSING, NO_KEY, NONE_ENDS, Label, Predictor, Stream, read_step

if TYPE_CHECKING:
    import pandas

_LARGEST = 700.0  # nats of a symbol of probability zero


@dataclass(frozen=True, slots=True)
class SequenceScore:
    """The score of one sequence.

    Attributes
    ----------
    key : label
        Its key, or its index among the sequences given by lengths.
    length : int
        Number of symbols, missing ones included.
    mean : float
        Mean surprise of a symbol, in nats. A symbol of probability zero counts as 700.
    ratio : float
        Mean of log p_background - log p; NaN without a background.
    score : float
        Excess of the mean (with a background: of the ratio) over its expectation at this length,
        in standard deviations.
    worst_window : float
        Largest mean surprise (with a background: ratio) of a window of the sequence.
    worst_start : int
        Index in the sequence of the first symbol of that window; -1 if all symbols are missing.
    p_value : float
        Probability that a normal sequence of this length is at least as strange. Smaller is
        stranger.

    Examples
    --------
    >>> import mdvpf
    >>> from mdvpf.detect.sequences import score_sequences
    >>> chain = mdvpf.Markov(2)
    >>> _ = chain.run([0, 1] * 50)
    >>> score_sequences(chain, [0, 1, 0, 1, 1, 1], lengths=[3, 3])[1].length
    3
    """

    key: Label | None
    length: int
    mean: float
    ratio: float
    score: float
    worst_window: float
    worst_start: int
    p_value: float


@dataclass(frozen=True, slots=True, eq=False)
class SequenceScores:
    """The scores of many sequences: the fields of `SequenceScore`, as arrays.

    Attributes
    ----------
    keys : list of labels
        The key of each sequence, by first appearance; 0, 1, ... if they were given by lengths.
    length, worst_start : ndarray of int64
    mean, ratio, score, worst_window, p_value : ndarray of float64
        One entry for each sequence, as in `SequenceScore`.
    values : ndarray of float64
        The value of each symbol, sequence after sequence: its surprise, or with a background
        log p_background - log p. NaN for a missing symbol.

    Examples
    --------
    >>> import mdvpf
    >>> from mdvpf.detect.sequences import score_sequences
    >>> chain = mdvpf.Markov(2)
    >>> _ = chain.run([0, 1] * 50)
    >>> found = score_sequences(chain, [0, 1] * 10 + [1] * 20, keys=["a"] * 20 + ["b"] * 20)
    >>> found.keys, (found.score > 5.0).tolist(), (found.p_value < 1e-9).tolist()
    (['a', 'b'], [False, True], [False, True])
    """

    keys: list[Label | None]
    length: NDArray[np.int64]
    mean: Floats
    ratio: Floats
    score: Floats
    worst_window: Floats
    worst_start: NDArray[np.int64]
    p_value: Floats
    values: Floats

    def __repr__(self) -> str:
        return shown_fields(self)

    def __len__(self) -> int:
        return len(self.length)

    def __getitem__(self, i: int) -> SequenceScore:
        """Return the score of sequence i."""
        return SequenceScore(
            self.keys[i],
            int(self.length[i]),
            float(self.mean[i]),
            float(self.ratio[i]),
            float(self.score[i]),
            float(self.worst_window[i]),
            int(self.worst_start[i]),
            float(self.p_value[i]),
        )

    def to_pandas(self) -> pandas.DataFrame:
        """Return a data frame with one row for each sequence and the keys as index.

        Examples
        --------
        >>> import mdvpf
        >>> from mdvpf.detect.sequences import score_sequences
        >>> chain = mdvpf.Markov(2)
        >>> score_sequences(chain, [0, 1, 1], keys=["a", "b", "a"]).to_pandas()["length"].to_dict()
        {'a': 2, 'b': 1}
        """
        with needed("to_pandas", "pandas", "pandas"):
            import pandas
        names = ("length", "mean", "ratio", "score", "worst_window", "worst_start", "p_value")
        index = pandas.Index(self.keys, name="key", tupleize_cols=False)
        return pandas.DataFrame({name: getattr(self, name) for name in names}, index=index)


def score_sequences(
    predictor: Predictor,
    symbols: ArrayLike,
    lengths: ArrayLike | None = None,
    keys: Sequence[Label | None] | ArrayLike | None = None,
    *,
    background: Predictor | None = None,
    reference: SequenceScores | tuple[ArrayLike, ArrayLike] | None = None,
    learn: bool = False,
    window: int = 20,
    progress: bool = False,
) -> SequenceScores:
    """Score whole sequences with a predictor trained on normal sequences.

    Parameters
    ----------
    predictor : Predictor
        The predictor, trained on normal sequences.
    symbols : array_like of int
        The symbols, as for `Predictor.run`; missing ones are left out of all means.
    lengths : array_like of int, optional
        Lengths of the sequences that `symbols` joins.
    keys : sequence of labels, optional
        The key of each symbol, for sequences that are interleaved. Not together with `lengths`;
        with neither, all symbols are one sequence.
    background : Predictor, optional
        A predictor of the same alphabet for comparison, trained on strange sequences or on all
        sequences. It is frozen.
    reference : SequenceScores or (symbols, lengths), optional
        Normal sequences that the predictor has not learnt, or their scores by the same predictor
        and background. Scoring with a reference is much faster, and safer if the predictor is not
        calibrated.
    learn : bool, default False
        Let the predictor learn each symbol after predicting it. Otherwise a frozen copy scores each
        sequence independently, and the predictor does not change.
    window : int, default 20
        Length of the windows. A shorter sequence is one window.
    progress : bool, default False
        Show a progress bar, if the output is a terminal.

    Returns
    -------
    SequenceScores
        Scores and p-values, one for each sequence.

    Notes
    -----
    Without a reference the p-values depend on the predictor: they are approximately uniform if the
    symbols are drawn from its own predictions. The score is the sum of value minus expected value,
    divided by the root of the summed variances. It is a martingale, and nearly normal for long
    sequences. The p-values use the signed root of the large-deviation rate instead, which holds for
    short sequences too. An overconfident predictor makes them too small.

    A reference needs no assumption about the predictor. For the mean of a sequence of length n,
    expectation and variance are fitted as ``mu + c / n`` and ``a + b / n``: c is due to the start,
    a to differences between sequences, and b to symbols, which may be dependent. The worst window
    is compared with all windows of the reference; the effective number of independent windows is
    fitted too. With at least 20 reference sequences the p-value is the rank of the combined
    statistic among theirs, at least ``1 / (n_reference + 1)``. Over all lengths together it is
    valid if the normal sequences among the scored ones are exchangeable with the reference. They
    are not exchangeable with ``learn=True`` while the predictor still improves. Within a range of
    lengths the p-value is valid as far as the fit holds. With fewer than 20 reference sequences it
    depends on the fit alone.

    Examples
    --------
    >>> import mdvpf
    >>> import numpy as np
    >>> from mdvpf.detect.sequences import score_sequences
    >>> chain = mdvpf.Markov(3)
    >>> _ = chain.run([0, 1, 2, 0, 1, 1, 2] * 40)
    >>> found = score_sequences(chain, [0, 1, 2] * 4 + [2, 1, 0] * 4, lengths=[12, 12])
    >>> (found.p_value < 0.01).tolist()
    [False, True]
    """
    for name, given in (("predictor", predictor), ("background", background)):
        if not isinstance(given, Predictor) and (name == "predictor" or given is not None):
            raise TypeError(f"{name}={given!r}: expected a Predictor")
    predictor._check_symbols("score_sequences")
    learns = validate.flag("learn", learn)
    window = validate.integer("window", window, low=1)
    show = validate.flag("progress", progress)
    if background is not None:
        _check_background(predictor, background)
    trial = None if predictor.vocabulary is None else predictor.vocabulary.copy()
    stream = Stream.read(
        symbols,
        lengths,
        predictor.n_symbols,
        keys,
        is_open=predictor.is_open,
        vocabulary=trial,
    )
    if stream.keys is None:
        stream.ended[0] = NO_KEY
    elif learns:
        predictor._check_keys()
    usual_values = _read_reference(predictor, reference, background)
    names, order, sizes = _group(stream)
    try:
        terms = _read_terms(
            predictor, stream, order, sizes, background, learns, reference is None, show
        )
    finally:
        if learns and trial is not None:
            predictor._learn_labels(trial)
    usual = None if usual_values is None else UsualSequences(usual_values, window)
    return _score(names, sizes, terms, usual, window, background is not None)


# -- values of symbols -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Terms:
    """The judged values of the symbols.

    Attributes
    ----------
    surprise : ndarray
        -log p; NaN for a missing symbol, as in `value`.
    value : ndarray
        The judged value: surprise, or log p_background - log p.
    moments : Moments or None
        Moments of the values under the predictions; None if there is a reference.
    """

    surprise: Floats
    value: Floats
    moments: Moments | None = None

    def in_order(self, places: NDArray[np.int64]) -> _Terms:
        """Return the terms of the symbols at these places."""
        moments = None if self.moments is None else self.moments[places]
        return _Terms(self.surprise[places], self.value[places], moments)


def _check_background(predictor: Predictor, background: Predictor) -> None:
    background._check_symbols("background")
    if predictor.is_open or background.is_open:
        raise ValueError("background with an open alphabet: expected alphabets of a fixed size")
    if predictor.n_symbols != background.n_symbols:
        raise ValueError(
            f"background of {background.n_symbols} symbols: expected {predictor.n_symbols}, "
            "as the predictor has"
        )


def _read_reference(
    predictor: Predictor, reference: Any, background: Predictor | None
) -> list[Floats] | None:
    """Return the values of the reference sequences, without missing symbols, or raise."""
    if reference is None:
        return None
    expected = "SequenceScores, or a tuple of symbols and lengths"
    if not isinstance(reference, SequenceScores):
        if not isinstance(reference, tuple) or len(reference) != 2 or reference[1] is None:
            raise TypeError(f"reference of type {type(reference).__name__}: expected {expected}")
        symbols, lengths = reference
        try:
            stream = Stream.read(
                symbols,
                lengths,
                predictor.n_symbols,
                is_open=predictor.is_open,
                vocabulary=None if predictor.vocabulary is None else predictor.vocabulary.copy(),
            )
        except (TypeError, ValueError) as error:
            raise type(error)(f"reference: {error}") from error
        _, order, sizes = _group(stream)
        values = _read_terms(predictor, stream, order, sizes, background, False, False, False).value
    else:
        if np.isnan(reference.ratio).all() != (background is None):
            state = "without" if background is None else "with"
            raise ValueError(f"reference: expected scores {state} background, as in this call")
        values, sizes = reference.values, reference.length
    parts = np.split(values, np.cumsum(sizes)[:-1])
    found = [part[~np.isnan(part)] for part in parts]
    found = [part for part in found if len(part)]
    if not found:
        raise ValueError("reference: got only missing symbols; expected normal sequences")
    return found


def _group(stream: Stream) -> tuple[list[Label | None], NDArray[np.int64], NDArray[np.int64]]:
    """Return the keys of the sequences, the order that groups their symbols, and the lengths."""
    if stream.keys is None:
        numbers = np.cumsum(stream.ended != NONE_ENDS) - 1
        names: list[Label | None] = list(range(int(numbers[-1]) + 1))
    else:
        found: dict[Label | None, int] = {}
        numbers = np.array([found.setdefault(key, len(found)) for key in stream.keys])
        names = list(found)
    return names, np.argsort(numbers, kind="stable"), np.bincount(numbers)


def _read_terms(
    predictor: Predictor,
    stream: Stream,
    order: NDArray[np.int64],
    sizes: NDArray[np.int64],
    background: Predictor | None,
    learns: bool,
    wants_moments: bool,
    show: bool,
) -> _Terms:
    """Let the predictor absorb the stream, frozen or learning; return the values."""
    missing = (stream.symbols == MISSING)[order]
    if learns:
        judge, judged, places = predictor, stream, order
        for key in dict.fromkeys(stream.keys or ()):
            if key in predictor._table:
                end_sequence(predictor, key)
    else:
        judge = predictor.freeze()
        most = judge.n_symbols - 1 if predictor.is_open else validate.LARGEST_INT
        judged = _grouped(np.minimum(stream.symbols[order], most), sizes)
        places = np.arange(len(order))
    comparison = None if background is None else background.freeze()
    with progress_bar(show, len(stream), "sequences") as advance:
        if wants_moments:
            terms = _predict(judge, judged, comparison, advance).in_order(places)
        else:
            surprise = _clipped(judge._run_keyed(judged, advance)[:, 0])[places]
            value = surprise.copy()
            if comparison is not None:
                grouped = _grouped(stream.symbols[order], sizes)
                value -= _clipped(comparison._run_keyed(grouped, lambda n: None)[:, 0])
            terms = _Terms(surprise, value)
    terms.surprise[missing] = terms.value[missing] = np.nan
    return terms


def _grouped(symbols: NDArray[np.int32], sizes: NDArray[np.int64]) -> Stream:
    """Return a stream of sequences, one after the other."""
    ended = np.full(len(symbols), NONE_ENDS, dtype=np.int32)
    ended[np.cumsum(sizes) - sizes] = NO_KEY
    return Stream(symbols, ended)


def _clipped(log_predictive: Floats) -> Floats:
    """Return the surprise of log predictives, at most `_LARGEST`."""
    return np.clip(-log_predictive, 0.0, _LARGEST)


def _predict(
    predictor: Predictor,
    stream: Stream,
    background: Predictor | None,
    advance: Callable[[int], None],
) -> _Terms:
    """Absorb a stream symbol by symbol; return values and their moments under the predictions."""
    # Raise errors of the predictor now, not in the middle of the stream.
    predictor._plan(predictor._numbered(stream, predictor._table.copy()))
    both = [predictor] if background is None else [predictor, background]
    if background is not None and stream.keys is not None:
        background._check_keys()
    n = len(stream)
    surprise, value, expected, variance = np.zeros((4, n))
    cumulant = np.zeros((n, len(TILTS)), dtype=np.float32)
    keys = [None] * n if stream.keys is None else stream.keys
    for i, (symbol, start, key) in enumerate(
        zip(stream.symbols.tolist(), stream.starts.tolist(), keys, strict=True)
    ):
        named = {} if key is None else {"key": key}  # some predictors take no key
        logs = []
        for each in both:
            if start:
                each.new_sequence()
            if symbol != MISSING:
                smallest = np.exp(-_LARGEST)
                logs.append(np.log(np.maximum(each.predict_proba(**named), smallest)))
            step = each.update(None if symbol == MISSING else symbol, **named)
            read_step(each, step)
        if symbol != MISSING:
            surprise[i] = -logs[0][symbol]
            values = -logs[0] if background is None else logs[1] - logs[0]
            weights = np.exp(logs[0])
            value[i] = values[symbol]
            expected[i] = weights @ values
            variance[i] = weights @ (values - expected[i]) ** 2
            tilted = logs[0] + TILTS[:, None] * values
            top = tilted.max(axis=1)
            cumulant[i] = top + np.log(np.exp(tilted - top[:, None]).sum(axis=1))
        advance(1)
    return _Terms(surprise, value, Moments(expected, variance, cumulant))


# -- scores of sequences -----------------------------------------------------------------------


def _score(
    names: list[Label | None],
    sizes: NDArray[np.int64],
    terms: _Terms,
    usual: UsualSequences | None,
    window: int,
    has_background: bool,
) -> SequenceScores:
    """Return the scores of sequences from the grouped values of their symbols."""
    n = len(sizes)
    mean, ratio, score, worst = np.full((4, n), np.nan)
    p_value, starts = np.ones(n), np.full(n, -1)
    first = 0
    for i, size in enumerate(sizes.tolist()):
        part = slice(first, first + size)
        seen = first + np.flatnonzero(~np.isnan(terms.value[part]))
        if len(seen):
            values = terms.value[seen]
            mean[i] = terms.surprise[seen].mean()
            ratio[i] = values.mean() if has_background else np.nan
            worst[i], start = worst_mean(values, window)
            starts[i] = seen[start] - first
            if usual is not None:
                score[i] = usual.score(len(values), float(values.mean()))
                p_value[i] = usual.p_value(len(values), float(values.mean()), float(worst[i]))
            elif terms.moments is not None:
                score[i], p_value[i] = expected_p_value(values, terms.moments[seen], window)
        first += size
    return SequenceScores(names, sizes, mean, ratio, score, worst, starts, p_value, terms.value)
