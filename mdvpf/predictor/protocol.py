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
from dataclasses import replace
from functools import cache
from inspect import signature
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mdvpf import checkpoint
from mdvpf._support import validate
from mdvpf._support.progress import progress_bar
from mdvpf.predictor.keys import NO_KEY, NONE_ENDS, KeyTable, read_key, read_max_keys
from mdvpf.predictor.results import N_FIELDS, FilterResult, Step, read_reports
from mdvpf.predictor.stream import MISSING, Stream
from mdvpf.predictor.vocabulary import Label, Vocabulary


class Predictor(checkpoint.Saveable):
    """Base of everything that predicts the next symbol of a stream.

    A predictor of one's own supplies `n_symbols`, `predict_proba`, `update`, `new_sequence` and
    `copy`. Its methods need no `key` as long as it is given none.

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
        """Size of the alphabet; if it is open, how many symbols were seen."""

    @property
    def is_open(self) -> bool:
        """Whether the alphabet is open: the symbol `n_symbols` is one that was never seen."""
        return False

    @abstractmethod
    def predict_proba(self, key: Label | None = None) -> NDArray[np.float64]:
        """Return the distribution of the next symbol of a key."""

    @abstractmethod
    def update(self, symbol: int | None, key: Label | None = None) -> Step:
        """Absorb one symbol of a key; None is a missing one."""

    @abstractmethod
    def new_sequence(self, key: Label | None = None) -> None:
        """End the sequence of a key: its next symbol starts a new one."""

    @abstractmethod
    def copy(self) -> Self:
        """Return an independent copy."""

    def freeze(self) -> Predictor:
        """Return a predictor that predicts as this one does now, and no longer learns."""
        raise TypeError(f"{type(self).__name__} cannot be frozen")

    # -- keys ------------------------------------------------------------------------------

    _key_table: KeyTable | None = None

    @property
    def _table(self) -> KeyTable:
        """The keys in use."""
        if self._key_table is None:
            self._key_table = KeyTable()
        return self._key_table

    @property
    def n_keys(self) -> int:
        """Number of keys whose sequence has begun and not ended.

        Examples
        --------
        >>> import mdvpf
        >>> chain = mdvpf.Markov(n_symbols=2)
        >>> _ = chain.run([0, 1, 1], keys=["a", "b", "a"])
        >>> chain.n_keys
        2
        """
        return len(self._table)

    @property
    def max_keys(self) -> int | None:
        """At most so many keys are in use: another one ends that which was used longest ago.

        Examples
        --------
        >>> import mdvpf
        >>> chain = mdvpf.Markov(n_symbols=2)
        >>> chain.max_keys = 2
        >>> _ = chain.run([0, 1, 1], keys=["a", "b", "c"])
        >>> chain.n_keys
        2
        """
        return self._table.max_keys

    @max_keys.setter
    def max_keys(self, max_keys: int | None) -> None:
        most = read_max_keys(max_keys)
        while most is not None and len(self._table) > most:
            self.new_sequence(self._table.labels()[0])
        self._table.max_keys = most

    @property
    def _takes_keys(self) -> bool:
        """Whether `update` takes a key."""
        return _has_key(type(self).update)

    def _check_keys(self) -> None:
        if not self._takes_keys:
            raise TypeError(
                f"keys: {type(self).__name__} takes none; expected a predictor whose update, "
                "predict_proba and new_sequence have an argument key"
            )

    def _update(self, symbol: int, key: Label | None) -> Sequence[float]:
        """Absorb a symbol that was checked, by the number of its key: `update` of ours."""
        table = self._table
        if key is None and table.is_plain:
            fields = self._step(symbol)
            table.use(None)
            return fields
        self._check_keys()
        key = read_key("key", key)
        surplus = table.surplus(key)
        if surplus:
            self._end(surplus.number)
            table.end(surplus.key)
        fields = self._step(symbol, table.next_number(key))
        table.use(key)
        return fields

    def _new_sequence(self, key: Label | None) -> None:
        """End the sequence of a key by its number: `new_sequence` of ours."""
        key = read_key("key", key)
        self._end(self._table.next_number(key))
        self._table.end(key)

    def _twin(self) -> Self:
        """Return an object with the same attributes, but a table of keys of its own."""
        twin = object.__new__(type(self))
        vars(twin).update(vars(self))
        twin._key_table = self._table.copy()
        if self._vocabulary is not None:
            twin._vocabulary = self._vocabulary.copy()
        return twin

    def _number(self, key: Label | None) -> int:
        """Return the number of a key, or one that no key has, whose sequence has not begun."""
        return NO_KEY if key is None else self._table.next_number(read_key("key", key))

    # What ours implement, by the number of the key. Members of a mixture are called by these.

    def _step(self, symbol: int, number: int = NO_KEY) -> Sequence[float]:
        """Absorb a symbol that was checked, or `MISSING`; return the fields of `Step`."""
        found = None if symbol == MISSING else symbol
        return self.update(found) if number == NO_KEY else self.update(found, key=number)

    def _end(self, number: int = NO_KEY) -> None:
        """End the sequence of a key."""
        if number == NO_KEY:
            self.new_sequence()
        else:
            self.new_sequence(key=number)

    def _predict(self, number: int = NO_KEY) -> NDArray[np.float64]:
        """Return the distribution of the next symbol of a key."""
        return self.predict_proba() if number == NO_KEY else self.predict_proba(key=number)

    # -- runs ------------------------------------------------------------------------------

    def _plan(self, stream: Stream) -> Any:
        """Check and compute what a run over the stream needs beforehand; change nothing."""
        return None

    def _absorb(self, stream: Stream, plan: Any, part: slice, reports: NDArray[np.float64]) -> None:
        """Absorb a part of the stream, writing one row of `reports` a symbol."""
        symbols, ended = stream.symbols[part].tolist(), stream.ended[part].tolist()
        keys: list[Any] = [NO_KEY] * len(symbols)
        if stream.numbers is not None:
            keys = stream.numbers[part].tolist() if stream.keys is None else stream.keys[part]
        for report, symbol, key, end in zip(reports, symbols, keys, ended, strict=True):
            if end != NONE_ENDS:
                self._end(end)
            log_predictive, *others = self._step(symbol, NO_KEY if key is None else key)
            report[1:] = log_predictive, *others
            report[0] = log_predictive

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
        self,
        symbols: ArrayLike,
        lengths: ArrayLike | None = None,
        keys: Sequence[Label | None] | ArrayLike | None = None,
        progress: bool = False,
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
        keys : sequence of labels, optional
            The key of each symbol, for sequences that are interleaved: each goes on where it
            stood. Not together with `lengths`.
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
        stream = Stream.read(symbols, lengths, self.n_symbols, keys, self.is_open)
        show = validate.flag("progress", progress)
        if keys is not None:
            self._check_keys()
        before = self._table.copy()
        try:
            stream = stream.numbered(self._table)
            plan = self._plan(stream)
        except BaseException:
            self._key_table = before
            raise
        reports = np.full((len(stream), self._n_fields), np.nan)
        try:
            with progress_bar(show, len(stream), type(self).__name__) as advance:
                self._run(stream, plan, reports, advance)
        except BaseException:
            n_absorbed = int(np.count_nonzero(~np.isnan(reports[:, 0])))
            self._key_table = _after(before, stream, n_absorbed)
            raise
        return self._result(reports)

    def _run(
        self,
        stream: Stream,
        plan: Any,
        reports: NDArray[np.float64] | None = None,
        advance: Callable[[int], None] | None = None,
    ) -> NDArray[np.float64]:
        """Absorb a stream chunk by chunk, the one loop that does; return the reports."""
        n = len(stream)
        if reports is None:
            reports = np.empty((n, self._n_fields))
        for start in range(0, n, self._chunk):
            part = slice(start, min(start + self._chunk, n))
            self._absorb(stream, plan, part, reports[part])
            if advance is not None:
                advance(part.stop - part.start)
        self._settle(n)
        return reports

    def score(
        self,
        symbols: ArrayLike,
        lengths: ArrayLike | None = None,
        keys: Sequence[Label | None] | ArrayLike | None = None,
    ) -> NDArray[np.float64]:
        """Return the log predictives of a continuation; the predictor is left unchanged.

        Parameters
        ----------
        symbols, lengths, keys
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
        return self.copy().run(symbols, lengths, keys).log_predictive

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
            _check_size(vocabulary, self.n_symbols, self.is_open)
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
        values = {**state.values, "vocabulary": vocabulary}
        if not (self._table.is_plain and self.max_keys is None):  # others are as in version 0.1
            values["keys"] = self._table.to_values()
        return replace(state, values=values)

    @classmethod
    def _from_checkpoint(cls, state: checkpoint.State, given: dict[str, Any]) -> Self:
        values = dict(state.values)
        vocabulary, keys = values.pop("vocabulary"), values.pop("keys", None)
        predictor = cls._from_state(replace(state, values=values), given)
        if vocabulary is not None:
            predictor.vocabulary = Vocabulary._from_values(vocabulary)
        if keys is not None:
            predictor._key_table = KeyTable.from_values(keys)
        else:
            predictor._table.use(None)
        return predictor


def _check_size(vocabulary: Vocabulary, n_symbols: int, is_open: bool) -> None:
    """Check that a vocabulary goes with an alphabet of so many symbols, open or not."""
    n = vocabulary.n_symbols
    if is_open:
        if not vocabulary.is_open or n != n_symbols:
            raise ValueError(
                f"vocabulary={vocabulary!r} of {n} symbols: expected one that is open "
                f"(Vocabulary.open) and has the {n_symbols} symbols that the predictor has seen"
            )
    elif (
        vocabulary.capacity is None
        or vocabulary.capacity > n_symbols
        or (not vocabulary.is_open and n < n_symbols)
    ):
        raise ValueError(
            f"vocabulary={vocabulary!r} of {n} symbols: expected {n_symbols}, as the predictor "
            "has; what it has learnt depends on the size of its alphabet, so it cannot be carried "
            "over to another one: make a new predictor, or one whose alphabet is open"
        )


@cache
def _has_key(update: Callable[..., Any]) -> bool:
    return "key" in signature(update).parameters


def _after(table: KeyTable, stream: Stream, n: int) -> KeyTable:
    """Return what becomes of a table when the first n symbols of a stream are absorbed."""
    table.assign([None] * n if stream.keys is None else stream.keys[:n])
    return table
