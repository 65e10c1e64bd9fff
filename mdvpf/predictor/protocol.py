"""The protocol of a next-symbol predictor, and the one loop that runs them all.

Everything that predicts the next symbol of a stream, filters among them, has `n_symbols`,
`predict_proba`, `update`, `new_sequence`, `run`, `score` and `copy`, so that experiments,
detectors and mixtures take any of them. A predictor supplies the first four and `copy`; the
loop, the reading of input and the scoring of a continuation are here. Those that say what they
are made of can be saved, with their vocabulary (see `checkpoint.py`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mdvpf import checkpoint
from mdvpf._support import validate
from mdvpf._support.progress import progress_bar
from mdvpf.predictor.results import N_FIELDS, FilterResult, Step, read_reports
from mdvpf.predictor.vocabulary import Vocabulary

MISSING = -1  # how a missing symbol is written in the arrays of a Stream


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """Symbols as the predictors take them: checked, and with sequence starts marked.

    Attributes
    ----------
    symbols : ndarray of int32
        The symbols, `MISSING` where there is none.
    starts : ndarray of uint8
        Whether a new sequence starts before each symbol.
    """

    symbols: NDArray[np.int32]
    starts: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.symbols)

    def __getitem__(self, part: slice) -> Stream:
        return Stream(self.symbols[part], self.starts[part])

    @classmethod
    def read(
        cls, symbols: Any, lengths: ArrayLike | None, n_symbols: int, *, is_open: bool = False
    ) -> Self:
        """Check the symbols and the lengths of their sequences, all of them."""
        array = _read_open(symbols, n_symbols) if is_open else _read_symbols(symbols, n_symbols)
        starts = np.zeros(len(array), dtype=np.uint8)
        if lengths is not None:
            starts[_read_starts(lengths, len(array))] = 1
        return cls(array, starts)


def read_symbol(symbol: Any, n_symbols: int) -> int:
    """Return a symbol as an int, `MISSING` for None, or raise."""
    if symbol is None:
        return MISSING
    if type(symbol) is int and 0 <= symbol < n_symbols:  # the usual case, without a message
        return symbol
    return validate.integer(
        "symbol", symbol, low=0, high=n_symbols - 1, also=", or None if it is missing"
    )


def _read_symbols(symbols: Any, n_symbols: int) -> NDArray[np.int32]:
    values = validate.integers("symbols", symbols, low=0, high=n_symbols - 1, missing=MISSING)
    if len(values) == 0:
        raise ValueError("symbols: got none; expected at least one")
    return values.astype(np.int32)


def _read_open(symbols: Any, n_symbols: int) -> NDArray[np.int32]:
    """Return symbols of an open alphabet, each at most the number of those seen before it."""
    values = _read_symbols(symbols, validate.LARGEST_INT)
    seen = np.maximum.accumulate(np.concatenate([[n_symbols], values[:-1].astype(np.int64) + 1]))
    wrong = np.flatnonzero(values > seen)
    if len(wrong):
        i = int(wrong[0])
        raise ValueError(
            f"symbols[{i}]={values[i]}: expected an integer in 0..{seen[i]}, the number of "
            "symbols seen before, or None where one is missing"
        )
    return values


def _read_starts(lengths: Any, n: int) -> NDArray[np.int64]:
    """Return where the sequences of the given lengths start."""
    values = validate.integers("lengths", lengths, low=1)
    if values.sum() != n:
        raise ValueError(f"lengths sum to {values.sum()}: expected {n}, the number of symbols")
    return np.cumsum(values) - values


class Predictor(checkpoint.Saveable):
    """Base of everything that predicts the next symbol of a stream.

    Examples
    --------
    >>> import mdvpf
    >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(n_symbols=3), n_particles=10)
    >>> isinstance(pf, mdvpf.Predictor)
    True
    """

    @property
    @abstractmethod
    def n_symbols(self) -> int:
        """Size of the alphabet."""

    @property
    def is_open(self) -> bool:
        """Whether the alphabet is open: `n_symbols`, those seen, stands for one never seen."""
        return False

    @abstractmethod
    def predict_proba(self) -> NDArray[np.float64]:
        """Return the distribution of the next symbol."""

    @abstractmethod
    def update(self, symbol: int | None) -> Step:
        """Absorb one symbol; None is a missing one."""

    @abstractmethod
    def new_sequence(self) -> None:
        """End the sequence: the next symbol starts a new one."""

    @abstractmethod
    def copy(self) -> Self:
        """Return an independent copy."""

    def freeze(self) -> Predictor:
        """Return a predictor that predicts as this one does now, and no longer learns."""
        raise TypeError(f"{type(self).__name__} cannot be frozen")

    def _plan(self, stream: Stream) -> Any:
        """Check and compute what a run over the stream needs beforehand; change nothing."""
        return None

    def _absorb(self, stream: Stream, plan: Any, part: slice, reports: NDArray[np.float64]) -> None:
        """Absorb a part of the stream, writing one row of `reports` a symbol."""
        symbols, starts = stream.symbols[part].tolist(), stream.starts[part].tolist()
        for report, symbol, start in zip(reports, symbols, starts, strict=True):
            if start:
                self.new_sequence()
            log_predictive, *others = self._step(symbol)
            report[:] = log_predictive, log_predictive, *others

    def _step(self, symbol: int) -> Sequence[float]:
        """Absorb a symbol that was checked, or `MISSING`; return the fields of `Step`."""
        return self.update(None if symbol == MISSING else symbol)

    def _settle(self, n: int) -> None:
        """Give back memory that only steps need, if it pays after so many of them."""

    @property
    def _may_reject(self) -> bool:
        """Whether a symbol of the alphabet may be refused, as `_plan` would tell."""
        return True

    @property
    def _chunk(self) -> int:
        """How many symbols are absorbed between two looks at the progress bar."""
        return 1

    @property
    def _n_fields(self) -> int:
        """How many columns `_absorb` writes: those of `read_reports`, and others if any."""
        return N_FIELDS

    def _result(self, reports: NDArray[np.float64]) -> FilterResult:
        """Return what `run` does, made of the reports of all symbols."""
        return FilterResult(**read_reports(reports))

    def run(
        self, symbols: ArrayLike, lengths: ArrayLike | None = None, progress: bool = False
    ) -> FilterResult:
        """Absorb many symbols.

        All input is checked first. An interrupt (Ctrl-C) leaves the predictor between two
        symbols.

        Parameters
        ----------
        symbols : array_like of int
            The symbols. Missing ones are None in a sequence, or masked in a masked array.
        lengths : array_like of int, optional
            Lengths of the sequences that `symbols` joins: a new sequence starts before each of
            them, the first included. Without it the present sequence goes on.
        progress : bool, default False
            Show a progress bar, if the output is a terminal.

        Returns
        -------
        FilterResult
            The fields of `Step`, as arrays, and the log evidence of this run. Of a `Mixture` it is
            a `MixtureResult`, which has its weights as well.

        Examples
        --------
        >>> import mdvpf
        >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(n_symbols=2), n_particles=10)
        >>> result = pf.run([0, 1, None, 0, 1], lengths=[3, 2])
        >>> float(result.log_predictive[2])
        0.0
        """
        stream = Stream.read(symbols, lengths, self.n_symbols, is_open=self.is_open)
        show = validate.flag("progress", progress)
        plan = self._plan(stream)
        with progress_bar(show, len(stream), type(self).__name__) as advance:
            reports = self._run(stream, plan, advance)
        return self._result(reports)

    def _run(
        self, stream: Stream, plan: Any, advance: Callable[[int], None] | None = None
    ) -> NDArray[np.float64]:
        """Absorb a stream chunk by chunk, the one loop that does; return the reports."""
        n = len(stream)
        reports = np.empty((n, self._n_fields))
        for start in range(0, n, self._chunk):
            part = slice(start, min(start + self._chunk, n))
            self._absorb(stream, plan, part, reports[part])
            if advance is not None:
                advance(part.stop - part.start)
        self._settle(n)
        return reports

    def score(self, symbols: ArrayLike, lengths: ArrayLike | None = None) -> NDArray[np.float64]:
        """Return the log predictives of a continuation; the predictor is left unchanged.

        Parameters
        ----------
        symbols, lengths
            As for `run`.

        Examples
        --------
        >>> import mdvpf
        >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(n_symbols=2), n_particles=10)
        >>> _ = pf.run([0, 1] * 20)
        >>> usual, strange = pf.score([0, 1]).sum(), pf.score([1, 1]).sum()
        >>> bool(usual > strange)
        True
        """
        return self.copy().run(symbols, lengths).log_predictive

    # -- what the symbols stand for --------------------------------------------------------

    _vocabulary: Vocabulary | None = None

    @property
    def vocabulary(self) -> Vocabulary | None:
        """What the symbols stand for: a `Vocabulary`, or None unless set.

        It plays no part in what the predictor does; copies and checkpoints carry it along.
        """
        return self._vocabulary

    @vocabulary.setter
    def vocabulary(self, vocabulary: Vocabulary | None) -> None:
        if vocabulary is not None:
            if not isinstance(vocabulary, Vocabulary):
                raise TypeError(f"vocabulary={vocabulary!r}: expected a Vocabulary, or None")
            if vocabulary.n_symbols != self.n_symbols:
                raise ValueError(
                    f"vocabulary={vocabulary!r} of {vocabulary.n_symbols} symbols: "
                    f"expected {self.n_symbols}, as the predictor has"
                )
        self._vocabulary = vocabulary

    # -- checkpoints -----------------------------------------------------------------------

    def _to_state(self) -> checkpoint.State:
        """Return what the predictor is made of, the vocabulary aside."""
        raise TypeError(f"{type(self).__name__} cannot be saved")

    @classmethod
    def _from_state(cls, state: checkpoint.State, given: dict[str, Any]) -> Self:
        """Return the predictor of such a state, or raise; `given` is what `load` was passed."""
        raise TypeError(f"{cls.__name__} cannot be loaded")

    def _to_checkpoint(self) -> checkpoint.State:
        state = self._to_state()
        vocabulary = None if self.vocabulary is None else self.vocabulary._values()
        return replace(state, values={**state.values, "vocabulary": vocabulary})

    @classmethod
    def _from_checkpoint(cls, state: checkpoint.State, given: dict[str, Any]) -> Self:
        values = dict(state.values)
        vocabulary = values.pop("vocabulary")
        predictor = cls._from_state(replace(state, values=values), given)
        if vocabulary is not None:
            predictor.vocabulary = Vocabulary._from_values(vocabulary)
        return predictor
