"""`Engine`: the service without HTTP: streams, log, and the threads that move events along.

The path of an event: `submit` drops events with known ids and hands the batch to the *writer*. The
writer appends all waiting batches to the log, syncs once, and acknowledges them. A *worker* lets
the stream absorb the batch. The *keeper* writes checkpoints. It also removes the part of the log
that is in both kept checkpoints of every stream.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Self

from mdvpf.checkpoint import FileLock, Generations
from mdvpf.streams.service.config import ServiceConfig
from mdvpf.streams.service.event_log import EventLog, LogError, Record
from mdvpf.streams.service.ingest import Batch
from mdvpf.streams.service.state import StreamState
from mdvpf.streams.service.stream import Stream, open_stream

STOP_SECONDS = 20.0  # to absorb waiting events at a stop; the rest stays in the log
_KEEPER_SECONDS = 0.2
_MOST_AT_ONCE = 1000  # batches of one sync


class Unavailable(Exception):
    """The service takes no events now; the sender should try again."""


class Contradiction(ValueError):
    """Feedback that differs from the earlier feedback on the same incident."""


def check_answer(before: bool, strange: bool) -> None:
    """Raise `Contradiction` if two answers differ."""
    if before != strange:
        raise Contradiction(f"the incident already has the answer strange={str(before).lower()}")


class _Entry:
    """An entry for the log, with the future that is set once it is synced."""

    __slots__ = ("batch", "content", "done", "kind", "stream")

    def __init__(
        self, stream: Stream, kind: str, content: bytes, batch: Batch | None, done: Future[None]
    ) -> None:
        self.stream = stream
        self.kind = kind
        self.content = content
        self.batch = batch
        self.done = done


class Engine:
    r"""The streams of a configuration, running.

    Parameters
    ----------
    config : ServiceConfig
    warn : callable, optional
        Called with messages for the operator.

    Attributes
    ----------
    streams : dict of str to Stream
    log : EventLog
    error : str or None
        Why the engine takes no more events; None while it runs.
    on_failure : callable
        Called when `error` is set.

    Examples
    --------
    >>> import tempfile
    >>> from mdvpf.streams.service import Engine, ServiceConfig
    >>> text = '[streams.clicks]\nsymbols = 17\nmethod = "Markov 1"\nid = "id"\n'
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Engine(ServiceConfig.from_toml(text, folder=folder)) as engine:
    ...         batch = engine.send("clicks", b'{"symbol": 3, "id": "a"}\n')
    ...         again = engine.send("clicks", b'{"symbol": 3, "id": "a"}\n')
    >>> len(batch), batch.n_repeated, len(again), again.n_repeated
    (1, 0, 0, 1)
    """

    def __init__(
        self, config: ServiceConfig, warn: Callable[[str], None] = lambda message: None
    ) -> None:
        self.config = config
        self.error: str | None = None
        self.on_failure: Callable[[], None] = lambda: None
        self.warn = warn
        self.streams: dict[str, Stream] = {}
        self._to_log: queue.SimpleQueue[_Entry | None] = queue.SimpleQueue()
        self._ready: queue.SimpleQueue[Stream | None] = queue.SimpleQueue()
        self._gone: dict[str, int] = {}  # last saved record of streams no longer configured
        self._stopping = threading.Event()
        self._gate = threading.Lock()  # nothing is handed to the log once it stops
        self._threads: list[threading.Thread] = []
        self._lock: FileLock | None = None

    # -- life ------------------------------------------------------------------------------

    def start(self) -> Self:
        """Load the checkpoints, replay the log and start the threads, or raise."""
        folder = self.config.folder
        (folder / "streams").mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(folder / "service")
        if not self._lock.acquire().is_held:
            self.warn(f"{folder}: no file locks here; make sure that no other process uses it")
        try:
            for name, config in self.config.streams.items():
                path = folder / "streams" / f"{name}.mdvpf"
                self.streams[name] = open_stream(config, path, self.config.max_lag, self.warn)
            self.log = EventLog(folder / "log", self.config.segment_bytes)
            self._replay()
        except BaseException:
            self._lock.release()
            raise
        names = ["writer", "keeper", *(f"worker {i}" for i in range(self.config.threads))]
        loops = [self._write, self._keep, *[self._work] * self.config.threads]
        for name, loop in zip(names, loops, strict=True):
            thread = threading.Thread(target=self._guarded, args=(loop,), name=name, daemon=True)
            self._threads.append(thread)
            thread.start()
        return self

    def _replay(self) -> None:
        n_events = 0
        for record in self.log.replay():
            stream = self.streams.get(record.stream)
            if stream is None:
                if record.stream not in self._gone:
                    self._gone[record.stream] = self._applied_on_disk(record.stream)
                if record.number > self._gone[record.stream]:
                    raise ValueError(
                        f"{self.log.folder}: events of the stream {record.stream!r} wait in the "
                        "log; expected it in the configuration"
                    )
                continue
            before = stream.kept[1]
            if record.number > before:
                stream.absorb(record)
                if record.kind == "events":
                    n_events += record.content.count(b"\n") + 1
        self.log.start_after(max((each.kept[1] for each in self.streams.values()), default=0))
        if n_events:
            self.warn(f"{n_events} events of the log were absorbed again, after the checkpoints")

    def _applied_on_disk(self, name: str) -> int:
        """Return the last record in the checkpoint of a stream that is not configured."""
        kept = Generations(self.config.folder / "streams" / f"{name}.mdvpf")
        if not kept.exists:
            return 0
        state: StreamState = kept.load((StreamState,), self.warn)
        return state.applied

    def stop(self) -> None:
        """Refuse new events, absorb waiting ones for a limited time, and save all streams."""
        if self._stopping.is_set():
            return
        with self._gate:
            self._stopping.set()
            self._to_log.put(None)
        self._threads[0].join()
        with suppress(queue.Empty):  # entries that a failed writer left
            while (entry := self._to_log.get_nowait()) is not None:
                self._refuse(entry, Unavailable("the service is stopping"))
        deadline = time.monotonic() + STOP_SECONDS
        while self.error is None and time.monotonic() < deadline:
            if all(stream.is_idle for stream in self.streams.values()):
                break
            time.sleep(0.01)
        for _ in range(self.config.threads):
            self._ready.put(None)
        for thread in self._threads[1:]:
            thread.join()
        for stream in self.streams.values():
            stream.fail_waiting(Unavailable("the batch is in the log; a restart absorbs it"))
        try:
            if self.error is None:
                self._save_all()
        finally:
            self.log.close()
            assert self._lock is not None
            self._lock.release()

    def _save_all(self) -> None:
        """Save every stream that can be saved; raise the first error."""
        errors = []
        for stream in self.streams.values():
            try:
                if stream.is_due(1, 0.0):
                    stream.save()
            except OSError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _guarded(self, loop: Callable[[], None]) -> None:
        try:
            loop()
        except Exception as error:
            self._fail(f"{threading.current_thread().name}: {type(error).__name__}: {error}")

    def _fail(self, message: str) -> None:
        """Take no more events. Acknowledged events are in the log; a restart replays them."""
        if self.error is None:
            self.error = message
            self.warn(message)
            self.on_failure()

    # -- events ----------------------------------------------------------------------------

    def submit(self, stream: Stream, batch: Batch) -> None:
        """Hand a batch to the log; its futures report the outcome."""
        with self._gate:
            self._check()
            stream.ingest.admit(
                batch,
                lambda admitted: self._to_log.put(
                    _Entry(stream, "events", b"\n".join(admitted.lines), admitted, admitted.synced)
                ),
            )

    def submit_feedback(self, stream: Stream, number: int, strange: bool) -> Future[None]:
        """Hand feedback to the log, unless the same feedback is on its way; or raise."""
        with self._gate:
            self._check()
            before, done = stream.answers.get(number, (strange, None))
            check_answer(before, strange)
            if done is None:
                done = Future()
                stream.note_answer(number, strange, done)
                content = json.dumps([number, strange]).encode()
                self._to_log.put(_Entry(stream, "feedback", content, None, done))
        return done

    def send(self, name: str, body: bytes) -> Batch:
        r"""Take the events of a body and wait until they are absorbed; for callers in Python.

        Examples
        --------
        >>> import tempfile
        >>> from mdvpf.streams.service import Engine, ServiceConfig
        >>> text = '[streams.clicks]\nsymbols = 17\nmethod = "Markov 1"\n'
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with Engine(ServiceConfig.from_toml(text, folder=folder)) as engine:
        ...         batch = engine.send("clicks", b'{"symbol": 3}\n{"symbol": 5}\n')
        >>> [report.symbol for report in batch.reports]
        [3, 5]
        """
        stream = self.streams[name]
        batch = stream.ingest.read_batch(body, self.config.max_events)
        batch.wants_reports = True
        self.submit(stream, batch)
        batch.synced.result()
        batch.absorbed.result()
        return batch

    def _check(self) -> None:
        if self.error is not None or self._stopping.is_set():
            raise Unavailable(self.error or "the service is stopping")

    # -- threads ---------------------------------------------------------------------------

    def _write(self) -> None:
        is_last = False
        while not is_last:
            entries = []
            entry = self._to_log.get()
            while entry is not None:
                entries.append(entry)
                if len(entries) == _MOST_AT_ONCE:
                    break
                try:
                    entry = self._to_log.get_nowait()
                except queue.Empty:
                    break
            is_last = entry is None
            self._commit(entries)

    def _commit(self, entries: list[_Entry]) -> None:
        """Write a group of entries to the log, sync it and acknowledge them."""
        sound = []
        for entry in entries:
            if entry.batch is None or entry.stream.ingest.still_holds(entry.batch):
                sound.append(entry)
            else:
                self._refuse(
                    entry,
                    Unavailable("an earlier batch with the same ids failed; send this one again"),
                )
        logged = [entry for entry in sound if entry.batch is None or len(entry.batch)]
        try:
            records = self._append(logged)
        except OSError as error:
            if isinstance(error, LogError):
                self._fail(str(error))
            else:
                self.warn(f"the log could not be written: {error}")
            for entry in sound:
                self._refuse(entry, Unavailable(f"the log could not be written: {error}"))
            return
        for entry, record in zip(logged, records, strict=True):
            if entry.batch is not None:
                entry.batch.number = record.number
            entry.stream.push(record, entry.batch)
            self._ready.put(entry.stream)
        for entry in sound:
            if entry.batch is not None and not len(entry.batch):
                entry.batch.absorbed.set_result(None)
            entry.done.set_result(None)

    def _append(self, entries: list[_Entry]) -> list[Record]:
        if not entries:
            return []
        if self.error is not None:
            raise LogError(self.error)
        return self.log.append([(each.stream.name, each.kind, each.content) for each in entries])

    def _refuse(self, entry: _Entry, error: Exception) -> None:
        if entry.batch is not None:
            entry.stream.ingest.withdraw(entry.batch)
        entry.done.set_exception(error)

    def _work(self) -> None:
        while (stream := self._ready.get()) is not None:
            stream.absorb_next()

    def _keep(self) -> None:
        config = self.config
        while not self._stopping.wait(_KEEPER_SECONDS):
            n_saved = 0
            for stream in self.streams.values():
                if not stream.is_due(config.checkpoint_events, config.checkpoint_seconds):
                    continue
                try:
                    stream.save()
                except OSError as error:
                    stream.put_off()
                    self.warn(f"no checkpoint was written, the previous one remains: {error}")
                else:
                    n_saved += 1
                if self._stopping.is_set():
                    return
            if n_saved:
                kept = {each.name: each.kept[0] for each in self.streams.values()}
                try:
                    self.log.prune(self._gone | kept)
                except OSError as error:
                    self.warn(f"an old part of the log could not be removed: {error}")
