"""A background: a predictor of the whole population, with which a detector compares its own.

With a background, a block is strange if the background explains it better than the detector's own
predictor does. Its level is the mean of ``log p_background(y) - log p(y)`` instead of the surprise.
A rare symbol that the whole population uses occasionally therefore raises no alarm.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mdvpf import checkpoint
from mdvpf._support import validate
from mdvpf._support.attributes import ReadOnly
from mdvpf.detect.learning import end_sequence
from mdvpf.detect.threshold import LARGEST
from mdvpf.model import channels_of, split_observations
from mdvpf.model.observations import observation_of, row_of
from mdvpf.predictor import MISSING, Label, Predictor, read_step

MAX_KEYS = 10_000


@checkpoint.register("Background")
class Background(checkpoint.Saveable):
    """A predictor of the whole population, shared by any number of detectors.

    Parameters
    ----------
    predictor : Predictor
        A predictor that has learnt from the population, or will do so with `learn`. Its alphabet
        must be closed.
    learn : bool, default False
        Whether the background learns from the symbols of the detectors that share it. If so, it
        uses `predictor` itself and ends its sequences. Otherwise it uses a frozen copy, and
        `predictor` does not change.
    max_keys : int, default 10,000
        Largest number of sequences with a position in the background. Beyond it, the least recently
        used sequence is ended. If the predictor has a `max_keys` of its own, that one applies.

    Examples
    --------
    >>> import mdvpf
    >>> everybody = mdvpf.Markov(n_symbols=3, order=0)
    >>> _ = everybody.run([0, 1, 2, 2, 2, 2])
    >>> shared = mdvpf.Background(everybody)
    >>> detectors = [
    ...     mdvpf.SurpriseDetector(mdvpf.Markov(3, order=0), block=10, background=shared)
    ...     for _ in range(2)
    ... ]
    >>> detectors[0].background is detectors[1].background
    True
    """

    predictor: ReadOnly[Predictor] = ReadOnly()
    learn: ReadOnly[bool] = ReadOnly()

    def __init__(
        self, predictor: Predictor, *, learn: bool = False, max_keys: int = MAX_KEYS
    ) -> None:
        if not isinstance(predictor, Predictor):
            raise TypeError(f"predictor={predictor!r}: expected a Predictor")
        if predictor.is_open or predictor._n_seen:
            raise ValueError(
                f"predictor={predictor!r}: expected a closed alphabet, as each stream numbers the "
                "symbols of an open one differently"
            )
        self.learn = validate.flag("learn", learn)
        self.predictor = predictor if self.learn else predictor.freeze()
        most = validate.integer("max_keys", max_keys, low=1)
        # Detectors start new sequences; none continues one of the training data.
        for key in self.predictor._table.labels():
            end_sequence(self.predictor, key)
        if self.predictor._takes_keys and self.predictor.max_keys is None:
            self.predictor.max_keys = most
        self._n_readers = 0

    def __repr__(self) -> str:
        return f"Background({self.predictor!r}, learn={self.learn})"

    @property
    def n_symbols(self) -> int:
        """Size of the alphabet."""
        return self.predictor.n_symbols

    @property
    def n_readers(self) -> int:
        """Number of detectors that have joined."""
        return self._n_readers

    def join(self) -> int:
        """Add a reader, and return its number. Each reader has its own positions.

        Examples
        --------
        >>> import mdvpf
        >>> background = mdvpf.Background(mdvpf.Markov(2, order=1))
        >>> background.join(), background.join()
        (0, 1)
        """
        self._n_readers += 1
        return self._n_readers - 1

    def log_predictive(
        self,
        symbols: NDArray[np.int32],
        keys: list[Label | None] | None,
        reader: int = 0,
        rows: NDArray[np.float64] | None = None,
        times: NDArray[np.float64] | None = None,
    ) -> NDArray[np.float64]:
        """Return the log predictives of the next symbols of a reader, and absorb them.

        Parameters
        ----------
        symbols : ndarray of int32
            The symbols; -1 is a missing one.
        keys : list of labels or None
            Their keys.
        reader : int, default 0
            The reader, as numbered by `join`.
        rows : ndarray of float64, optional
            Over numbers: the observations, one row each.
        times : ndarray of float64, optional
            The time of each symbol in seconds since 1970; NaN if it is unknown.

        Examples
        --------
        >>> import mdvpf
        >>> import numpy as np
        >>> background = mdvpf.Background(mdvpf.Markov(2, order=0))
        >>> background.log_predictive(np.array([0, 1], dtype=np.int32), None).round(3).tolist()
        [-0.693, -0.693]
        """
        named = None if keys is None else [_own_key(reader, key) for key in keys]
        if named is None and reader > 0:
            named = [_own_key(reader, None)] * len(symbols)
        family = self.predictor._family
        if len(symbols) == 1:  # much faster than `run` for a live stream
            symbol: Any = None if symbols[0] == MISSING else int(symbols[0])
            if family is not None and rows is not None:
                symbol = observation_of(family, row_of(rows[0]))
            if times is not None and not np.isnan(times[0]):
                self.predictor.tell_time(float(times[0]))
            key = {} if named is None or named[0] is None else {"key": named[0]}
            step = read_step(self.predictor, self.predictor.update(symbol, **key))
            return np.array([step.log_predictive])
        observed: Any = np.ma.masked_array(symbols, symbols == MISSING)
        if family is not None and rows is not None:
            observed = split_observations(family, rows)
        return self.predictor.run(observed, keys=named, times=times).log_predictive

    def _fits(self, predictor: Predictor) -> bool:
        """Return whether this background has the observations of a predictor."""
        return bool(_kinds(self.predictor) == _kinds(predictor))

    def new_sequence(self, key: Label | None, reader: int = 0) -> None:
        """End the sequence of a key of a reader, if the key is in use.

        Examples
        --------
        >>> import mdvpf
        >>> mdvpf.Background(mdvpf.Markov(2, order=0)).new_sequence("a")
        """
        own = _own_key(reader, key)
        if own is None or own in self.predictor._table:
            end_sequence(self.predictor, own)

    def copy(self) -> Self:
        """Return an independent copy.

        Examples
        --------
        >>> import mdvpf
        >>> mdvpf.Background(mdvpf.Markov(2, order=0)).copy().n_symbols
        2
        """
        return self._of(self.predictor.copy(), self.learn, self._n_readers)

    def __copy__(self) -> Self:
        return self.copy()

    @classmethod
    def _of(cls, predictor: Predictor, learn: bool, n_readers: int) -> Self:
        """Return a background around a predictor that is already frozen, unless `learn`."""
        self = object.__new__(cls)
        self.predictor, self.learn, self._n_readers = predictor, learn, n_readers
        return self

    def _to_checkpoint(self) -> checkpoint.State:
        values = {"learn": self.learn, "n_readers": self._n_readers}
        return checkpoint.State(values, parts={"predictor": self.predictor}, version=2)

    @classmethod
    def _from_checkpoint(cls, state: checkpoint.State, given: dict[str, Any]) -> Self:
        predictor = state.parts["predictor"]
        if not isinstance(predictor, Predictor) or predictor.is_open or predictor._n_seen:
            raise checkpoint.CheckpointError(
                "file: a background without a predictor of a closed alphabet"
            )
        return cls._of(
            predictor,
            validate.flag("learn", state.values["learn"]),
            validate.integer("n_readers", state.values["n_readers"], low=0, high=2**61),
        )

    def _left_out(self) -> dict[str, Any]:
        return self.predictor._left_out()


class BackgroundReader:
    """A detector's own position in a background.

    Attributes
    ----------
    background : Background
    number : int
        Number of this reader in the background.
    """

    def __init__(self, background: Background, number: int | None = None) -> None:
        self.background = background
        self.number = background.join() if number is None else number

    @classmethod
    def of(cls, background: Background | Predictor | Self, predictor: Predictor) -> Self:
        """Return a reader of the `background` argument of a detector, or raise."""
        if isinstance(background, cls):
            return background
        if isinstance(background, Predictor):
            background = Background(background)
        if not isinstance(background, Background):
            raise TypeError(f"background={background!r}: expected a Background or a Predictor")
        if predictor.is_open or predictor._n_seen:
            raise ValueError(
                f"background={background!r}: expected None, as the predictor has an open alphabet, "
                "whose symbols each stream numbers differently"
            )
        if not background._fits(predictor):
            family = predictor._family
            wanted = (
                f"an alphabet of {predictor.n_symbols} symbols"
                if family is None
                else f"the kinds of numbers of {family!r}"
            )
            raise ValueError(f"background={background!r}: expected {wanted}, as the predictor has")
        return cls(background)

    def ratios(
        self,
        symbols: NDArray[np.int32],
        keys: list[Label | None] | None,
        log_predictive: NDArray[np.float64],
        rows: NDArray[np.float64] | None = None,
        times: NDArray[np.float64] | None = None,
    ) -> NDArray[np.float64]:
        """Return log p_background - log p of the next symbols; 0 where both probabilities are 0."""
        found = self.background.log_predictive(symbols, keys, self.number, rows, times)
        with np.errstate(invalid="ignore"):
            found = np.nan_to_num(found - log_predictive, nan=0.0)
        clipped: NDArray[np.float64] = np.clip(found, -LARGEST, LARGEST)
        return clipped

    def end(self, key: Label | None) -> None:
        """End the sequence of a key."""
        self.background.new_sequence(key, self.number)


def _kinds(predictor: Predictor) -> Any:
    """Return what distinguishes the observations of predictors."""
    family = predictor._family
    if family is None:
        return predictor.n_symbols
    return [(channel.kind, channel.n_symbols) for channel in channels_of(family)]


def _own_key(reader: int, key: Label | None) -> Label | None:
    """Return the key in the background for a reader's key; reader 0 keeps its keys unchanged."""
    return key if reader == 0 else (reader, "" if key is None else repr(key))
