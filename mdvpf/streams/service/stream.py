"""`Stream`: one running stream of the service: its state, waiting records and watchers.

Batches are pushed by the thread that writes the log, and absorbed by one of the engine's workers,
one at a time. `look` locks the state, so that other threads can read it.
"""

from __future__ import annotations

import json
import threading
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from mdvpf.checkpoint import Generations
from mdvpf.streams.report import Report
from mdvpf.streams.service.config import StreamConfig
from mdvpf.streams.service.event_log import Record
from mdvpf.streams.service.ingest import Batch, Ingest
from mdvpf.streams.service.state import KEPT_INCIDENTS, StreamState

RECENT = 600  # reports that are kept for new watchers
PART = 200  # events absorbed under one lock; then others may look at the state
SURPRISE_BUCKETS = (0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0)
LARGEST_SURPRISE = 1e3  # nats that count in the sum

Listener = Callable[[list[Report]], None]


class Stream:
    """One stream of the service.

    Parameters
    ----------
    config : StreamConfig
    state : StreamState
        As it was loaded or made.
    generations : Generations
        Where its checkpoints go.
    max_lag : int
        Largest number of events that may wait.

    Attributes
    ----------
    ingest : Ingest
    recent : deque of Report
        The last reports.
    n_symbols, n_alarms, n_incidents : int
        Since the process began.
    surprise_sum : float
        In nats.
    surprise_counts : list of int
        Symbols whose surprise is in each of the `SURPRISE_BUCKETS`, and beyond.
    absorb_seconds : float
        Processor time of the symbols.
    answers : dict of int to (bool, Future)
        The last feedback by incident number, with a future that is set once it is logged.
    kept : tuple of int
        The last record in the previous checkpoint, and in the latest one.
    """

    def __init__(
        self, config: StreamConfig, state: StreamState, generations: Generations, max_lag: int
    ) -> None:
        self.config = config
        self.name = config.name
        self.generations = generations
        self.ingest = Ingest(state, max_lag)
        self.recent: deque[Report] = deque(maxlen=RECENT)
        self.n_symbols = self.n_alarms = self.n_incidents = 0
        self.surprise_sum = 0.0
        self.surprise_counts = [0] * (len(SURPRISE_BUCKETS) + 1)
        self.absorb_seconds = 0.0
        self.kept = (0, state.applied)
        self.kept_at = time.monotonic()
        self.events_at_save = state.monitor.n_lines
        self._state = state
        self._waiting: deque[tuple[Record, Batch | None]] = deque()
        self._state_lock = threading.Lock()
        self._record_lock = threading.Lock()  # held while a record is absorbed
        self._is_half_done = False  # a record failed midway; the state matches no record
        self._listeners: list[Listener] = []
        self.answers: dict[int, tuple[bool, Future[None]]] = {}
        self._last_incident = max(state.incidents, default=-1)

    # -- records ---------------------------------------------------------------------------

    def push(self, record: Record, batch: Batch | None) -> None:
        """Queue a record that is in the log."""
        self._waiting.append((record, batch))

    @property
    def is_idle(self) -> bool:
        """Whether no record waits."""
        return not self._waiting

    def absorb_next(self) -> None:
        """Absorb the record that waits longest, if there is one."""
        with self._record_lock:
            if not self._waiting:
                return
            record, batch = self._waiting[0]
            self._is_half_done = True
            self.absorb(record, batch)
            self._is_half_done = False
            self._waiting.popleft()
        if batch is not None:
            batch.absorbed.set_result(None)

    def note_answer(self, number: int, strange: bool, done: Future[None]) -> None:
        """Remember feedback at once, and forget it if it cannot be logged."""

        def forget(future: Future[None]) -> None:
            if future.exception() is not None:
                self.answers.pop(number, None)

        self.answers[number] = strange, done
        if len(self.answers) > KEPT_INCIDENTS:
            del self.answers[next(iter(self.answers))]
        done.add_done_callback(forget)

    def fail_waiting(self, error: Exception) -> None:
        """Set an error on all waiting batches, which this process will not absorb."""
        for _, batch in self._waiting:
            if batch is not None and not batch.absorbed.done():
                batch.absorbed.set_exception(error)

    def absorb(self, record: Record, batch: Batch | None = None) -> None:
        """Apply a record of the log to the state, unless it was applied already."""
        if record.number <= self._state.applied:
            return
        if record.kind == "feedback":
            number, strange = json.loads(record.content)
            with self._state_lock:
                self._state.feedback(number, strange)
        elif batch is None:
            self._replay(record)
        else:
            self._absorb_batch(batch)
        self._state.applied = record.number

    def _replay(self, record: Record) -> None:
        state = self._state
        pairs = [state.parse(line) for line in record.content.split(b"\n")]
        for _, digest in pairs:
            if digest is not None:
                state.ids.add(digest)
        for first in range(0, len(pairs), PART):
            state.apply([event for event, _ in pairs[first : first + PART]])

    def _absorb_batch(self, batch: Batch) -> None:
        for first in range(0, len(batch), PART):
            events = batch.events[first : first + PART]
            start = time.thread_time()
            with self._state_lock:
                reports = self.ingest.apply(events, batch.digests[first : first + PART])
            self.absorb_seconds += time.thread_time() - start
            self.ingest.absorbed(len(events))
            self._count(reports)
            if batch.wants_reports:
                batch.reports += reports
            for listener in tuple(self._listeners):
                listener(reports)

    def _count(self, reports: list[Report]) -> None:
        self.n_symbols += len(reports)
        self.recent.extend(reports)
        counts, total = self.surprise_counts, 0.0
        for report in reports:
            surprise = report.surprise
            counts[bisect_left(SURPRISE_BUCKETS, surprise)] += 1
            total += min(surprise, LARGEST_SURPRISE)
            if report.alarm:
                self.n_alarms += 1
                if report.incident is None or report.incident > self._last_incident:
                    self.n_incidents += 1
                    if report.incident is not None:
                        self._last_incident = report.incident
        self.surprise_sum += total

    # -- looking ---------------------------------------------------------------------------

    @contextmanager
    def look(self) -> Iterator[StreamState]:
        """Yield the state and hold its lock."""
        with self._state_lock:
            yield self._state

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call a function with new reports; return a function that ends this."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    # -- checkpoints -----------------------------------------------------------------------

    def is_due(self, events: int, seconds: float) -> bool:
        """Tell whether it is time for a checkpoint."""
        state = self._state
        # Each state is saved twice, into both kept checkpoints, so that the log can be pruned.
        if state.applied == self.kept[0] == self.kept[1]:
            return False
        n_new = state.monitor.n_lines - self.events_at_save
        return n_new >= events or time.monotonic() - self.kept_at >= seconds

    def save(self) -> None:
        """Write a checkpoint of the state after the last whole record, unless one failed."""
        with self._record_lock, self._state_lock:
            if self._is_half_done:
                return
            twin = self._state.copy()
        self.generations.save(twin)
        self.kept = (self.kept[1], twin.applied)
        self.kept_at = time.monotonic()
        self.events_at_save = twin.monitor.n_lines

    def put_off(self) -> None:
        """Delay the next checkpoint as if one had been written now."""
        self.kept_at = time.monotonic()
        self.events_at_save = self._state.monitor.n_lines


def open_stream(
    config: StreamConfig, path: Any, max_lag: int, warn: Callable[[str], None]
) -> Stream:
    """Return a stream from its checkpoint, or a new one that is saved at once; or raise.

    An option that differs from the checkpoint is an error.
    """
    generations = Generations(path)
    if not generations.exists:
        state = StreamState.new(config)
        generations.save(state)
        return Stream(config, state, generations, max_lag)
    state = generations.load((StreamState,), warn)
    if state.options != config.lasting:
        names = sorted({*state.options, *config.lasting})
        differ = [n for n in names if state.options.get(n) != config.lasting.get(n)]
        raise ValueError(
            f"streams.{config.name}: {', '.join(differ)} cannot change once the stream has begun; "
            "expected the entries that it began with, or another name"
        )
    if state.ids.size != config.remember_ids:
        state.ids = type(state.ids).of(config.remember_ids, list(state.ids))
    return Stream(config, state, generations, max_lag)
