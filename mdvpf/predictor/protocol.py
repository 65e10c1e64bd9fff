"""The protocol of a next-symbol predictor, and the one loop that runs them all.

Everything that predicts the next symbol of a stream, filters included, has `n_symbols`,
`predict_proba`, `update`, `new_sequence`, `run`, `score` and `copy`, so experiments, detectors and
mixtures accept any of them. A predictor implements the first four and `copy`. This module adds the
run loop, the validation of input and `score`. Predictors that implement `_to_state` and
`_from_state` can be saved, with vocabulary and keys (see `labelled.py`).
"""

from __future__ import annotations

import reprlib
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mdvpf._support import validate
from mdvpf._support.progress import progress_bar
from mdvpf.model import NumberFamily, Time, read_observation, read_time
from mdvpf.predictor.keys import NO_KEY, NONE_ENDS, KeyTable, read_key, read_max_keys
from mdvpf.predictor.labelled import Labelled
from mdvpf.predictor.own_keys import has_key, keep_table
from mdvpf.predictor.results import N_FIELDS, FilterResult, Step, read_reports
from mdvpf.predictor.stream import MISSING, Stream, read_symbol
from mdvpf.predictor.vocabulary import Label, Vocabulary


def read_step(predictor: Predictor, step: Any) -> Step:
    """Return the result of a predictor's `update` as a `Step`, or raise."""
    if isinstance(step, Step):
        return step
    if isinstance(step, tuple) and len(step) == len(Step._fields):
        return Step._make(step)
    raise TypeError(
        f"{type(predictor).__name__}.update returned {reprlib.repr(step)}: expected a Step, as in "
        "Step(log_predictive, mean_states=1.0, ess=1.0, n_particles=1, discarded=0.0)"
    )


