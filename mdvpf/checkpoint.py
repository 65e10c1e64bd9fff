"""Checkpoints: one file that holds a predictor, safe to read whoever wrote it.

A predictor that can be saved says what it is made of: numbers and names (`State.values`), arrays
(`State.arrays`), and other predictors (`State.parts`). This module knows the file around them:
a JSON header that lists the arrays, the arrays themselves, and checksums over every byte. The
format is described in ``docs/design.md``.

Reading runs nothing that the file names: it can only choose among the classes that `register`
has been given. No more is read than is there, and no array is made before its bytes have come
in and their checksum holds.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO, Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from mdvpf import _durable

MAGIC = b"\x89MDVPF\r\n"  # not text, and spoilt by any conversion of line ends
VERSION = 1
PREFIX = struct.Struct("<8sIQ")  # magic, version, bytes of the header
DIGEST_BYTES = 16
DTYPES = ("|u1", "<u2", "<u4", "<u8", "<i4", "<i8", "<f8")

_CHUNK = 1 << 20
_LARGEST_HEADER = 1 << 32

# What reading raises where values are not what they should be.
_NONSENSE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)

File = str | bytes | os.PathLike[Any] | IO[bytes]


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


@dataclass(frozen=True, slots=True)
class State:
    """What a predictor is made of.

    Attributes
    ----------
    values : dict
        Whatever JSON can hold; finite floats survive to the last bit.
    arrays : dict of ndarray
        Of one of the types in `DTYPES`, of any shape. Who reads them takes them away; what is
        left over is an error.
    parts : dict of str to object
        Predictors inside of this one, which are saved in the same way.
    """

    values: dict[str, Any]
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    parts: dict[str, Any] = field(default_factory=dict)


class Saveable(Protocol):
    """What can be saved: a class that `register` was given."""

    def _to_checkpoint(self) -> State:
        """Return what it is made of."""

    @classmethod
    def _from_checkpoint(cls, state: State, given: dict[str, Any]) -> Any:
        """Return what such a state makes, or raise; `given` is what the caller of `load` gave."""


_CLASSES: dict[str, type[Saveable]] = {}
_Class = TypeVar("_Class", bound=type[Saveable])


def register(name: str) -> Callable[[_Class], _Class]:
    """Let checkpoints hold instances of a class, under a name that never changes."""

    def decorate(cls: _Class) -> _Class:
        assert name not in _CLASSES
        _CLASSES[name] = cls
        return cls

    return decorate


# --- Writing


def save(thing: Saveable, file: File) -> None:
    """Write a checkpoint to a path, so that the file there is always whole, or to a binary file."""
    chunks = _encoded(thing)
    if isinstance(file, (str, bytes, os.PathLike)):
        _durable.replace(file, chunks)
        return
    if not hasattr(file, "write"):
        raise TypeError(f"file={file!r}: expected a path or a binary file")
    for chunk in chunks:
        file.write(chunk)


def to_bytes(thing: Saveable) -> bytes:
    """Return a checkpoint as bytes."""
    return b"".join(_encoded(thing))


def _name_of(thing: Saveable) -> str:
    for base in type(thing).__mro__:
        for name, cls in _CLASSES.items():
            if cls is base:
                return name
    raise TypeError(f"{type(thing).__name__} cannot be saved")


def _describe(thing: Saveable, prefix: str, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """Return the header's entry of a predictor; add its arrays, and those of its parts."""
    state = thing._to_checkpoint()
    for name, array in state.arrays.items():
        assert array.dtype.newbyteorder("<").str in DTYPES
        arrays[prefix + name] = np.ascontiguousarray(
            array, dtype=np.dtype(array.dtype).newbyteorder("<")
        )
    return {
        "class": _name_of(thing),
        "values": state.values,
        "parts": {
            name: _describe(part, f"{prefix}{name}/", arrays) for name, part in state.parts.items()
        },
    }


def _encoded(thing: Saveable) -> list[bytes | memoryview]:
    arrays: dict[str, NDArray[Any]] = {}
    header: dict[str, Any] = {"predictor": _describe(thing, "", arrays)}
    contents = [array.reshape(-1).view(np.uint8).data for array in arrays.values()]
    header["sections"] = [
        {
            "name": name,
            "dtype": array.dtype.str,
            "shape": list(array.shape),
            "digest": _digest(content).hex(),
        }
        for (name, array), content in zip(arrays.items(), contents, strict=True)
    ]
    text = json.dumps(header, allow_nan=False, separators=(",", ":")).encode("ascii")
    prefix = PREFIX.pack(MAGIC, VERSION, len(text))
    return [prefix, _digest(prefix, text), text, *contents]


def _digest(*contents: bytes | memoryview) -> bytes:
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for content in contents:
        digest.update(content)
    return digest.digest()


# --- Reading


def load(file: File, wanted: type[Any], given: dict[str, Any]) -> Any:
    """Read a checkpoint of the wanted class from a path or a binary file.

    `given` has what files do not hold, by name; each must be asked for by something in the file.
    """
    if isinstance(file, (str, bytes, os.PathLike)):
        with open(file, "rb") as opened:
            return _load(opened, wanted, given, ends=True)
    if not hasattr(file, "read"):
        raise TypeError(f"file={file!r}: expected a path or a binary file")
    return _load(file, wanted, given, ends=False)


