"""The format "text": free text, whose templates are the symbols."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from mdvpf.streams.events import Event
from mdvpf.streams.excerpts import shown
from mdvpf.streams.formats.base import LineFormat, decoded
from mdvpf.streams.formats.templates import TEMPLATE_OPTIONS, Templates
from mdvpf.streams.records import FIELD_OPTIONS

MESSAGE = "message"


class Text(LineFormat):
    """Free text: the symbol of a line is the template that Drain3 finds for it.

    Without `pattern` the whole line is the message. With it, the line must match that regular
    expression, and `symbol` (by default ``message``), `key`, `time` and `pass_fields` name its
    groups. Blank lines are skipped. `end` is the label of a template, as reports show it.

    Examples
    --------
    >>> from mdvpf.streams.formats import make_format
    >>> pattern = r"(?P<time>[^ ]+) (?P<host>[^ ]+) (?P<message>.*)"
    >>> text = make_format("text", {"pattern": pattern, "key": "host", "time": "time"})
    >>> event = text.parse(b"2024-05-17T08:30:00Z web-1 worker 17 started")
    >>> event.symbol, event.key, event.time
    ('worker <num> started', 'web-1', 1715934600.0)
    """

    name = "text"
    takes = (*FIELD_OPTIONS, "pattern", *TEMPLATE_OPTIONS)
    needs_symbol = False

    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(options)
        self._pattern = _read_pattern(options.get("pattern"))
        groups = () if self._pattern is None else tuple(self._pattern.groupindex)
        if self.fields.symbol is None:
            self.fields.symbol = MESSAGE
        for name in self.fields.names:
            if self._pattern is None and name != MESSAGE:
                raise ValueError(f"{name!r}: expected pattern, whose named groups are the fields")
            if self._pattern is not None and name not in groups:
                has = ", ".join(groups) or "none"
                raise ValueError(f"{name!r}: expected a named group of pattern, which has {has}")
        self._templates = Templates(options)
        self._own = self._templates.given(options)
        if self._pattern is not None:
            self._own["pattern"] = self._pattern.pattern

    @property
    def options(self) -> dict[str, Any]:
        """The options that are not None, ready for JSON."""
        return {**super().options, **self._own}

    def parse(self, line: bytes) -> Event | None:
        """Return the event of a line."""
        text = decoded(line)
        if not text.strip():
            return None
        if self._pattern is None:
            record = {MESSAGE: text.strip()}
        else:
            match = self._pattern.match(text)
            if match is None:
                raise ValueError(f"{shown(text)}: expected text that the pattern matches")
            record = match.groupdict()
        return self.fields.event(record.__getitem__, symbol_of=self._templates.label)

    def state(self) -> dict[str, Any]:
        """Return the templates."""
        return self._templates.state()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the templates."""
        self._templates.restore(state)


def _read_pattern(pattern: Any) -> re.Pattern[str] | None:
    if pattern is None:
        return None
    if not isinstance(pattern, str):
        raise TypeError(f"pattern={pattern!r}: expected a str")
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ValueError(f"pattern={pattern!r}: expected a regular expression ({error})") from None
