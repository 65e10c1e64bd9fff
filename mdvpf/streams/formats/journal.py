"""The format "journal": the output of ``journalctl -o json``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mdvpf.streams.events import Event
from mdvpf.streams.excerpts import shown
from mdvpf.streams.formats.base import LineFormat, check_state, decoded
from mdvpf.streams.formats.json_lines import json_object
from mdvpf.streams.formats.templates import TEMPLATE_OPTIONS, Templates
from mdvpf.streams.records import FIELD_OPTIONS

UNIT = "_SYSTEMD_UNIT"
PROGRAM = "SYSLOG_IDENTIFIER"
MESSAGE = "MESSAGE"
TIME = "__REALTIME_TIMESTAMP"
CURSOR = "__CURSOR"
_OTHERS = "other"  # key of entries without a unit and a program
_LONGEST_CURSOR = 4096


class Journal(LineFormat):
    """Entries of the systemd journal.

    By default the symbol is the template that Drain3 finds for MESSAGE; the option ``symbol`` names
    another field, whose values are the symbols. The default key is the unit; without a unit it is
    the program, such as ``kernel``, else ``other``. The default time is that of the entry. The
    state includes the cursor of the last entry, for ``journalctl --after-cursor``.

    Examples
    --------
    >>> from mdvpf.streams.formats import make_format
    >>> journal = make_format("journal", {"symbol": "PRIORITY"})
    >>> event = journal.parse(
    ...     b'{"__CURSOR": "s=1", "__REALTIME_TIMESTAMP": "1700000000250000",'
    ...     b' "_SYSTEMD_UNIT": "ssh.service", "PRIORITY": "6"}'
    ... )
    >>> event.symbol, event.key, event.time, journal.state()["cursor"]
    ('6', 'ssh.service', 1700000000.25, 's=1')
    """

    name = "journal"
    takes = (*FIELD_OPTIONS, *TEMPLATE_OPTIONS)
    needs_symbol = False

    def __init__(self, options: Mapping[str, Any]) -> None:
        filled = dict(options)
        if options.get("time") is None and options.get("time_unit") is None:
            filled.update(time=TIME, time_unit="us")
        if options.get("symbol") is None:
            filled["symbol"] = MESSAGE
        super().__init__(filled)
        self._given = [name for name in options if options[name] is not None]
        self._own: dict[str, Any] = {}
        self._by_unit = not self.fields.key
        if self._by_unit:
            self.fields.key = (UNIT,)
        self._templates: Templates | None = None
        if options.get("symbol") is None:
            self._templates = Templates(options)
            self._own = self._templates.given(options)
        for name in TEMPLATE_OPTIONS:
            if name in self._given and self._templates is None:
                raise ValueError(
                    f"{name}={options[name]!r}: expected only without symbol, for {MESSAGE}"
                )
        self.cursor: str | None = None

    @property
    def options(self) -> dict[str, Any]:
        """The options that are not None, ready for JSON."""
        given = {name: value for name, value in super().options.items() if name in self._given}
        return {**given, **self._own}

    def parse(self, line: bytes) -> Event | None:
        """Return the event of an entry."""
        text = decoded(line)
        if not text.strip():
            return None
        record = {name: _value(value) for name, value in json_object(text).items()}
        cursor = record.get(CURSOR)
        if cursor is not None and not _is_cursor(cursor):
            raise ValueError(f"field {CURSOR!r} is {shown(cursor)}; expected text")
        if self._by_unit and not record.get(UNIT):
            record[UNIT] = record.get(PROGRAM) or _OTHERS
        label = None if self._templates is None else self._templates.label
        if label is not None and record.get(MESSAGE, "") == "":
            record[MESSAGE] = None  # an empty message is a missing symbol
        event = self.fields.event(record.__getitem__, symbol_of=label)
        if cursor is not None:
            self.cursor = cursor
        return event

    def state(self) -> dict[str, Any]:
        """Return the cursor of the last entry, and the templates."""
        return {
            "cursor": self.cursor,
            "templates": None if self._templates is None else self._templates.state(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the cursor and the templates."""
        check_state(self.name, state, ("cursor", "templates"))
        cursor = state["cursor"]
        if cursor is not None and not _is_cursor(cursor):
            raise ValueError(f"cursor={shown(cursor)}: expected text, or None")
        if (state["templates"] is None) != (self._templates is None):
            raise ValueError("templates: expected them if and only if MESSAGE is the symbol")
        if self._templates is not None:
            self._templates.restore(state["templates"])
        self.cursor = cursor


def _is_cursor(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST_CURSOR and value.isprintable()


def _value(value: Any) -> Any:
    """Return the value of a field: the first of several values, and bytes as text."""
    if isinstance(value, list) and value:
        if all(isinstance(part, int) and 0 <= part <= 255 for part in value):
            return bytes(value).decode("utf-8", "replace")
        return _value(value[0]) if isinstance(value[0], list) else value[0]
    return value
