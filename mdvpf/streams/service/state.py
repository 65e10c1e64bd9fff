"""`StreamState`: all that a checkpoint of a stream holds, as a function of the log.

Only records of the log change the state, in their order. So a checkpoint and the records after it
give the same state as a run without interruption.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mdvpf import checkpoint
from mdvpf._support import validate
from mdvpf.detect import Detection, Incident
from mdvpf.streams.events import Event
from mdvpf.streams.formats.json_lines import find, json_object
from mdvpf.streams.monitor import Monitor, MonitorHolder
from mdvpf.streams.records import Fields
from mdvpf.streams.report import Report
from mdvpf.streams.together import absorb_together

DIGEST_BYTES = 16
KEPT_INCIDENTS = 100
LONGEST_ID = 256  # bytes
_LARGEST = 2**62


def digest_of(name: str | int) -> bytes:
    """Return the digest by which an id is remembered.

    Examples
    --------
    >>> from mdvpf.streams.service.state import digest_of
    >>> digest_of("7") == digest_of(7)
    False
    """
    text = f"{'i' if isinstance(name, int) else 's'}{name}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, digest_size=DIGEST_BYTES).digest()


def read_id(record: dict[str, Any], field_name: str | None) -> bytes | None:
    """Return the digest of an event's id, None if it has none, or raise."""
    if field_name is None:
        return None
    found = record.get(field_name)
    if found is None:
        try:
            found = find(record, field_name)
        except (LookupError, TypeError):
            return None
    if found is None:
        return None
    if type(found) is str and 0 < len(found) <= LONGEST_ID // 4:
        return digest_of(found)
    size = len(str(found).encode("utf-8", "replace")) if type(found) in (str, int) else 0
    if not 0 < size <= LONGEST_ID:
        raise ValueError(
            f"field {field_name!r}: expected an id, text of 1 to {LONGEST_ID} bytes or an integer"
        )
    return digest_of(found)


class IdWindow:
    """The ids of the last events that had one, by their digests.

    Parameters
    ----------
    size : int
        How many are remembered; the oldest is forgotten for a new one.

    Examples
    --------
    >>> from mdvpf.streams.service.state import IdWindow, digest_of
    >>> window = IdWindow(2)
    >>> for name in ("a", "b", "c"):
    ...     window.add(digest_of(name))
    >>> [digest_of(name) in window for name in ("a", "b", "c")]
    [False, True, True]
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._order: deque[bytes] = deque()
        self._known: set[bytes] = set()

    def __len__(self) -> int:
        return len(self._order)

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._known

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._order)

    def add(self, digest: bytes) -> None:
        """Remember an id that is not known."""
        self._order.append(digest)
        self._known.add(digest)
        while len(self._order) > self.size:
            self._known.discard(self._order.popleft())

    def to_array(self) -> NDArray[np.uint8]:
        """Return the digests, the oldest first."""
        content = b"".join(self._order)
        return np.frombuffer(content, dtype=np.uint8).reshape(-1, DIGEST_BYTES)

    @classmethod
    def of(cls, size: int, digests: Sequence[bytes]) -> Self:
        """Return a window of digests; if there are too many, keep the last."""
        found = cls(size)
        for digest in digests:
            found.add(digest)
        return found


@dataclass(slots=True)
class NotedIncident:
    """An incident as the service shows it; without incidents, a single alarm.

    Attributes
    ----------
    number : int
    start, end, peak : int
        Indices of symbols.
    side : str or None
    p_value : float or None
    n_alarms : int
    key : label or None
        The key of the last alarm, as JSON.
    time : float or None
        Time of the last alarm, by the times of the events.
    why : str
        The reasons, in words.
    judged : list
        The judgement of the last alarm, for feedback: the fields of a `Detection`.
    strange : bool or None
        The feedback; None if there is none yet.
    """

    number: int
    start: int
    end: int
    peak: int
    side: str | None
    p_value: float | None
    n_alarms: int
    key: Any
    time: float | None
    why: str
    judged: list[Any]
    strange: bool | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return it as the service shows it."""
        return {name: getattr(self, name) for name in self.__slots__ if name != "judged"}

    def detection(self) -> Detection:
        """Return the judgement."""
        time, surprise, level, score, threshold, alarm, p_value = self.judged
        return Detection(
            time,
            surprise,
            _number(level),
            _number(score),
            math.inf if threshold is None else threshold,
            alarm,
            None,
            p_value=_number(p_value),
        )


