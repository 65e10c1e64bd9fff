"""`Saveable`: save objects to a checkpoint, and load them safely from untrusted files.

A class that can be saved converts its instances to a `State`: JSON values, arrays, and parts, which
are other saveable objects. `Saveable` implements `save`, `load`, pickling and deep copies on top of
that. ``file_format.py`` encodes the file.

Loading a file runs no code from it. The file can only name classes that were registered with
`register`.
"""

from __future__ import annotations

import io
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO, Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from mdvpf.checkpoint import atomic_write, file_format
from mdvpf.checkpoint.file_format import INVALID, CheckpointError, message_of

File = str | bytes | os.PathLike[Any] | IO[bytes]


@dataclass(frozen=True, slots=True)
class State:
    """The content of a saveable object.

    Attributes
    ----------
    values : dict
        JSON values; finite floats are preserved exactly.
    arrays : dict of ndarray
        Arrays of any shape, of a type in `file_format.DTYPES`. A reader removes each array that it
        reads; arrays that remain are an error.
    parts : dict of str to object
        Saveable objects inside this one.
    version : int
        The lowest format version that can represent these values and arrays.
    """

    values: dict[str, Any]
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    parts: dict[str, Any] = field(default_factory=dict)
    version: int = 1


class Saveable(ABC):
    """Base class of objects that can be saved; concrete classes are registered by `register`."""

    @abstractmethod
    def _to_checkpoint(self) -> State:
        """Return the state of the object."""

    @classmethod
    @abstractmethod
    def _from_checkpoint(cls, state: State, given: dict[str, Any]) -> Self:
        """Return the object of a state, or raise; `given` holds the arguments of `load`."""

    def _left_out(self) -> dict[str, Any]:
        """Return the objects that a checkpoint cannot hold, by the argument of `load`."""
        return {}

    def save(self, file: File) -> None:
        """Write a checkpoint; what `load` returns continues exactly as this object would.

        Parameters
        ----------
        file : path or binary file
            Where to write. A file at a path is replaced atomically: after a failure the old
            checkpoint is still there.

        Examples
        --------
        >>> import io
        >>> import mdvpf
        >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(n_symbols=2), n_particles=10)
        >>> _ = pf.run([0, 1] * 20)
        >>> file = io.BytesIO()
        >>> pf.save(file)
        >>> _ = file.seek(0)
        >>> twin = mdvpf.ParticleFilter.load(file)
        >>> twin.update(0) == pf.update(0)
        True
        """
        chunks = encoded(self)
        if isinstance(file, (str, bytes, os.PathLike)):
            atomic_write.replace(file, chunks)
        else:
            file_format.write(file, chunks)

    @classmethod
    def load(
        cls,
        file: File,
        *,
        discount: Callable[[int], float] | None = None,
        emission: Any = None,
    ) -> Self:
        """Read a checkpoint.

        Loading runs no code from the file and needs memory of at most a small multiple of its size.

        Parameters
        ----------
        file : path or binary file
            A file that `save` wrote. ``Predictor.load`` reads a checkpoint of any predictor; the
            method of a subclass reads only checkpoints of that class.
        discount : callable, optional
            The callable discount of an `MDVPA`, which the file cannot hold.
        emission : CompiledEmission or Product, optional
            The compiled emission of the model, whose code the file cannot hold, or the whole
            product that contains it. It is compared with the name, the sizes and some values of the
            prior predictive in the file.

        Raises
        ------
        CheckpointError
            If the file is not a checkpoint, is damaged, or contradicts itself.

        Examples
        --------
        >>> import io
        >>> import mdvpf
        >>> algorithm = mdvpf.MDVPA(discount=lambda n: 1.0 / n**0.7)
        >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(n_symbols=2), algorithm, n_particles=10)
        >>> file = io.BytesIO()
        >>> pf.save(file)
        >>> _ = file.seek(0)
        >>> twin = mdvpf.Predictor.load(file, discount=lambda n: 1.0 / n**0.7)
        >>> twin.n_symbols
        2
        """
        loaded: Self = load(file, (cls,), discount, emission)
        return loaded

    def __reduce__(self) -> tuple[Any, ...]:
        return unpickled, (type(self), b"".join(encoded(self)), self._left_out())


def unpickled(cls: type[Saveable], content: bytes, left_out: dict[str, Any]) -> Any:
    """Restore an object that was pickled or copied by `copy.deepcopy`."""
    return cls.load(io.BytesIO(content), **left_out)


_CLASSES: dict[str, type[Saveable]] = {}
_Class = TypeVar("_Class", bound=type[Saveable])


def register(name: str) -> Callable[[_Class], _Class]:
    """Register a class whose instances checkpoints may hold, under a name that never changes."""

    def decorate(cls: _Class) -> _Class:
        assert name not in _CLASSES
        _CLASSES[name] = cls
        return cls

    return decorate


# --- Writing


def _name_of(thing: Saveable) -> str:
    for base in type(thing).__mro__:
        for name, cls in _CLASSES.items():
            if cls is base:
                return name
    raise TypeError(f"{type(thing).__name__} cannot be saved")


def encoded(thing: Saveable) -> list[bytes | memoryview]:
    """Return the chunks of a checkpoint file."""
    arrays: dict[str, NDArray[Any]] = {}
    entry, version = _describe(thing, "", arrays)
    return file_format.encoded({"predictor": entry}, arrays, version)


