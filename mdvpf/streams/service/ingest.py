"""Batches on their way in: parse lines into events, and drop events with known ids.

`Ingest.read_batch` uses only constant parts of a stream, so any thread can call it at any time.
`Ingest.admit` compares ids with those of all events accepted before, synced or not.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from mdvpf.model.clock import read_time
from mdvpf.predictor import label_text
from mdvpf.predictor.keys import read_key
from mdvpf.streams.events import Event
from mdvpf.streams.label_texts import LabelTexts
from mdvpf.streams.report import Report
from mdvpf.streams.service.state import StreamState

MOST_ERRORS = 10  # that the answer to a malformed batch names
# Reports keep the fields of an event, and streams its key and label: their size is limited.
LONGEST_LINE = 65_536  # bytes
LONGEST_LABEL = 1000  # characters of a key, or of a symbol of an open alphabet


class MalformedBatch(ValueError):
    """A batch with malformed lines; no event of it was taken.

    Attributes
    ----------
    errors : list of (int, str)
        Number (from 1) and error of the first malformed lines.
    """

    def __init__(self, errors: list[tuple[int, str]]) -> None:
        super().__init__("; ".join(f"line {line}: {error}" for line, error in errors))
        self.errors = errors


class Overloaded(Exception):
    """Too many events wait already."""


@dataclass(slots=True, eq=False)
class Batch:
    """The events of one request, until they are absorbed.

    Attributes
    ----------
    lines : list of bytes
        As they go to the log.
    events : list of Event
    digests : list of bytes or None
        Digests of their ids.
    n_repeated : int
        Events that were dropped because their ids are known.
    number : int
        Its record in the log; 0 before it has one, and for a batch of repeated events only.
    wants_reports : bool
        Whether a client waits for its reports.
    reports : list of Report
    synced, absorbed : Future
        Set when it is in the log on the disk, and when the stream has absorbed it.
    """

    lines: list[bytes]
    events: list[Event]
    digests: list[bytes | None]
    n_repeated: int = 0
    number: int = 0
    wants_reports: bool = False
    reports: list[Report] = field(default_factory=list)
    synced: Future[None] = field(default_factory=Future)
    absorbed: Future[None] = field(default_factory=Future)
    has_failed: bool = False  # it could not be logged
    relies_on: set[Batch] = field(default_factory=set)  # earlier batches with the same ids

    def __len__(self) -> int:
        return len(self.events)

    def keep(self, indices: list[int]) -> None:
        """Keep only the events with these indices."""
        self.lines = [self.lines[i] for i in indices]
        self.events = [self.events[i] for i in indices]
        self.digests = [self.digests[i] for i in indices]


class Ingest:
    """Admission of events to one stream.

    Parameters
    ----------
    state : StreamState
        The stream, for its format, its alphabet and its window of ids.
    max_lag : int
        Largest number of events that may wait.
    """

    def __init__(self, state: StreamState, max_lag: int) -> None:
        self._state = state
        self._max_lag = max_lag
        predictor = state.monitor.predictor
        vocabulary = predictor.vocabulary
        self._predictor = predictor
        self._is_open = predictor.is_open or (vocabulary is not None and vocabulary.is_open)
        self._texts = LabelTexts(predictor)
        self._lock = threading.Lock()  # of the two below, and of the window of ids
        self._in_flight: dict[bytes, Batch] = {}  # by the ids of its events
        self.lag = 0
        self.n_repeated = 0

    def read_batch(self, body: bytes, max_events: int) -> Batch:
        """Return the events of a body, one JSON object a line, or raise `MalformedBatch`."""
        batch = Batch([], [], [])
        errors: list[tuple[int, str]] = []
        for i, line in enumerate(body.split(b"\n"), 1):
            if not line.strip():
                continue
            if len(batch) == max_events:
                raise MalformedBatch([(i, f"expected at most {max_events} events in a batch")])
            try:
                if len(line) > LONGEST_LINE:
                    raise ValueError(f"expected an event of at most {LONGEST_LINE} bytes")
                event, digest = self._state.parse(line)
                self._check(event)
            except UnicodeDecodeError as error:
                errors.append((i, f"expected text in UTF-8 ({error.reason})"))
            except (TypeError, ValueError) as error:
                errors.append((i, str(error)))
            else:
                batch.lines.append(line)
                batch.events.append(event)
                batch.digests.append(digest)
            if len(errors) == MOST_ERRORS:
                break
        if errors:
            raise MalformedBatch(errors)
        return batch

    def _check(self, event: Event) -> None:
        """Raise if it is already clear that the stream would refuse an event."""
        _check_length("key", read_key("key", event.key))
        if event.time is not None:
            read_time("time", event.time)
        if event.symbol is not None:
            if self._is_open:
                _check_length("symbol", event.symbol)
            else:
                self._texts.symbol(event.symbol, self._predictor)

    def admit(self, batch: Batch, put: Any) -> None:
        """Drop events with known ids, and pass the batch on in order; or raise."""
        with self._lock:
            if self.lag and self.lag + len(batch) > self._max_lag:
                raise Overloaded(f"{self.lag} events wait; at most {self._max_lag} may")
            new: set[bytes] = set()
            kept = []
            for i, digest in enumerate(batch.digests):
                if digest is not None:
                    former = self._in_flight.get(digest)
                    if former is not None:
                        batch.relies_on.add(former)
                        continue
                    if digest in new or digest in self._state.ids:
                        continue
                    new.add(digest)
                kept.append(i)
            batch.n_repeated = len(batch) - len(kept)
            if batch.n_repeated:
                batch.keep(kept)
                self.n_repeated += batch.n_repeated
            self._in_flight |= dict.fromkeys(new, batch)
            self.lag += len(batch)
            put(batch)

    def still_holds(self, batch: Batch) -> bool:
        """Return whether all batches whose events this one repeats were logged.

        Earlier batches were written, or are written together with this one.
        """
        found = not any(former.has_failed for former in batch.relies_on)
        batch.relies_on.clear()
        return found

    def withdraw(self, batch: Batch) -> None:
        """Forget a batch that could not be logged."""
        with self._lock:
            batch.has_failed = True
            for digest in filter(None, batch.digests):
                del self._in_flight[digest]
            self.lag -= len(batch)

    def apply(self, events: Sequence[Event], digests: Sequence[bytes | None]) -> list[Report]:
        """Let the stream absorb events; move their ids from in flight to the window."""
        known = [digest for digest in digests if digest is not None]
        with self._lock:
            for digest in known:
                self._state.ids.add(digest)
                del self._in_flight[digest]
        return self._state.apply(events)

    def absorbed(self, n: int) -> None:
        """Count events that no longer wait."""
        with self._lock:
            self.lag -= n


def _check_length(name: str, label: Any) -> None:
    if type(label) is not int and label is not None:
        length = len(label) if isinstance(label, str) else len(label_text(label))
        if length > LONGEST_LABEL:
            raise ValueError(f"{name}: expected at most {LONGEST_LABEL} characters")
