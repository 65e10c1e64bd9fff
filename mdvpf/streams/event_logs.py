"""Event logs in XES, the format of process mining: a case is a sequence, an activity a symbol.

The parser streams: it keeps only the requested attributes, so memory does not grow with the file. A
document type is refused: XES has none, and its entities can expand a small file to a huge one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, BinaryIO
from xml.parsers import expat

from mdvpf.streams.events import Event
from mdvpf.streams.records import Fields

ACTIVITY = "concept:name"
CASE = "case:"  # prefix of attributes of the trace; those of events have none
TIME = "time:timestamp"
DEFAULTS = {"symbol": ACTIVITY, "key": CASE + ACTIVITY, "time": TIME}
OPTIONAL = {"key": CASE + ACTIVITY, "time": TIME}  # may be absent unless the user names them

_CHUNK = 1 << 16
_LARGEST_ELEMENT = 1 << 24  # bytes between two tags
_DEEPEST = 100
_ATTRIBUTES = frozenset(["string", "date", "int", "float", "boolean", "id"])


def read_xes(file: BinaryIO, fields: Fields, *, optional: frozenset[str]) -> Iterator[Event]:
    """Yield the events of a log, case by case; the last event of a case ends its sequence.

    Parameters
    ----------
    file : binary file
        The log, decompressed.
    fields : Fields
        Names of attributes; attributes of the trace begin with ``case:``.
    optional : frozenset of str
        Names that may be absent. A case without a name gets its number; an event without a time has
        none.
    """
    log = _Log(fields, optional)
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = log.start
    parser.EndElementHandler = log.end
    parser.StartDoctypeDeclHandler = log.refuse_document_type
    position = 0
    try:
        while chunk := file.read(_CHUNK):
            parser.Parse(chunk, False)
            position += len(chunk)
            # `CurrentByteIndex` is the start of the token that is still incomplete.
            if position - parser.CurrentByteIndex > _LARGEST_ELEMENT:
                raise ValueError(f"expected elements of at most {_LARGEST_ELEMENT} bytes")
            yield from log.take()
        parser.Parse(b"", True)
        yield from log.take()
    except expat.ExpatError as error:
        problem = expat.ErrorString(error.code)
        raise ValueError(f"line {error.lineno}: {problem}; expected an XES log") from None
    except (ValueError, LookupError) as error:  # LookupError: an unknown encoding
        raise ValueError(f"line {parser.CurrentLineNumber}: {error}") from None
    if not log.is_log:
        raise ValueError("no element <log>; expected an XES log")


class _Log:
    """Handlers of the parser; they collect events until `take` removes them."""

    def __init__(self, fields: Fields, optional: frozenset[str]) -> None:
        self.is_log = False
        self._fields = fields
        self._optional = optional
        self._wanted = frozenset(fields.names)
        self._path: list[str] = []
        self._n_cases = 0
        self._case: dict[str, Any] = {}
        self._event: dict[str, Any] = {}
        self._last: Event | None = None  # held back until it is known whether it ends the case
        self._found: list[Event] = []

    def take(self) -> list[Event]:
        found, self._found = self._found, []
        return found

    def refuse_document_type(self, name: str, *_: Any) -> None:
        raise ValueError(f"a document type ({name}); expected none in an XES log")

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        path = self._path
        tag = tag.rpartition(":")[2]
        if not path:
            self.is_log = tag == "log"
            if not self.is_log:
                raise ValueError(f"<{tag[:40]}>; expected an XES log, in an element <log>")
        elif path == ["log"] and tag == "trace":
            self._n_cases += 1
            self._case = {}
        elif path == ["log", "trace"]:
            if tag == "event":
                self._event = {}
            else:
                self._put(self._case, tag, CASE, attributes)
        elif path == ["log", "trace", "event"]:
            self._put(self._event, tag, "", attributes)
        path.append(tag)
        if len(path) > _DEEPEST:
            raise ValueError(f"expected elements that are not nested deeper than {_DEEPEST}")

    def end(self, tag: str) -> None:
        path = self._path
        if path == ["log", "trace", "event"]:
            self._push(self._make())
        elif path == ["log", "trace"] and self._last is not None:
            self._last = dataclasses.replace(self._last, ends=True)
            self._push(None)
        path.pop()

    def _put(
        self, record: dict[str, Any], tag: str, prefix: str, attributes: dict[str, str]
    ) -> None:
        name = prefix + attributes.get("key", "")
        if tag not in _ATTRIBUTES or name not in self._wanted:
            return
        if prefix and self._last is not None:
            raise ValueError(
                f"attribute {name!r} after an event; expected the attributes of a trace before its "
                "events"
            )
        record[name] = attributes.get("value", "")

    def _push(self, event: Event | None) -> None:
        if self._last is not None:
            self._found.append(self._last)
        self._last = event

    def _make(self) -> Event:
        record = {**self._case, **self._event}
        fields = self._fields
        if CASE + ACTIVITY in self._optional:
            record.setdefault(CASE + ACTIVITY, self._n_cases)
        if fields.time in self._optional and fields.time not in record:
            fields = fields.without_time()
        return fields.event(record.__getitem__)
