"""`LineFormat`: what all formats of live lines share.

A format turns the bytes of one line into an `Event`. What it remembers from line to line (the
header of a CSV file, the templates of free text) is its state, which is JSON and is saved with
the filter.
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
    """A format of lines: bytes of one line in, an event out.

    Parameters
    ----------
    options : mapping
        The options, by name; those that are None count as not given. `make_format` lists them.

    Attributes
    ----------
    name : str
        Name of the format.
    takes : tuple of str
        The options that the format has.
    fields : Fields
        Those of the options that all formats of records share.

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
        """The options that were given, as JSON can write them: text, numbers, lists of text."""
        return dict(self.fields.given)

    @property
    def missing(self) -> str | None:
        """The text of a symbol that is missing, if there is one."""
        return self.fields.missing

    @abstractmethod
    def parse(self, line: bytes) -> Event | None:
        """Return the event of a line, or None if the line says nothing, such as a header.

        The line may end with a line feed. A line that is malformed is a ValueError that does not
        know the number of the line; then the state of the format is as before.
        """

    def state(self) -> dict[str, Any]:
        """Return what the format remembers, as JSON: a copy that later lines do not change."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` returned; raise, and change nothing, if it was anything else."""
        check_state(self.name, state, ())

    def __repr__(self) -> str:
        return f"make_format({self.name!r}, {reprlib.repr(self.options)})"


def check_options(name: str, takes: tuple[str, ...], options: Mapping[str, Any]) -> None:
    """Raise if there is an option that a format does not have."""
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
    """Return the text of a line without its end, or raise; a byte order mark does not count."""
    if not isinstance(line, bytes):
        raise TypeError(f"line={reprlib.repr(line)}: expected bytes")
    try:
        text = line.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{shown(line)}: expected text in UTF-8 ({error.reason})") from None
    return text.removesuffix("\n").removesuffix("\r")