@checkpoint.register("ServiceStream")
@dataclass(slots=True)
class StreamState(MonitorHolder):
    """A stream of the service as its checkpoint holds it.

    Attributes
    ----------
    monitor : Monitor
    options : dict
        The entries of its configuration that cannot change.
    ids : IdWindow
    applied : int
        The last record of the log that is in it.
    n_rejected : int
        Logged events that the monitor refused.
    incidents : ordered dict of int to NotedIncident
        The last 100.

    Examples
    --------
    >>> import io
    >>> from mdvpf.streams.service.config import StreamConfig
    >>> from mdvpf.streams.service.state import StreamState
    >>> state = StreamState.new(StreamConfig("x", {"symbols": 2, "method": "Markov 1"}))
    >>> file = io.BytesIO()
    >>> state.save(file)
    >>> _ = file.seek(0)
    >>> StreamState.load(file).applied
    0
    """

    monitor: Monitor
    options: dict[str, Any]
    ids: IdWindow
    applied: int = 0
    n_rejected: int = 0
    incidents: OrderedDict[int, NotedIncident] = field(default_factory=OrderedDict)

    @classmethod
    def new(cls, config: Any) -> Self:
        """Return the initial state of a stream with this `StreamConfig`."""
        return cls(config.new_monitor(), config.lasting, IdWindow(config.remember_ids))

    @property
    def id_field(self) -> str | None:
        """The field of events that holds their id."""
        return self.options.get("id")

    def parse(self, line: bytes) -> tuple[Event, bytes | None]:
        """Return the event of a line and the digest of its id, or raise; nothing changes."""
        record = json_object(line.decode("utf-8"))
        digest = read_id(record, self.id_field)
        event = _plain_event(record, self.monitor.format.fields)
        if event is not None:
            return event, digest
        return self.monitor.format.fields.event(lambda path: find(record, path)), digest

    def apply(self, events: Sequence[Event]) -> list[Report]:
        """Absorb events of the log; return the reports of those that the monitor accepts."""
        together = absorb_together(self.monitor, events, self._note)
        if together is not None:
            return together
        return [report for report in map(self._absorb, events) if report is not None]

    def _absorb(self, event: Event) -> Report | None:
        try:
            report = self.monitor.absorb(event)
        except (TypeError, ValueError):
            self.monitor.skip()
            self.n_rejected += 1
            return None
        if report is not None and report.alarm:
            self._note(report)
        return report

    def _note(self, report: Report) -> None:
        known = {each.number: each for each in self.monitor.detector.incidents}
        incident = None if report.incident is None else known.get(report.incident)
        if incident is None:  # a detector without incidents: every alarm is one
            number = max(self.incidents, default=-1) + 1
            incident = Incident(
                number, report.index, report.index, report.index, "surprising", math.nan, 1
            )
        shown = json.loads(report.to_json())
        before = self.incidents.pop(incident.number, None)
        self.incidents[incident.number] = NotedIncident(
            incident.number,
            incident.start,
            incident.end,
            incident.peak,
            incident.side,
            None if math.isnan(incident.p_value) else incident.p_value,
            incident.n_alarms,
            shown["key"],
            report.time,
            report.why or f"level {report.level:.3f} above {report.threshold:.3f}",
            [
                report.index,
                report.surprise,
                *(shown[name] for name in ("level", "score", "threshold")),
                report.alarm,
                shown["p_value"],
            ],
            None if before is None else before.strange,
        )
        while len(self.incidents) > KEPT_INCIDENTS:
            self.incidents.popitem(last=False)

    def feedback(self, number: int, strange: bool) -> bool:
        """Give feedback from the log to the detector; a repetition changes nothing."""
        noted = self.incidents.get(number)
        if noted is None or noted.strange is not None:
            return False
        # There is no level to learn from after an infinite surprise; keep the answer anyway.
        with suppress(ValueError):
            self.monitor.detector.feedback(noted.detection(), strange)
        noted.strange = strange
        return True

    def copy(self) -> Self:
        """Return an independent copy."""
        return type(self)(
            self.monitor.copy(),
            dict(self.options),
            IdWindow.of(self.ids.size, list(self.ids)),
            self.applied,
            self.n_rejected,
            OrderedDict((number, _copied(noted)) for number, noted in self.incidents.items()),
        )

    # -- checkpoints -----------------------------------------------------------------------

    def _to_checkpoint(self) -> checkpoint.State:
        values: dict[str, Any] = {
            "options": self.options,
            "applied": self.applied,
            "n_rejected": self.n_rejected,
            "n_ids": self.ids.size,
            "incidents": [
                [getattr(noted, name) for name in NotedIncident.__slots__]
                for noted in self.incidents.values()
            ],
        }
        arrays = {"ids": self.ids.to_array()}
        return checkpoint.State(values, arrays, {"monitor": self.monitor}, version=2)

    @classmethod
    def _from_checkpoint(cls, state: checkpoint.State, given: dict[str, Any]) -> Self:
        values, monitor = state.values, state.parts["monitor"]
        if not isinstance(monitor, Monitor) or not isinstance(values["options"], dict):
            raise checkpoint.CheckpointError("file: a stream without a monitor or options")
        digests = checkpoint.read_array(state, "ids", "|u1", (None, DIGEST_BYTES))
        incidents: OrderedDict[int, NotedIncident] = OrderedDict()
        for saved in values["incidents"]:
            noted = NotedIncident(*saved)
            number = validate.integer("number", noted.number, low=0, high=_LARGEST)
            incidents[number] = noted
        size = validate.integer("n_ids", values["n_ids"], low=0, high=_LARGEST)
        return cls(
            monitor,
            values["options"],
            IdWindow.of(size, [row.tobytes() for row in digests]),
            validate.integer("applied", values["applied"], low=0, high=_LARGEST),
            validate.integer("n_rejected", values["n_rejected"], low=0, high=_LARGEST),
            incidents,
        )

    def _left_out(self) -> dict[str, Any]:
        return self.monitor._left_out()


def _plain_event(record: dict[str, Any], fields: Fields) -> Event | None:
    """Return what `Fields.event` returns, but faster; None if the record is unusual."""
    if fields.time is not None or fields.pass_fields or fields.end or fields.missing is not None:
        return None
    symbol, key = record.get(fields.symbol or ""), None
    if len(fields.key) == 1:
        key = record.get(fields.key[0])
        if type(key) is not str or not key or not key.isascii():
            return None
    elif fields.key:
        return None
    if type(symbol) is int or (type(symbol) is str and symbol and symbol.isascii()):
        return Event(symbol, key)
    return None


def _copied(noted: NotedIncident) -> NotedIncident:
    return NotedIncident(*(getattr(noted, name) for name in NotedIncident.__slots__))


def _number(value: float | None) -> float:
    return math.nan if value is None else value
