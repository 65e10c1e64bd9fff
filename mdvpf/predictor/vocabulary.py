"""Vocabularies: labels of any kind on one side, symbols 0..V-1 on the other.

Predictors take symbols; streams hold words, commands, page names. A `Vocabulary` translates in
both directions, never changes, and is saved with the predictor that it is assigned to.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mdvpf._support import validate

Label = str | int | bytes | tuple["Label", ...]

_EXPECTED = "a str, an int, bytes, or a tuple of these"


class Vocabulary:
    """A fixed one-to-one map between labels and symbols.

    Symbols are the places of the labels in the order given. A label that is not among them is an
    error, unless `unknown` is given: then it goes to one more symbol, the last.

    Parameters
    ----------
    labels : iterable of str, int, bytes, or tuples of these
        The labels, each once. Numbers and strings are different labels: 1 is not "1".
    unknown : label, optional
        The label that stands for all that are not in `labels`.

    Attributes
    ----------
    labels : tuple
        As passed, without `unknown`.
    unknown : label or None
        As passed.

    Examples
    --------
    >>> import mdvpf
    >>> vocabulary = mdvpf.Vocabulary(["ls", "cd", "make"], unknown="<other>")
    >>> vocabulary.encode(["cd", "make", "rm"]).tolist()
    [1, 2, 3]
    >>> vocabulary.decode([0, 3])
    ['ls', '<other>']
    >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(vocabulary.n_symbols), n_particles=10)
    >>> pf.vocabulary = vocabulary
    """

    __slots__ = ("_symbols", "labels", "unknown")

    labels: tuple[Label, ...]
    unknown: Label | None
    _symbols: dict[Label, int]

    def __init__(self, labels: Iterable[Label], unknown: Label | None = None) -> None:
        read = tuple(_read_all("labels", labels))
        symbols: dict[Label, int] = {}
        for i, label in enumerate(read):
            if symbols.setdefault(label, i) != i:
                raise ValueError(
                    f"labels[{i}]={reprlib.repr(label)}: expected every label once, and this is "
                    f"labels[{symbols[label]}] too"
                )
        if unknown is not None:
            unknown = _read("unknown", unknown)
            if symbols.setdefault(unknown, len(read)) != len(read):
                raise ValueError(
                    f"unknown={reprlib.repr(unknown)}: expected a label that is not in labels"
                )
        if not symbols:
            raise ValueError("labels: got none; expected at least one, or unknown")
        put = object.__setattr__
        put(self, "labels", read)
        put(self, "unknown", unknown)
        put(self, "_symbols", symbols)

    @classmethod
    def from_data(cls, data: Iterable[Label | None], unknown: Label | None = None) -> Self:
        """Return the vocabulary of some data: its labels, in order of first appearance.

        Parameters
        ----------
        data : iterable of labels
            The data; None and pandas.NA, a missing label, are passed over, and so is `unknown`.
        unknown : label, optional
            As for the class.

        Examples
        --------
        >>> import mdvpf
        >>> mdvpf.Vocabulary.from_data("abracadabra").labels
        ('a', 'b', 'r', 'c', 'd')
        """
        labels = dict.fromkeys(_read_all("data", data, missing=True))
        labels.pop(None, None)
        if unknown is not None:
            labels.pop(_read("unknown", unknown), None)
        return cls((label for label in labels if label is not None), unknown)

    @property
    def n_symbols(self) -> int:
        """Number of symbols, that of the unknown labels included."""
        return len(self._symbols)

    def encode(self, labels: Iterable[Label | None]) -> NDArray[np.int64]:
        """Return the symbols of labels, as predictors take them.

        Parameters
        ----------
        labels : iterable of labels
            The labels. None and pandas.NA are missing ones: where there are any, the array is a
            masked one.

        Examples
        --------
        >>> import mdvpf
        >>> vocabulary = mdvpf.Vocabulary("ab")
        >>> vocabulary.encode("abba").tolist()
        [0, 1, 1, 0]
        >>> vocabulary.encode(["a", None]).tolist()
        [0, None]
        """
        read = list(_read_all("labels", labels, missing=True))
        symbols = [
            -1 if label is None else self._symbol(f"labels[{i}]", label)
            for i, label in enumerate(read)
        ]
        array = np.array(symbols, dtype=np.int64)
        return np.ma.masked_equal(array, -1) if None in read else array

    def decode(self, symbols: ArrayLike) -> list[Label | None]:
        """Return the labels of symbols; None where one is missing.

        Parameters
        ----------
        symbols : array_like of int
            The symbols. Missing ones are None in a sequence, or masked in a masked array.

        Examples
        --------
        >>> import mdvpf
        >>> mdvpf.Vocabulary("ab").decode([1, 0, None])
        ['b', 'a', None]
        """
        values = validate.integers(
            "symbols", symbols, low=0, high=self.n_symbols - 1, missing=-1
        ).tolist()
        labels = list(self)
        return [None if symbol < 0 else labels[symbol] for symbol in values]

    def _symbol(self, name: str, label: Label) -> int:
        symbol = self._symbols.get(label)
        if symbol is not None:
            return symbol
        if self.unknown is None:
            raise ValueError(
                f"{name}={reprlib.repr(label)}: expected one of the {len(self)} labels of the "
                "vocabulary (with unknown=, it would be taken for that)"
            )
        return len(self.labels)

    def __getitem__(self, label: Label) -> int:
        """Return the symbol of one label.

        Examples
        --------
        >>> import mdvpf
        >>> mdvpf.Vocabulary(["ls", "cd"])["cd"]
        1
        """
        return self._symbol("label", _read("label", label))

    def __iter__(self) -> Iterator[Label]:
        return iter(self._symbols)

    def __contains__(self, label: object) -> bool:
        try:
            return _read("label", label) in self._symbols
        except TypeError:
            return False

    def __len__(self) -> int:
        return self.n_symbols

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vocabulary):
            return NotImplemented
        return self.labels == other.labels and self.unknown == other.unknown

    def __hash__(self) -> int:
        return hash((self.labels, self.unknown))

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a Vocabulary does not change: {name} cannot be set")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.labels, self.unknown)

    def __repr__(self) -> str:
        unknown = "" if self.unknown is None else f", unknown={reprlib.repr(self.unknown)}"
        return f"Vocabulary({reprlib.repr(self.labels)}{unknown})"

    # -- in a checkpoint -------------------------------------------------------------------

    def _values(self) -> dict[str, Any]:
        return {
            "labels": [_to_json(label) for label in self.labels],
            "unknown": None if self.unknown is None else _to_json(self.unknown),
        }

    @classmethod
    def _from_values(cls, values: dict[str, Any]) -> Self:
        unknown = values["unknown"]
        return cls(
            [_from_json(label) for label in values["labels"]],
            None if unknown is None else _from_json(unknown),
        )


def _read(name: str, label: Any) -> Label:
    """Return a label as one of the built-in types, or raise."""
    if isinstance(label, str):
        return str(label)
    if isinstance(label, bytes):
        return bytes(label)
    if isinstance(label, (int, np.integer)) and not isinstance(label, bool):
        return int(label)
    if isinstance(label, tuple):
        return tuple(_read(name, part) for part in label)
    raise TypeError(f"{name}={reprlib.repr(label)}: expected {_EXPECTED}")


def _read_all(name: str, labels: Any, *, missing: bool = False) -> Iterator[Any]:
    if isinstance(labels, (Mapping, Set)) or not isinstance(labels, Iterable):
        raise TypeError(f"{name}={reprlib.repr(labels)}: expected labels in order")
    for i, label in enumerate(validate.without_nulls(labels) if missing else labels):
        yield None if missing and validate.is_missing(label) else _read(f"{name}[{i}]", label)


def _to_json(label: Label) -> Any:
    """Return a label as JSON: text and numbers as such, bytes in hexadecimal, tuples as lists."""
    if isinstance(label, bytes):
        return {"bytes": label.hex()}
    if isinstance(label, tuple):
        return [_to_json(part) for part in label]
    return label


def label_text(label: Label) -> str:
    """Return a label as it stands in a line of text: text as it is, all else as JSON.

    Examples
    --------
    >>> from mdvpf.predictor.vocabulary import label_text
    >>> label_text("cd"), label_text(7), label_text(("cd", 7))
    ('cd', '7', '["cd", 7]')
    """
    return label if isinstance(label, str) else json.dumps(_to_json(label))


def _from_json(value: Any) -> Label:
    if isinstance(value, dict):
        return bytes.fromhex(value["bytes"])
    if isinstance(value, list):
        return tuple(_from_json(part) for part in value)
    return _read("label", value)
