"""Read whole files as bytes, lines or text; gzip is recognised by its first two bytes."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from mdvpf.streams.excerpts import shown

GZIP = b"\x1f\x8b"
LONGEST_LINE = 1 << 24  # bytes; bounds the memory for a file without newlines


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading bytes, and decompress it if it is compressed by gzip.

    Damaged gzip data is a ValueError that names the file.

    Examples
    --------
    >>> import gzip, pathlib, tempfile
    >>> from mdvpf.streams.input_files import opened
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "clicks.txt")
    ...     _ = path.write_bytes(gzip.compress(b"news"))
    ...     with opened(path) as file:
    ...         print(file.read())
    b'news'
    """
    with path.open("rb") as raw:
        packed = raw.peek(2)[:2] == GZIP  # peek keeps the bytes in the buffer
        try:
            if packed:
                with gzip.GzipFile(fileobj=raw) as unpacked:
                    yield cast(BinaryIO, unpacked)
            else:
                yield raw
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(f"{path}: expected a complete gzip file ({error})") from error


def read_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a file with their newlines; a line that is too long is an error."""
    while line := file.readline(LONGEST_LINE + 1):
        if len(line) > LONGEST_LINE:
            raise ValueError(f"{shown(line)}: expected lines of at most {LONGEST_LINE} bytes")
        yield line


def text_lines(file: BinaryIO) -> Iterator[str]:
    """Yield the lines of a UTF-8 file with their newlines, without a byte order mark."""
    encoding = "utf-8-sig"
    for i, line in enumerate(read_lines(file)):
        try:
            yield line.decode(encoding)
        except UnicodeDecodeError as error:
            raise ValueError(f"line {i + 1}: expected text in UTF-8 ({error.reason})") from None
        encoding = "utf-8"
