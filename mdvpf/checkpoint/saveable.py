"""Checkpoints: one file that holds a predictor, safe to read whoever wrote it.

A class that can be saved says what its instances are made of: numbers and names (`State.values`),
arrays (`State.arrays`), and others that can be saved (`State.parts`). From that follow `save`,
`load`, pickling and deep copies, which `Saveable` has for all of them. The file is that of
``file_format.py``.

Reading runs nothing that the file names: it can only choose among the classes that `register`
has been given.
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
from mdvpf.checkpoint.file_format import NONSENSE, CheckpointError, said

File = str | bytes | os.PathLike[Any] | IO[bytes]


@dataclass(frozen=True, slots=True)
class State:
    """What something that can be saved is made of.

    Attributes
    ----------
    values : dict
        Whatever JSON can hold; finite floats survive to the last bit.
    arrays : dict of ndarray
        Of one of the types in `file_format.DTYPES`, of any shape. Who reads them takes them away;
        what is left over is an error.
    parts : dict of str to object
        What is inside of this one and is saved in the same way.
    version : int
        The lowest version of the format whose readers know such values and arrays.
    """

    values: dict[str, Any]
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    parts: dict[str, Any] = field(default_factory=dict)
    version: int = 1


class Saveable(ABC):
    """Base of what can be saved: a class that `register` was given."""

    @abstractmethod
    def _to_checkpoint(self) -> State:
        """Return what it is made of."""

    @classmethod
    @abstractmethod
    def _from_checkpoint(cls, state: State, given: dict[str, Any]) -> Self:
        """Return what such a state makes, or raise; `given` is what the caller of `load` gave."""

    def _left_out(self) -> dict[str, Any]:
        """Return what a checkpoint does not hold and `load` asks for, by name."""
        return {}

    def save(self, file: File) -> None:
        """Write a checkpoint: everything that it takes to go on exactly as if never interrupted.

        Parameters
        ----------
        file : path or binary file
            Where to write. At a path, the file is replaced as a whole: whatever happens on the
            way, there is the old checkpoint or the new one.

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

        Nothing in the file is run, and no more memory taken than a small multiple of the file.

        Parameters
        ----------
        file : path or binary file
            What `save` wrote. ``Predictor.load`` reads a checkpoint of any predictor, the method
            of a class only those of that class.
        discount : callable, optional
            The discount of an `MDVPA` that had a callable, which files do not hold.
        emission : CompiledEmission, optional
            The family of a model that had one: files hold its name, its sizes and its prior
            predictive at some points, by which it is known again, but no code.

        Raises
        ------
        CheckpointError
            If the file is no checkpoint, is damaged, or contradicts itself.

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
    """Return what was pickled, or copied by `copy.deepcopy`."""
    return cls.load(io.BytesIO(content), **left_out)


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


def _name_of(thing: Saveable) -> str:
    for base in type(thing).__mro__:
        for name, cls in _CLASSES.items():
            if cls is base:
                return name
    raise TypeError(f"{type(thing).__name__} cannot be saved")


def encoded(thing: Saveable) -> list[bytes | memoryview]:
    """Return the parts of the file of a checkpoint."""
    arrays: dict[str, NDArray[Any]] = {}
    entry, version = _describe(thing, "", arrays)
    return file_format.encoded({"predictor": entry}, arrays, version)


def _describe(
    thing: Saveable, prefix: str, arrays: dict[str, NDArray[Any]]
) -> tuple[dict[str, Any], int]:
    """Return the header's entry of what is saved, and the version of the format that it needs.

    Its arrays, and those of its parts, are added to `arrays`.
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

    What files do not hold must be given if something in the file asks for it, and only then.
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
        thing = _made(header["predictor"], "", arrays, wanted, given, asked)
        if arrays:
            raise CheckpointError(f"file: nothing asks for the section {min(arrays)!r}")
    except CheckpointError:
        raise
    except NONSENSE as error:
        raise CheckpointError(f"file: {said(error)}") from error
    for name in given:
        if name not in asked:
            raise ValueError(f"{name}={given[name]!r}: the checkpoint holds its own; expected none")
    return thing


def _made(
    entry: Any,
    prefix: str,
    arrays: dict[str, NDArray[Any]],
    wanted: tuple[type[Any], ...],
    given: dict[str, Any],
    asked: set[str],
) -> Any:
    """Make what an entry of the header says; take its arrays, and those of its parts, away."""
    if set(entry) != {"class", "values", "parts"}:
        raise CheckpointError("file: the header makes no sense")
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
            name: _made(part, f"{prefix}{name}/", arrays, (object,), given, asked)
            for name, part in entry["parts"].items()
        },
    )
    thing = cls._from_checkpoint(state, _Given(given, asked))
    if state.arrays:
        raise CheckpointError(f"file: nothing asks for the section {min(state.arrays)!r}")
    return thing


class CallableNeeded(CheckpointError):
    """A checkpoint was saved with a callable, which `load` must be given."""


class _Given(dict[str, Any]):
    """What the caller of `load` gave, noting what is asked for."""

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


def require(holds: Any, message: str) -> None:
    """Raise unless something that a checkpoint says can be."""
    if not holds:
        raise CheckpointError(f"file: {message}")
