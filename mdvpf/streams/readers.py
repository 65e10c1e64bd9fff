"""A user's own stream from a file, for the commands: one alphabet, symbols, sequences or keys.

Plain files have one symbol a line, or characters. All other formats have fields, and `column`
names that of the symbol. Whatever stands there is a symbol; equal values are equal symbols. A
file that is most likely not what the options say is refused, or read with a warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdvpf._support import validate
from mdvpf.predictor import Label, label_text
from mdvpf.streams.event_tables import Collected
from mdvpf.streams.events import Event
from mdvpf.streams.excerpts import shown
from mdvpf.streams.input_files import opened, text_lines
from mdvpf.streams.looks import check_looks
from mdvpf.streams.reading import FILE_FORMATS, XES, format_of, read_events

_WITHOUT_COLUMNS = ("lines", "text", "journal", XES)


@dataclass(frozen=True, slots=True, eq=False)
class FileStream:
    """The stream in a file.

    Attributes
    ----------
    name : str
        Name of the file.
    symbols : ndarray of int64
        The symbols, as indices of `labels`; a masked array if some are missing.
    labels : tuple of labels
        What the symbols stand for, in alphabetical order.
    lengths : ndarray of int64 or None
        Lengths of the sequences that `symbols` joins; None if there is one, or if there are keys.
    keys : list of labels or None
        The key of each symbol, if there are keys.
    times : ndarray of float64 or None
        The time of each symbol in seconds since 1970, if there are times.
    fields : mapping of str to list
        The values of `pass_fields`, one for each symbol.
    """

    name: str
    symbols: NDArray[np.int64]
    labels: tuple[Label, ...]
    lengths: NDArray[np.int64] | None
    keys: list[Label] | None = None
    times: NDArray[np.float64] | None = None
    fields: Mapping[str, list[Any]] = field(default_factory=dict)

    @property
    def n_symbols(self) -> int:
        """Size of the alphabet."""
        return len(self.labels)

    @property
    def is_interleaved(self) -> bool:
        """Whether a key comes back after another one; if none does, keys are only sequences.

        Examples
        --------
        >>> import numpy as np
        >>> from mdvpf.streams.readers import FileStream
        >>> FileStream("x", np.array([0, 1, 0]), ("a", "b"), None, [7, 8, 7]).is_interleaved
        True
        """
        keys = self.keys or ()
        return sum(1 for _ in groupby(keys)) > len(set(keys))

    def grouped(self) -> FileStream:
        """Return the stream with its keys one after the other, as sequences without keys.

        They come in the order in which they begin.

        Examples
        --------
        >>> import numpy as np
        >>> from mdvpf.streams.readers import FileStream
        >>> stream = FileStream("calls", np.array([0, 1, 2]), ("a", "b", "c"), None, [7, 8, 7])
        >>> stream.grouped().symbols.tolist(), stream.grouped().lengths.tolist()
        ([0, 2, 1], [2, 1])
        """
        if self.keys is None:
            return self
        places: dict[Label, list[int]] = {}
        for i, key in enumerate(self.keys):
            places.setdefault(key, []).append(i)
        order = np.array([i for each in places.values() for i in each], dtype=np.int64)
        lengths = np.array([len(each) for each in places.values()], dtype=np.int64)
        return FileStream(
            self.name,
            self.symbols[order],
            self.labels,
            lengths if len(lengths) > 1 else None,
            None,
            None if self.times is None else self.times[order],
            {name: [values[i] for i in order] for name, values in self.fields.items()},
        )


def read_file(path: Path, **options: Any) -> FileStream:
    r"""Return the stream in a file.

    Parameters
    ----------
    path : Path
        The file, in UTF-8 if it is text; packed by gzip or not.
    **options
        As for `read_files`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from mdvpf.streams.readers import read_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "clicks.txt")
    ...     _ = path.write_text("news\nsport\n\nnews\n")
    ...     data = read_file(path)
    >>> data.symbols.tolist(), data.lengths.tolist()
    ([0, 1, 0], [2, 1])
    """
    (stream,) = read_files([path], **options)
    return stream


def read_files(
    paths: Sequence[Path],
    *,
    column: str | None = None,
    breaks: str | None = None,
    text: bool = False,
    format: str | None = None,
    least_labels: int = 2,
    **options: Any,
) -> list[FileStream]:
    r"""Return the streams in several files, which share one alphabet.

    Parameters
    ----------
    paths : sequence of Path
        The files.
    column : str, optional
        The field of the symbol: a column of a CSV file, the path of a field in JSON lines.
    breaks : str, optional
        A new sequence starts where the value of this field changes.
    text : bool, default False
        Read characters, with blank lines between sequences.
    format : str, optional
        As for `read_events`; by default as the name of the file says, else "csv" with `column`,
        and "lines" without.
    least_labels : int, default 2
        How many different symbols the files must have together, at least.
    **options
        `key`, `time`, `by_time` and all else that `read_events` takes.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from mdvpf.streams.readers import read_files
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     paths = [pathlib.Path(folder, name) for name in ("train.txt", "test.txt")]
    ...     _ = [path.write_text(text) for path, text in zip(paths, ["b\nc\n", "a\nc\n"])]
    ...     streams = read_files(paths)
    >>> streams[0].labels, [stream.symbols.tolist() for stream in streams]
    (('a', 'b', 'c'), [[1, 2], [0, 2]])
    """
    given = {option: value for option, value in options.items() if value not in (None, False)}
    if text:
        others = {"column": column, "breaks": breaks, "format": format, **given}
        for option, value in others.items():
            if value is not None:
                raise ValueError(f"text={text!r}, {option}={value!r}: expected at most one of them")
    if breaks is not None and "key" in given:
        raise ValueError(f"breaks={breaks!r}, key={given['key']!r}: expected at most one of them")
    contents = []
    for path in paths:
        events = _characters(path) if text else _events(path, column, breaks, format, given)
        contents.append(Collected.from_events(events))
    words = {word for each in contents for word in each.labels if word is not None}
    ordered = sorted(words, key=lambda word: (label_text(word), isinstance(word, str)))
    symbol_of: dict[Label | None, int] = {word: i for i, word in enumerate(ordered)}
    symbol_of[None] = -1
    streams = []
    for path, each in zip(paths, contents, strict=True):
        n = sum(word is not None for word in each.labels)
        if n < 2 or len(ordered) < least_labels:
            raise ValueError(
                f"{path}: {n} symbols, {len(ordered)} of them different; expected at least two"
            )
        symbols = np.array([symbol_of[word] for word in each.labels], dtype=np.int64)
        streams.append(
            FileStream(
                path.name,
                symbols if n == len(symbols) else np.ma.masked_equal(symbols, -1),
                tuple(ordered),
                each.lengths,
                each.keys,
                each.times,
                each.fields,
            )
        )
    return streams


def _events(
    path: Path,
    column: str | None,
    breaks: str | None,
    format: str | None,
    options: Mapping[str, Any],
) -> Iterable[Event]:
    name = format_of(path) if format is None else validate.choice("format", format, FILE_FORMATS)
    if name == "lines" and format is None and column is not None:
        name = "csv"
    if name == "lines":
        if breaks is not None:
            raise ValueError(f"breaks={breaks!r}: expected only with column, the column of symbols")
        if format is None:
            check_looks(path)
    elif column is None and name not in _WITHOUT_COLUMNS:
        raise ValueError(
            f"{path}: column is not given; expected --column, the name of the field of the symbol "
            f"in {name} (or --format lines, if every line is a symbol)"
        )
    passed = options.get("pass_fields") or ()
    if breaks is None:
        return read_events(path, format=name, symbol=column, **options)
    others = {
        **options,
        "pass_fields": list(
            dict.fromkeys([*([passed] if isinstance(passed, str) else passed), breaks])
        ),
    }
    return _broken(path, read_events(path, format=name, symbol=column, **others), breaks)


def _broken(path: Path, events: Iterable[Event], breaks: str) -> Iterator[Event]:
    """Yield events, with an end where the value of a field changes; warn if one comes back."""
    previous: Any = None
    left: set[str] = set()
    back: str | None = None
    for i, event in enumerate(events):
        value = event.fields[breaks]
        if i > 0 and value != previous:
            yield Event(None, ends=True, no_symbol=True)
            left.add(repr(previous))
            if back is None and repr(value) in left:
                back = shown(value)
        previous = value
        yield event
    if back is not None:
        warnings.warn(
            f"{path}: {back} in {breaks!r} comes back after other values, and every time a new "
            f"sequence starts; if the sequences are interleaved, --key {breaks} keeps each "
            f"together (instead of --breaks {breaks})",
            stacklevel=2,
        )


def _characters(path: Path) -> Iterator[Event]:
    with opened(path) as file:
        try:
            lines = [line.removesuffix("\n").removesuffix("\r") for line in text_lines(file)]
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
    for full, paragraph in groupby(lines, key=lambda line: bool(line.strip())):
        if full:
            yield from (Event(character) for character in "\n".join(paragraph))
        else:
            yield Event(None, ends=True, no_symbol=True)
