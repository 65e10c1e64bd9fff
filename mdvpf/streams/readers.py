"""`read_file` and `read_files`: streams in files of the user, for the commands.

Plain files have one symbol a line, or characters as symbols. Other formats have fields, and
`column` names the field of the symbol; its values become symbols. A file that seems to contradict
the options is refused, or read with a warning.
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
from mdvpf.streams.plain_lines import check_plain_lines
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
        The labels of the symbols, in alphabetical order.
    lengths : ndarray of int64 or None
        Lengths of the concatenated sequences; None for a single one, or with keys.
    keys : list of labels or None
        The key of each symbol; None without keys.
    times : ndarray of float64 or None
        The time of each symbol in seconds since 1970; None without times.
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
        """Whether the symbols of any key are not contiguous.

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
        """Return the stream with each key as one sequence, in the order of first appearance.

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
        indices: dict[Label, list[int]] = {}
        for i, key in enumerate(self.keys):
            indices.setdefault(key, []).append(i)
        order = np.array([i for each in indices.values() for i in each], dtype=np.int64)
        lengths = np.array([len(each) for each in indices.values()], dtype=np.int64)
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
        The file, in UTF-8 if it is text. It may be compressed by gzip.
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
        Field of the symbol: a column of a table, or a path in JSON lines.
    breaks : str, optional
        A new sequence starts where the value of this field changes.
    text : bool, default False
        Read characters, with blank lines between sequences.
    format : str, optional
        As for `read_events`. By default the suffix of the file decides; for an unknown suffix "csv"
        with `column` and "lines" without.
    least_labels : int, default 2
        Smallest number of distinct symbols that the files must have together.
    **options
        `key`, `time`, `by_time` and all other options of `read_events`.

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
        if n < 2:
            raise ValueError(f"{path}: {n} symbol{'s' * (n != 1)}; expected at least two")
        if len(ordered) < least_labels:
            raise ValueError(
                f"{path}: all {n:,} symbols are {ordered[0]!r}; expected at least two different"
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
            raise ValueError(f"breaks={breaks!r}: expected only with column, the field of symbols")
        if column is not None:
            raise ValueError(
                f"column={column!r}: the format 'lines' has no fields; expected another format"
            )
        if format is None:
            check_plain_lines(path)
    elif column is None and name not in _WITHOUT_COLUMNS:
        raise ValueError(
            f"{path}: column is not given; expected --column, the field of the symbol in {name} "
            "(or --format lines, if every line is a symbol)"
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
    return _split(path, read_events(path, format=name, symbol=column, **others), breaks)


def _split(path: Path, events: Iterable[Event], breaks: str) -> Iterator[Event]:
    """Yield events, and end the sequence where a field changes; warn if a value comes back."""
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
            f"{path}: {back} in {breaks!r} comes back after other values, and each time starts a "
            f"new sequence; if the sequences are interleaved, use --key {breaks} instead of "
            f"--breaks {breaks}",
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
