"""`LineFormat`: base class of the formats of live streams.

A format parses the bytes of one line into an `Event`. Its state is what it remembers between lines,
such as the header of a CSV file or the templates of free text. The state is JSON, and a checkpoint
stores it.
"""

from __future__ import annotations

import reprlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from mdvpf.streams.events import Event
from mdvpf.streams.excerpts import shown
from mdvpf.streams.records import FIELD_OPTIONS, Fields


class LineFormat(ABC):
    """A parser of the lines of a stream.

    Parameters
    ----------
    options : mapping
        The options, by name, as for `make_format`.

    Attributes
    ----------
    name : str
        Name of the format.
    takes : tuple of str
        The options that the format accepts.
    fields : Fields
        The options that all formats of records share.
    needs_symbol : bool
        Whether the option ``symbol`` is required.
    reads_ahead : bool
        Whether waiting lines may be parsed before those above them are absorbed. This needs a state
        that no event changes.

    Examples
    --------
    >>> from mdvpf.streams.formats import make_format
    >>> lines = make_format("lines", {"missing": "?", "end": "logout"})
    >>> lines.parse(b"login").symbol, lines.parse(b"?").symbol, lines.parse(b"logout").ends
    ('login', None, True)
    """

    name: ClassVar[str]
    takes: ClassVar[tuple[str, ...]] = FIELD_OPTIONS
    needs_symbol: ClassVar[bool] = True
    reads_ahead: ClassVar[bool] = False

    def __init__(self, options: Mapping[str, Any]) -> None:
        check_options(self.name, self.takes, options)
        self.fields = Fields(options)
        if self.needs_symbol and self.fields.symbol is None:
            raise ValueError(
                f"the format {self.name!r} has several fields: expected symbol, the name of one "
                "(on the command line --column)"
            )

    @property
    def options(self) -> dict[str, Any]:
        """The options that are not None, ready for JSON: text, numbers and lists of text."""
        return dict(self.fields.given)

    @property
    def missing(self) -> str | None:
        """The text of a missing symbol, or None."""
        return self.fields.missing

    @abstractmethod
    def parse(self, line: bytes) -> Event | None:
        """Return the event of a line, or None for a line without one, such as a header.

        The line may end with a newline. A malformed line is a ValueError, without the number of the
        line, and leaves the state unchanged.
        """

    def state(self) -> dict[str, Any]:
        """Return a copy of the state, as JSON."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what `state` returned; raise without a change if it is invalid."""
        check_state(self.name, state, ())

    def __repr__(self) -> str:
        return f"make_format({self.name!r}, {reprlib.repr(self.options)})"


def check_options(name: str, takes: tuple[str, ...], options: Mapping[str, Any]) -> None:
    """Raise if a format does not accept one of the options."""
    for option, value in options.items():
        if value is not None and option not in takes:
            raise ValueError(
                f"{option}={reprlib.repr(value)}: the format {name!r} has no such option; "
                f"expected only {', '.join(takes)}"
            )


def check_state(name: str, state: Any, entries: tuple[str, ...]) -> None:
    """Raise unless a state is a mapping with these entries."""
    if not isinstance(state, Mapping) or set(state) != set(entries):
        expected = f"a mapping with {', '.join(entries)}" if entries else "an empty mapping"
        raise ValueError(
            f"state={reprlib.repr(state)}: expected {expected}, as the format {name!r} saves it"
        )


def decoded(line: bytes) -> str:
    """Decode a line, without its newline and a byte order mark, or raise."""
    if not isinstance(line, bytes):
        raise TypeError(f"line={reprlib.repr(line)}: expected bytes")
    try:
        text = line.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{shown(line)}: expected text in UTF-8 ({error.reason})") from None
    return text.removesuffix("\n").removesuffix("\r")
