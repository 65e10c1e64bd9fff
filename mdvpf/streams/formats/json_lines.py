"""The format "json": one JSON object a line, and paths to the fields in it."""

from __future__ import annotations

import json
from typing import Any

from mdvpf.streams.events import Event
from mdvpf.streams.excerpts import shown
from mdvpf.streams.formats.base import LineFormat, decoded


class JsonLines(LineFormat):
    """One JSON object a line; blank lines are skipped.

    A path names a field: ``request.path`` is the entry ``path`` of the entry ``request``,
    ``spans.0.name`` the entry ``name`` of the first element of the list ``spans``. A name may
    itself contain a dot if it is the last part of the path.

    Examples
    --------
    >>> from mdvpf.streams.formats import make_format
    >>> json_lines = make_format("json", {"symbol": "request.path", "key": "user"})
    >>> event = json_lines.parse(b'{"user": 7, "request": {"path": "/news"}}')
    >>> event.symbol, event.key
    ('/news', 7)
    """

    name = "json"
    reads_ahead = True

    def parse(self, line: bytes) -> Event | None:
        """Return the event of a line."""
        text = decoded(line)
        if not text.strip():
            return None
        record = json_object(text)
        return self.fields.event(lambda path: find(record, path))


def json_object(text: str) -> dict[str, Any]:
    """Return the JSON object in a text, or raise.

    Examples
    --------
    >>> from mdvpf.streams.formats.json_lines import json_object
    >>> json_object('{"page": "news"}')
    {'page': 'news'}
    """
    try:
        record = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{shown(text)}: expected a JSON object ({error.msg} at character {error.pos + 1})"
        ) from None
    except RecursionError:
        raise ValueError(f"{shown(text)}: expected JSON that is less deeply nested") from None
    except ValueError:  # Python limits the number of digits of an integer
        raise ValueError(f"{shown(text)}: expected JSON with shorter numbers") from None
    if not isinstance(record, dict):
        raise ValueError(f"{shown(text)}: expected a JSON object")
    return record


def find(record: Any, path: str) -> Any:
    """Return the value at a path; KeyError, IndexError or TypeError if there is none.

    Examples
    --------
    >>> from mdvpf.streams.formats.json_lines import find
    >>> find({"spans": [{"name": "query"}]}, "spans.0.name")
    'query'
    """
    while True:
        if isinstance(record, dict):
            if path in record:
                return record[path]
            head, dot, path = path.partition(".")
            record = record[head]
        elif isinstance(record, list):
            head, dot, path = path.partition(".")
            if not (head.isascii() and head.isdecimal()):
                raise KeyError(head)
            record = record[int(head[:9])]
        else:
            raise KeyError(path)
        if not dot:
            return record
