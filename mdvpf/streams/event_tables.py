"""`read_table`: the events of a file or a data frame as arrays for `Predictor.run`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdvpf.predictor import Label, Vocabulary
from mdvpf.streams.events import Event
from mdvpf.streams.reading import read_events


@dataclass(frozen=True, slots=True, eq=False)
class EventTable:
    """Events as arrays for `Predictor.run`.

    Attributes
    ----------
    symbols : ndarray of int64
        The symbols, numbered by first appearance unless a vocabulary was given; a masked array if
        some are missing.
    vocabulary : Vocabulary
        Their labels.
    keys : list of labels or None
        The key of each symbol; None without keys.
    lengths : ndarray of int64 or None
        Without keys: lengths of the concatenated sequences; None if there is only one.
    times : ndarray of float64 or None
        Seconds since 1970; None unless every symbol has a time.

    Examples
    --------
    >>> import pandas as pd
    >>> from mdvpf.streams import read_table
    >>> frame = pd.DataFrame({"user": ["ann", "bob", "ann"], "page": ["news", "sport", "news"]})
    >>> table = read_table(frame, symbol="page", key="user")
    >>> table.symbols.tolist(), table.keys, table.vocabulary.labels
    ([0, 1, 0], ['ann', 'bob', 'ann'], ('news', 'sport'))
    """

    symbols: NDArray[np.int64]
    vocabulary: Vocabulary
    keys: list[Label] | None
    lengths: NDArray[np.int64] | None
    times: NDArray[np.float64] | None

    @property
    def n_symbols(self) -> int:
        """Size of the alphabet."""
        return self.vocabulary.n_symbols


def read_table(
    source: Any,
    *,
    symbol: str | None = None,
    key: Any = None,
    time: str | None = None,
    vocabulary: Vocabulary | None = None,
    **options: Any,
) -> EventTable:
    r"""Return the events of a file or a data frame as arrays.

    Parameters
    ----------
    source : str, Path or data frame
        As for `read_events`.
    symbol, key, time
        The fields; as for `read_events`.
    vocabulary : Vocabulary, optional
        Labels that are already known, such as those of another file. By default the labels of the
        events, in order of first appearance.
    **options
        All other options of `read_events`.

    Notes
    -----
    End markers may split the symbols of a key into several sequences. The first sequence keeps the
    key; the n-th one, from n = 2, has the key ``(key, n)``.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import mdvpf
    >>> from mdvpf.streams import read_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "clicks.txt")
    ...     _ = path.write_text("news\nsport\n\nnews\n")
    ...     table = read_table(path)
    >>> predictor = mdvpf.Markov(table.n_symbols, order=1)
    >>> predictor.vocabulary = table.vocabulary
    >>> len(predictor.run(table.symbols, table.lengths).log_predictive)
    3
    """
    if vocabulary is not None and not isinstance(vocabulary, Vocabulary):
        raise TypeError(f"vocabulary={vocabulary!r}: expected a Vocabulary")
    events = read_events(source, symbol=symbol, key=key, time=time, **options)
    found = Collected.from_events(events)
    if vocabulary is None:
        if all(label is None for label in found.labels):
            where = f"{source}: " if isinstance(source, (str, os.PathLike)) else "source: "
            raise ValueError(f"{where}no symbols; expected at least one")
        vocabulary = Vocabulary.from_data(found.labels)
    return EventTable(
        vocabulary.encode(found.labels), vocabulary, found.keys, found.lengths, found.times
    )


@dataclass(frozen=True, slots=True, eq=False)
class Collected:
    """All events of a source as lists: the content of an `EventTable` before encoding."""

    labels: list[Label | None]
    keys: list[Label] | None
    lengths: NDArray[np.int64] | None
    times: NDArray[np.float64] | None
    fields: dict[str, list[Any]]

    @classmethod
    def from_events(cls, events: Iterable[Event]) -> Collected:
        """Return the events as lists; sequences become lengths, or keys if there are any."""
        labels: list[Label | None] = []
        keys: list[Any] = []
        times: list[float | None] = []
        fields: dict[str, list[Any]] = {}
        stops: list[int] = []  # ends of sequences without a key
        numbers: dict[Label, int] = {}  # ended sequences of each key
        for event in events:
            if not event.no_symbol:
                n_ended = 0 if event.key is None else numbers.get(event.key, 0)
                keys.append(event.key if n_ended == 0 else (event.key, n_ended + 1))
                labels.append(event.symbol)
                times.append(event.time)
                for name, value in event.fields.items():
                    fields.setdefault(name, []).append(value)
            if event.ends and event.key is not None:
                numbers[event.key] = numbers.get(event.key, 0) + 1
            elif event.ends and labels and stops[-1:] != [len(labels)]:
                stops.append(len(labels))
        known = [key for key in keys if key is not None]
        known_times = [time for time in times if time is not None]
        if stops[-1:] != [len(labels)]:
            stops.append(len(labels))
        lengths = np.diff([0, *stops]).astype(np.int64)
        return cls(
            labels,
            known if known and len(known) == len(labels) else None,
            lengths if len(stops) > 1 else None,
            np.array(known_times) if known_times and len(known_times) == len(labels) else None,
            fields,
        )