class Predictor(Labelled):
    """Base class of everything that predicts the next symbol of a stream.

    To write your own predictor, implement `n_symbols`, `predict_proba`, `update`, `new_sequence`
    and `copy`. Without keys the methods need no argument `key`. With keys, the predictor stores a
    position for each key, and this class maintains `n_keys` and `max_keys`. `check_predictor`
    tests whether a predictor follows the protocol.

    Examples
    --------
    >>> import mdvpf
    >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(n_symbols=3), n_particles=10)
    >>> isinstance(pf, mdvpf.Predictor)
    True
    """

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
        """Return a predictor with the present parameters that no longer learns."""
        raise TypeError(f"{type(self).__name__} cannot be frozen")

    def _description(self) -> str:
        """Return a full description of the predictor; `repr` may leave something out."""
        return repr(self)

    def tell_time(self, time: Time) -> None:
        """Set the time of the next symbol.

        The counts of a model whose half-life is a time span fade up to this time; other models
        ignore it. Time never runs backwards: an earlier time counts as the latest one told.

        Parameters
        ----------
        time : float, datetime or datetime64
            Seconds since 1970, or a date; a datetime must have a time zone.

        Examples
        --------
        >>> from datetime import timedelta
        >>> import mdvpf
        >>> model = mdvpf.InfiniteHMM(n_symbols=2, half_life=timedelta(hours=1))
        >>> pf = mdvpf.ParticleFilter(model, n_particles=10)
        >>> pf.tell_time(0.0)
        >>> _ = pf.run([1] * 20)
        >>> before = pf.predict_proba()[1]
        >>> pf.tell_time(5 * 3600.0)
        >>> bool(pf.predict_proba()[1] < before)
        True
        """
        self._tell_time(read_time("time", time))

    def _tell_time(self, time: float) -> None:
        """Fade counts up to a time, in a model that fades by time."""

    # -- keys ------------------------------------------------------------------------------

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
        """Largest number of keys in use; a further key ends the one used longest ago.

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
        return has_key(type(self).update)

    @property
    def _is_own(self) -> bool:
        """Whether a user defined the class: it is called by `update`, with labels as keys."""
        return type(self)._step is Predictor._step

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls._step is Predictor._step:
            keep_table(cls)

    def _numbered(self, stream: Stream, table: KeyTable) -> Stream:
        """Return a stream as `_run` takes it, and record the use of its keys in the table."""
        return stream if self._is_own else stream.numbered(table)

    def _check_keys(self) -> None:
        if not self._takes_keys:
            raise TypeError(
                f"keys: {type(self).__name__} takes none; expected a predictor whose update, "
                "predict_proba and new_sequence have an argument key"
            )

    def _update(self, symbol: int, key: Label | None) -> Sequence[float]:
        """Absorb a validated symbol by the number of its key: `update` of built-in predictors."""
        table = self._table
        if key is None and table.is_plain:
            fields = self._step(symbol)
            table.use(None)
            return fields
        self._check_keys()
        key = read_key("key", key)
        surplus = table.surplus(key)
        if surplus is None:
            fields = self._step(symbol, table.next_number(key))
            table.use(key)
            return fields
        fields = self._make_room(Stream.one(symbol, *table.next_use(key)))
        table.use(key)
        table.end(surplus.key)
        return fields

    def _make_room(self, one: Stream) -> Sequence[float]:
        """Absorb a validated symbol of a new key, for which another key ends."""
        log_predictive, _, *others = self._run(one, self._plan(one))[0, :N_FIELDS].tolist()
        return log_predictive, *others

    def _new_sequence(self, key: Label | None) -> None:
        """End the sequence of a key: `new_sequence` of built-in predictors."""
        key = read_key("key", key)
        if key is not None:
            self._check_keys()
        self._end(self._table.next_number(key))
        self._table.end(key)

    def _twin(self) -> Self:
        """Return an object with the same attributes, but its own table of keys and vocabulary."""
        twin = object.__new__(type(self))
        vars(twin).update(vars(self))
        twin._key_table = self._table.copy()
        if self._vocabulary is not None:
            twin._vocabulary = self._vocabulary.copy()
        return twin

    def _number(self, key: Label | None) -> int:
        """Return the number of a key; an unused number if its sequence has not begun."""
        if key is None:
            return NO_KEY
        self._check_keys()
        return self._table.next_number(read_key("key", key))

    # Built-in predictors implement these methods, with numbers for keys. Mixtures call them.

    def _step(self, symbol: int, number: int = NO_KEY) -> Sequence[float]:
        """Absorb a validated symbol, or `MISSING`; return the fields of `Step`."""
        return self._own_step(symbol, None if number == NO_KEY else number)

    def _own_step(self, symbol: int, key: Label | None) -> Step:
        """Absorb a validated symbol by the `update` of a user's predictor."""
        found = None if symbol == MISSING else symbol
        step = self.update(found) if key is None else self.update(found, key=key)
        return read_step(self, step)

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
        """Validate and precompute values for a run over the stream; change nothing."""
        return None

    def _absorb(self, stream: Stream, plan: Any, part: slice, reports: NDArray[np.float64]) -> None:
        """Absorb a part of the stream, writing one row of `reports` a symbol."""
        symbols, ended = stream.symbols[part].tolist(), stream.ended[part].tolist()
        step: Callable[[int, Any], Sequence[float]] = self._step
        keys: list[Any] = [NO_KEY] * len(symbols)
        if stream.numbers is not None:
            keys = stream.numbers[part].tolist()
        elif stream.keys is not None:  # a user's predictor, see `_numbered`
            step, keys = self._own_step, stream.keys[part]
        for report, symbol, key, end in zip(reports, symbols, keys, ended, strict=True):
            if end == key:
                self._end(end)
            log_predictive, *others = step(symbol, key)
            if end not in (NONE_ENDS, key):
                self._end(end)
            report[1:] = log_predictive, *others
            report[0] = log_predictive

    # A geometric mixture uses whole distributions; some predictors have more than one.

    @property
    def _n_distributions(self) -> int:
        """Number of distributions of the next symbol that the predictor offers to a mixture."""
        return 1

    def _predict_distributions(self, number: int = NO_KEY) -> NDArray[np.float64]:
        """Return the distributions of the next symbol of a key, one a row."""
        return self._predict(number)[np.newaxis]

    def _absorb_distributions(
        self, stream: Stream, plan: Any, reports: NDArray[np.float64], out: NDArray[np.float64]
    ) -> None:
        """Absorb a stream, and write the distributions before each symbol.

        The axes of `out` are distribution, step and symbol. Entries beyond the present size of an
        open alphabet are not written. Predictors with a compiled core do this in one call. If they
        have several distributions and `out` has room for one, they write that of `predict_proba`.
        """
        for t in range(len(stream)):
            one = stream[t : t + 1]
            number = NO_KEY if one.numbers is None else int(one.numbers[0])
            if one.ended[0] == number:
                self._end(number)
            if one.times is not None and not np.isnan(one.times[0]):
                self._tell_time(float(one.times[0]))
            found = self._predict_distributions(number)
            out[:, t, : found.shape[1]] = found
            ended = np.where(one.ended == number, NONE_ENDS, one.ended)
            rest = Stream(one.symbols, ended.astype(np.int32), one.numbers)
            reports[t] = self._run(rest, self._plan(rest))[0, :N_FIELDS]

    def _settle(self, n: int) -> None:
        """Free the work space of steps, if that pays after a run of n symbols."""

    @property
    def _may_reject(self) -> bool:
        """Whether `_plan` may raise for a valid symbol."""
        return True

    @property
    def _chunk(self) -> int:
        """Number of symbols between two updates of the progress bar."""
        return 1

    @property
    def _n_fields(self) -> int:
        """Number of columns that `_absorb` writes: those of `read_reports`, and possibly more."""
        return N_FIELDS

    def _result(self, reports: NDArray[np.float64]) -> FilterResult:
        """Return the result of `run`, given the reports of all symbols."""
        return FilterResult(**read_reports(reports))

    def run(
        self,
        symbols: ArrayLike,
        lengths: ArrayLike | None = None,
        keys: Sequence[Label | None] | ArrayLike | None = None,
        progress: bool = False,
        *,
        times: Sequence[Time | None] | ArrayLike | None = None,
    ) -> FilterResult:
        """Absorb many symbols.

        All input is validated first. An interrupt (Ctrl-C) leaves the predictor in the state after
        some symbol.

        Parameters
        ----------
        symbols : array_like of int
            The symbols. Missing ones are None in a sequence, masked in a masked array, or null in
            an array of pandas (type Int64), polars or Arrow. Floats, including NaN, are errors. If
            the predictor has a `vocabulary`, text, bytes and tuples are labels. An integer is
            always a symbol; `Vocabulary.encode` translates integer labels.
        lengths : array_like of int, optional
            Lengths of the sequences that `symbols` concatenates. Each of them starts a new
            sequence, the first included. Without lengths the present sequence continues.
        keys : sequence of labels, optional
            The key of each symbol, for interleaved sequences. Each key continues from its own
            position. Not allowed together with `lengths`.
        progress : bool, default False
            Show a progress bar, if the output is a terminal.
        times : sequence of float, datetime or datetime64, optional
            The time of each symbol, as `tell_time` takes it; None if it is unknown.

        Returns
        -------
        FilterResult
            The fields of `Step` as arrays, and the log evidence of this run. A `Mixture` returns a
            `MixtureResult`, which also has the weights.

        Examples
        --------
        >>> import mdvpf
        >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(n_symbols=2), n_particles=10)
        >>> result = pf.run([0, 1, None, 0, 1], lengths=[3, 2])
        >>> float(result.log_predictive[2])
        0.0
        """
        trial = None if self.vocabulary is None else self.vocabulary.copy()
        stream = self._read(symbols, lengths, keys, times, trial)
        show = validate.flag("progress", progress)
        if keys is not None:
            self._check_keys()
        try:
            with progress_bar(show, len(stream), type(self).__name__) as advance:
                return self._result(self._run_keyed(stream, advance))
        finally:
            if trial is not None:
                self._learn_labels(trial)

    @property
    def _family(self) -> NumberFamily | None:
        """The emission family if observations are numbers; None if they are symbols."""
        return None

    def _check_symbols(self, what: str) -> None:
        """Raise if observations are numbers; `what` names the method that needs symbols."""
        if self._family is not None:
            raise TypeError(
                f"{what}: {type(self._family).__name__} observations are numbers, not symbols; "
                "expected predictive(), which returns their distribution"
            )

    def _code(self, symbol: Any) -> int:
        """Validate a symbol and return it, or `MISSING`; for numbers, 0 if any was observed."""
        if self._family is not None:
            row = read_observation(self._family, symbol, self._n_seen)
            return MISSING if np.isnan(row).all() else 0
        return read_symbol(symbol, self.n_symbols + self.is_open)

    def _read(
        self, symbols: Any, lengths: Any, keys: Any, times: Any, vocabulary: Vocabulary | None
    ) -> Stream:
        """Validate the arguments of `run`."""
        if self._family is not None:
            return Stream.of_numbers(self._family, symbols, lengths, keys, times, self._n_seen)
        return Stream.read(
            symbols,
            lengths,
            self.n_symbols,
            keys,
            is_open=self.is_open,
            times=times,
            vocabulary=vocabulary,
        )

    def _run_keyed(
        self,
        stream: Stream,
        advance: Callable[[int], None] | None = None,
        out: NDArray[np.float64] | None = None,
    ) -> NDArray[np.float64]:
        """Absorb a validated stream and update the table of keys; return the reports.

        `out`, if given, receives the distributions, as in `_absorb_distributions`.
        """
        before = self._table.copy()
        try:
            stream = self._numbered(stream, self._table)
            plan = self._plan(stream)
        except BaseException:
            self._key_table = before
            raise
        n_fields = self._n_fields if out is None else N_FIELDS
        reports = np.full((len(stream), n_fields), np.nan)
        try:
            if out is None:
                self._run(stream, plan, reports, advance)
            else:
                self._absorb_distributions(stream, plan, reports, out)
        except BaseException:
            if not self._is_own:
                n_absorbed = int(np.count_nonzero(~np.isnan(reports[:, 0])))
                self._key_table = _after(before, stream, n_absorbed)
            raise
        return reports

    def _run(
        self,
        stream: Stream,
        plan: Any,
        reports: NDArray[np.float64] | None = None,
        advance: Callable[[int], None] | None = None,
    ) -> NDArray[np.float64]:
        """Absorb a stream chunk by chunk; return the reports. Every run uses this loop."""
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
        *,
        times: Sequence[Time | None] | ArrayLike | None = None,
    ) -> NDArray[np.float64]:
        """Return the log predictives of a continuation; the predictor is left unchanged.

        Parameters
        ----------
        symbols, lengths, keys, times
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
        return self.copy().run(symbols, lengths, keys, times=times).log_predictive


def _after(table: KeyTable, stream: Stream, n: int) -> KeyTable:
    """Update a table by the keys of the first n symbols of a stream, and return it."""
    table.assign([None] * n if stream.keys is None else stream.keys[:n])
    return table