def _describe(
    thing: Saveable, prefix: str, arrays: dict[str, NDArray[Any]]
) -> tuple[dict[str, Any], int]:
    """Return the header entry of an object and the format version that it needs.

    Adds the arrays of the object and of its parts to `arrays`.
    """
    state = thing._to_checkpoint()
    arrays |= {prefix + name: array for name, array in state.arrays.items()}
    version = state.version
    parts = {}
    for name, part in state.parts.items():
        parts[name], needed = _describe(part, f"{prefix}{name}/", arrays)
        version = max(version, needed)
    return {"class": _name_of(thing), "values": state.values, "parts": parts}, version


# --- Reading


def load(
    file: File,
    wanted: tuple[type[Any], ...],
    discount: Callable[[int], float] | None = None,
    emission: Any = None,
) -> Any:
    """Read a checkpoint of one of the wanted classes from a path or a binary file.

    `discount` and `emission` must be given if and only if an object in the file needs them.
    """
    if discount is not None and not callable(discount):
        raise TypeError(f"discount={discount!r}: expected a callable, or None")
    given: dict[str, Any] = {} if discount is None else {"discount": discount}
    if emission is not None:
        given["emission"] = emission
    if isinstance(file, (str, bytes, os.PathLike)):
        try:
            with open(file, "rb") as opened:
                return _load(opened, wanted, given, ends=True)
        except CheckpointError as error:
            name = f"file={os.fsdecode(file)!r}"
            message = str(error).removeprefix("file: ")
            raise type(error)(f"{name}: {message}") from error.__cause__
    return _load(file, wanted, given, ends=False)


def _load(
    file: IO[bytes], wanted: tuple[type[Any], ...], given: dict[str, Any], *, ends: bool
) -> Any:
    header, arrays = file_format.read(file)
    if ends and file.read(1):
        raise CheckpointError("file: there is more after the end of the checkpoint")
    asked: set[str] = set()
    try:
        thing = _read_entry(header["predictor"], "", arrays, wanted, given, asked)
        if arrays:
            raise CheckpointError(f"file: unused section {min(arrays)!r}")
    except CheckpointError:
        raise
    except INVALID as error:
        raise CheckpointError(f"file: {message_of(error)}") from error
    for name in given:
        if name not in asked:
            raise ValueError(f"{name}={given[name]!r}: the checkpoint holds its own; expected none")
    return thing


def _read_entry(
    entry: Any,
    prefix: str,
    arrays: dict[str, NDArray[Any]],
    wanted: tuple[type[Any], ...],
    given: dict[str, Any],
    asked: set[str],
) -> Any:
    """Return the object of a header entry; remove its arrays and those of its parts."""
    if set(entry) != {"class", "values", "parts"}:
        raise CheckpointError("file: the header is invalid")
    cls: Any = _CLASSES.get(entry["class"])
    if cls is None:
        raise CheckpointError(
            f"file: it holds a {entry['class']!r}, which this mdvpf does not know"
        )
    cls = next((kind for kind in wanted if issubclass(kind, cls)), cls)
    if not issubclass(cls, wanted):
        raise CheckpointError(f"file: it holds a {entry['class']}; expected a {wanted[0].__name__}")
    own = [name for name in arrays if name.startswith(prefix) and "/" not in name[len(prefix) :]]
    state = State(
        entry["values"],
        {name[len(prefix) :]: arrays.pop(name) for name in own},
        {
            name: _read_entry(part, f"{prefix}{name}/", arrays, (object,), given, asked)
            for name, part in entry["parts"].items()
        },
    )
    thing = cls._from_checkpoint(state, _Given(given, asked))
    if state.arrays:
        raise CheckpointError(f"file: unused section {min(state.arrays)!r}")
    return thing


class CallableNeeded(CheckpointError):
    """A checkpoint was saved with a callable, which `load` must be given."""


class _Given(dict[str, Any]):
    """The arguments of `load`; records which of them were used."""

    def __init__(self, given: dict[str, Any], asked: set[str]) -> None:
        super().__init__(given)
        self._asked = asked

    def __getitem__(self, name: str) -> Any:
        self._asked.add(name)
        if name not in self:
            raise CallableNeeded(
                f"{name}: the checkpoint was saved with a callable, which files do not hold; "
                f"expected load(file, {name}=...)"
            )
        return super().__getitem__(name)


def narrow(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array of integers >= 0 in the narrowest unsigned type that holds them."""
    return array.astype(np.min_scalar_type(int(array.max(initial=0))))


def widen(array: NDArray[Any], kind: str) -> NDArray[Any]:
    """Return a one-dimensional array of unsigned integers in a wider type, or raise."""
    if array.ndim != 1 or array.dtype.kind != "u" or array.dtype.itemsize > np.dtype(kind).itemsize:
        raise CheckpointError(f"file: a section of type {array.dtype}, shape {array.shape}")
    return array.astype(kind)


def read_array(state: State, name: str, kind: str, shape: tuple[int | None, ...]) -> NDArray[Any]:
    """Remove and return an array of a state, of the given type and shape; None is any length."""
    array = state.arrays.pop(name)
    fits = len(shape) == array.ndim and all(
        wanted in (None, found) for wanted, found in zip(shape, array.shape, strict=True)
    )
    if array.dtype != np.dtype(kind) or not fits:
        raise CheckpointError(f"file: {name} of type {array.dtype}, shape {array.shape}")
    return array.astype(np.dtype(kind).newbyteorder("="))


def require(holds: Any, message: str) -> None:
    """Raise a `CheckpointError` unless a condition on the content holds."""
    if not holds:
        raise CheckpointError(f"file: {message}")
