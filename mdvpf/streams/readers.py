"""A user's own stream from a file: one symbol a line, a column of a CSV file, or characters.

Whatever stands in a line, a cell or a character is a symbol; equal texts are equal symbols.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Sequences = list[list[str]]


@dataclass(frozen=True, slots=True, eq=False)
class FileStream:
    """The stream in a file.

    Attributes
    ----------
    name : str
        Name of the file.
    symbols : ndarray of int64
        The symbols, as indices of `labels`.
    labels : tuple of str
        What the symbols stand for, in alphabetical order.
    lengths : ndarray of int64 or None
        Lengths of the sequences that `symbols` joins; None if there is one.
    """

    name: str
    symbols: NDArray[np.int64]
    labels: tuple[str, ...]
    lengths: NDArray[np.int64] | None

    @property
    def n_symbols(self) -> int:
        """Size of the alphabet."""
        return len(self.labels)


def read_file(
    path: Path, *, column: str | None = None, breaks: str | None = None, text: bool = False
) -> FileStream:
    r"""Return the stream in a file.

    Parameters
    ----------
    path : Path
        The file, in UTF-8.
    column : str, optional
        Read this column of a CSV file with a header.
    breaks : str, optional
        With `column`: a new sequence starts where the value of this column changes.
    text : bool, default False
        Read characters, with blank lines between sequences. Otherwise, and without `column`, every
        line is a symbol and blank lines are between sequences.

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
    (stream,) = read_files([path], column=column, breaks=breaks, text=text)
    return stream


def read_files(
    paths: Sequence[Path],
    *,
    column: str | None = None,
    breaks: str | None = None,
    text: bool = False,
) -> list[FileStream]:
    r"""Return the streams in several files, which share one alphabet.

    Parameters
    ----------
    paths : sequence of Path
        The files, in UTF-8.
    column, breaks, text
        As for `read_file`, the same for all files.

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
    if text and column is not None:
        raise ValueError(f"text={text!r}, column={column!r}: expected at most one of them")
    if breaks is not None and column is None:
        raise ValueError(f"breaks={breaks!r}: expected only with column, the column of symbols")
    contents = [_read_sequences(path, column, breaks, text) for path in paths]
    words = {word for sequences in contents for sequence in sequences for word in sequence}
    vocabulary = {word: i for i, word in enumerate(sorted(words))}
    streams = []
    for path, sequences in zip(paths, contents, strict=True):
        n = sum(len(sequence) for sequence in sequences)
        if n < 2 or len(vocabulary) < 2:
            raise ValueError(
                f"{path}: {n} symbols, {len(vocabulary)} of them different; expected at least two"
            )
        symbols = np.array([vocabulary[word] for s in sequences for word in s], dtype=np.int64)
        lengths = np.array([len(sequence) for sequence in sequences], dtype=np.int64)
        several = lengths if len(lengths) > 1 else None
        streams.append(FileStream(path.name, symbols, tuple(vocabulary), several))
    return streams


def _read_sequences(path: Path, column: str | None, breaks: str | None, text: bool) -> Sequences:
    try:
        if column is not None:
            sequences = _read_column(path, column, breaks)
        else:
            sequences = _read_lines(path, text)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: expected text in UTF-8 ({error.reason})") from error
    except csv.Error as error:
        raise ValueError(f"{path}: expected CSV ({error})") from error
    return [sequence for sequence in sequences if sequence]


def _read_lines(path: Path, text: bool) -> Sequences:
    lines = path.read_text(encoding="utf-8-sig").split("\n")  # other separators are characters
    paragraphs = [list(part) for full, part in groupby(lines, key=_is_full) if full]
    if text:
        return [list("\n".join(paragraph)) for paragraph in paragraphs]
    return [[line.strip() for line in paragraph] for paragraph in paragraphs]


def _is_full(line: str) -> bool:
    return bool(line.strip())


def _read_column(path: Path, column: str, breaks: str | None) -> Sequences:
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.DictReader(file)
        names = rows.fieldnames or []
        for name in (column, breaks):
            if name is not None and name not in names:
                raise ValueError(f"{path}: no column {name!r}; expected one of {list(names)}")
        pairs = [(row[breaks] if breaks else "", row[column], i) for i, row in enumerate(rows)]
    parts = groupby(pairs, key=lambda pair: pair[0])
    return [list(_cells(path, column, part)) for _, part in parts]


def _cells(path: Path, column: str, part: Iterator[tuple[str, str | None, int]]) -> Iterator[str]:
    for _, cell, i in part:
        if not cell:
            raise ValueError(f"{path}: row {i + 1} has nothing in column {column!r}")
        yield cell
