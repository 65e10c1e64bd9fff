"""The file of a checkpoint: a JSON header that lists arrays, the arrays, checksums over every byte.

This module does not interpret the header. It allocates memory only for bytes that the file really
has, and creates an array only after its checksum matches. ``docs/design.md`` describes the format.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

MAGIC = b"\x89MDVPF\r\n"  # not text; any conversion of line ends would damage it
VERSIONS = (1, 2, 3)  # `filter/saved_state.py` describes which filters need version 2 or 3
PREFIX = struct.Struct("<8sIQ")  # magic, version, bytes of the header
DIGEST_BYTES = 16
DTYPES = ("|u1", "<u2", "<u4", "<u8", "<i4", "<i8", "<f8")

_CHUNK = 1 << 20
_LARGEST_HEADER = 1 << 32

# The errors that reading raises if values in a file are invalid.
INVALID = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


class CheckpointError(ValueError):
    """A file is not a checkpoint, is damaged, or contradicts itself.

    Examples
    --------
    >>> import io
    >>> import mdvpf
    >>> try:
    ...     mdvpf.ParticleFilter.load(io.BytesIO(b"not a checkpoint"))
    ... except mdvpf.CheckpointError as error:
    ...     print(error)
    file: not a checkpoint of mdvpf
    """


def encoded(
    header: dict[str, Any], arrays: dict[str, NDArray[Any]], version: int = 1
) -> list[bytes | memoryview]:
    """Return the parts of a file with a header and arrays of types in `DTYPES`.

    `version` is the lowest format version that can represent the content.
    """
    stored = {name: _little_endian(array) for name, array in arrays.items()}
    contents = [array.reshape(-1).view(np.uint8).data for array in stored.values()]
    sections = [
        {
            "name": name,
            "dtype": array.dtype.str,
            "shape": list(array.shape),
            "digest": _digest(content).hex(),
        }
        for (name, array), content in zip(stored.items(), contents, strict=True)
    ]
    whole = {**header, "sections": sections}
    text = json.dumps(whole, allow_nan=False, separators=(",", ":")).encode("ascii")
    prefix = PREFIX.pack(MAGIC, version, len(text))
    return [prefix, _digest(prefix, text), text, *contents]


def _little_endian(array: NDArray[Any]) -> NDArray[Any]:
    kind = array.dtype.newbyteorder("<")
    assert kind.str in DTYPES
    return np.ascontiguousarray(array, dtype=kind)


def _digest(*contents: bytes | memoryview) -> bytes:
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for content in contents:
        digest.update(content)
    return digest.digest()


def read(file: Any) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the header and the arrays of a checkpoint, after verifying all checksums."""
    if not hasattr(file, "read"):
        raise _not_a_file(file)
    prefix = _read_exactly(file, PREFIX.size, "file: not a checkpoint of mdvpf")
    magic, version, n_bytes = PREFIX.unpack(prefix)
    if magic != MAGIC:
        raise CheckpointError("file: not a checkpoint of mdvpf")
    if version not in VERSIONS:
        raise CheckpointError(
            f"file: a checkpoint of format version {version}; expected 1 to {VERSIONS[-1]}, "
            "or a newer mdvpf"
        )
    if n_bytes > _LARGEST_HEADER:
        raise CheckpointError("file: the header is damaged")
    digest = _read_exactly(file, DIGEST_BYTES)
    text = _read_exactly(file, n_bytes)
    if _digest(prefix, text) != digest:
        raise CheckpointError("file: the header is damaged")
    try:
        header = json.loads(text, parse_constant=_refuse_constant)
        sections = [_Section(**entry) for entry in header["sections"]]
    except INVALID as error:
        raise CheckpointError(f"file: the header is invalid: {message_of(error)}") from error
    arrays: dict[str, NDArray[Any]] = {}
    for section in sections:
        if section.name in arrays:
            raise CheckpointError(f"file: the section {section.name!r} occurs twice")
        content = _read_exactly(file, section.n_bytes)
        if _digest(content).hex() != section.digest:
            raise CheckpointError(f"file: the section {section.name!r} is damaged")
        arrays[section.name] = np.frombuffer(content, section.dtype).reshape(section.shape)
    return header, arrays


@dataclass(frozen=True, slots=True)
class _Section:
    """An array in the file, as the header lists it."""

    name: str
    dtype: str
    shape: list[int]
    digest: str

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or self.dtype not in DTYPES or len(self.shape) > 8:
            raise ValueError(f"section {self.name!r}")
        # NumPy requires the product of the non-zero sizes to fit, even if the array is empty.
        sizes = [n for n in self.shape if type(n) is int and n >= 0]
        if len(sizes) < len(self.shape) or math.prod(n or 1 for n in sizes) >= 2**56:
            raise ValueError(f"section {self.name!r}: shape")

    @property
    def n_bytes(self) -> int:
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


def message_of(error: Exception) -> str:
    """Return the message of an error."""
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number")


def _read_exactly(file: IO[bytes], n: int, message: str = "file: it ends too early") -> bytes:
    """Read n bytes in chunks, because n is a claim of the file that may be false."""
    chunks = []
    while n:
        chunk = file.read(min(n, _CHUNK))
        if not isinstance(chunk, bytes):
            raise _not_a_file(file)
        if not chunk:
            raise CheckpointError(message)
        chunks.append(chunk)
        n -= len(chunk)
    return b"".join(chunks)


def write(file: Any, chunks: Iterable[bytes | memoryview]) -> None:
    """Write all chunks; an unbuffered file may need several calls for one chunk."""
    if isinstance(file, io.TextIOBase) or not hasattr(file, "write"):
        raise _not_a_file(file)
    for chunk in chunks:
        written = file.write(chunk)
        while written is not None and written < len(chunk):
            chunk = memoryview(chunk)[written:]
            written = file.write(chunk)


def _not_a_file(file: Any) -> TypeError:
    return TypeError(f"file={file!r}: expected a path or a binary file")
