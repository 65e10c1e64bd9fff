"""`LineFormat`: what all formats of live lines share, and the options that they have.

A format turns the bytes of one line into an `Event`. What it remembers from line to line (the
header of a CSV file, the templates of free text) is its state, which is JSON and is saved with
the filter.
"""

from __future__ import annotations

import reprlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from mdvpf.predictor import Label, label_text
from mdvpf.streams.events import Event

Options = dict[str, Any]


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
    options : dict
        The options that were given, as JSON can write them: text, numbers, and lists of text.

    Examples
    --------
    >>> from mdvpf.streams.formats import make_format
    >>> lines = make_format("lines", {"missing": "?", "end": "logout"})
    >>> lines.parse(b"login").symbol, lines.parse(b"?").symbol, lines.parse(b"logout").ends
    ('login', None, True)
    """

    name: ClassVar[str]
    takes: ClassVar[tuple[str, ...]] = ("missing", "end")

    def __init__(self, options: Mapping[str, Any]) -> None:
        given = {option: value for option, value in options.items() if value is not None}
        for option, value in given.items():
            if option not in self.takes:
                raise ValueError(
                    f"{option}={reprlib.repr(value)}: the format {self.name!r} has no such option; "
                    f"expected only {', '.join(self.takes)}"
                )
        self.options: Options = {}
        self.missing = self._text_option(given, "missing")
        self.ends = frozenset(self._texts_option(given, "end"))

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
        if not isinstance(state, Mapping) or state:
            raise ValueError(
                f"state={reprlib.repr(state)}: expected none, as the format {self.name!r} has none"
            )

    # -- for the formats -------------------------------------------------------------------

    def _is_end(self, symbol: Label | None) -> bool:
        return bool(self.ends) and symbol is not None and label_text(symbol) in self.ends

    def _text_option(self, given: Mapping[str, Any], option: str) -> str | None:
        value = given.get(option)
        if value is None:
            return None
        if not isinstance(value, str):
            raise TypeError(f"{option}={value!r}: expected a str")
        self.options[option] = value
        return value

    def _texts_option(self, given: Mapping[str, Any], option: str) -> tuple[str, ...]:
        value = given.get(option)
        if value is None:
            return ()
        texts = [value] if isinstance(value, str) else value
        if (
            not isinstance(texts, Sequence)
            or not texts
            or not all(isinstance(text, str) and text for text in texts)
        ):
            raise TypeError(f"{option}={reprlib.repr(value)}: expected a str, or several")
        self.options[option] = list(texts)
        return tuple(texts)


def decoded(line: bytes) -> str:
    """Return the text of a line without its end, or raise; a byte order mark does not count."""
    if not isinstance(line, bytes):
        raise TypeError(f"line={reprlib.repr(line)}: expected bytes")
    try:
        text = line.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{shown(line)}: expected text in UTF-8 ({error.reason})") from None
    return text.removesuffix("\n").removesuffix("\r")


def shown(text: str | bytes) -> str:
    """Return the beginning of a text for a message."""
    return repr(text[:40]) + ("..." if len(text) > 40 else "")