def _load(file: IO[bytes], wanted: type[Any], given: dict[str, Any], *, ends: bool) -> Any:
    header, arrays = read(file)
    if ends and file.read(1):
        raise CheckpointError("file: there is more after the end of the checkpoint")
    asked: set[str] = set()
    try:
        thing = _made(header["predictor"], "", arrays, wanted, given, asked)
        if arrays:
            raise CheckpointError(f"file: nothing asks for the section {min(arrays)!r}")
    except CheckpointError:
        raise
    except _NONSENSE as error:
        raise CheckpointError(f"file: {_said(error)}") from error
    for name in given:
        if name not in asked:
            raise ValueError(f"{name}={given[name]!r}: the checkpoint holds its own; expected none")
    return thing


def read(file: IO[bytes]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the header and the arrays of a checkpoint, once all checksums hold."""
    prefix = _read_exactly(file, PREFIX.size, "file: not a checkpoint of mdvpf")
    magic, version, n_bytes = PREFIX.unpack(prefix)
    if magic != MAGIC:
        raise CheckpointError("file: not a checkpoint of mdvpf")
    if version != VERSION:
        raise CheckpointError(
            f"file: a checkpoint of format version {version}; expected {VERSION}, "
            "or an mdvpf that knows it"
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
    except _NONSENSE as error:
        raise CheckpointError(f"file: the header makes no sense: {_said(error)}") from error
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
        # NumPy wants the product of what is not 0 to fit, even where there is nothing.
        sizes = [n for n in self.shape if type(n) is int and n >= 0]
        if len(sizes) < len(self.shape) or math.prod(n or 1 for n in sizes) >= 2**56:
            raise ValueError(f"section {self.name!r}: shape")

    @property
    def n_bytes(self) -> int:
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


def _said(error: Exception) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number")


def _read_exactly(file: IO[bytes], n: int, message: str = "file: it ends too early") -> bytes:
    """Read n bytes, a little at a time: how long the file really is, only reading tells."""
    chunks = []
    while n:
        chunk = file.read(min(n, _CHUNK))
        if not isinstance(chunk, bytes):
            raise TypeError(f"file={file!r}: expected a path or a binary file")
        if not chunk:
            raise CheckpointError(message)
        chunks.append(chunk)
        n -= len(chunk)
    return b"".join(chunks)


def _made(
    entry: Any,
    prefix: str,
    arrays: dict[str, NDArray[Any]],
    wanted: type[Any],
    given: dict[str, Any],
    asked: set[str],
) -> Any:
    """Make the predictor of a header's entry; take its arrays, and those of its parts, away."""
    if set(entry) != {"class", "values", "parts"}:
        raise CheckpointError("file: the header makes no sense")
    cls: Any = _CLASSES.get(entry["class"])
    if cls is None:
        raise CheckpointError(
            f"file: it holds a {entry['class']!r}, which this mdvpf does not know"
        )
    if issubclass(wanted, cls):
        cls = wanted
    if not issubclass(cls, wanted):
        raise CheckpointError(f"file: it holds a {entry['class']}; expected a {wanted.__name__}")
    own = [name for name in arrays if name.startswith(prefix) and "/" not in name[len(prefix) :]]
    state = State(
        entry["values"],
        {name[len(prefix) :]: arrays.pop(name) for name in own},
        {
            name: _made(part, f"{prefix}{name}/", arrays, object, given, asked)
            for name, part in entry["parts"].items()
        },
    )
    thing = cls._from_checkpoint(state, _Given(given, asked))
    if state.arrays:
        raise CheckpointError(f"file: nothing asks for the section {min(state.arrays)!r}")
    return thing


class _Given(dict[str, Any]):
    """What the caller of `load` gave, noting what is asked for."""

    def __init__(self, given: dict[str, Any], asked: set[str]) -> None:
        super().__init__(given)
        self._asked = asked

    def __getitem__(self, name: str) -> Any:
        self._asked.add(name)
        if name not in self:
            raise CheckpointError(
                f"{name}: the checkpoint was saved with a callable, which files do not hold; "
                f"expected load(file, {name}=...)"
            )
        return super().__getitem__(name)


def narrowed(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array of integers >= 0 in the least width that holds them."""
    return array.astype(np.min_scalar_type(int(array.max(initial=0))))


def widened(array: NDArray[Any], kind: str) -> NDArray[Any]:
    """Return an array of integers >= 0, of whatever width, in one dimension and another width."""
    if array.ndim != 1 or array.dtype.kind != "u" or array.dtype.itemsize > np.dtype(kind).itemsize:
        raise CheckpointError(f"file: a section of type {array.dtype}, shape {array.shape}")
    return array.astype(kind)


def taken(state: State, name: str, kind: str, shape: tuple[int | None, ...]) -> NDArray[Any]:
    """Take an array from a state; it must have the type and the shape, where None is any length."""
    array = state.arrays.pop(name)
    fits = len(shape) == array.ndim and all(
        wanted in (None, found) for wanted, found in zip(shape, array.shape, strict=True)
    )
    if array.dtype != np.dtype(kind) or not fits:
        raise CheckpointError(f"file: {name} of type {array.dtype}, shape {array.shape}")
    return array.astype(np.dtype(kind).newbyteorder("="))
