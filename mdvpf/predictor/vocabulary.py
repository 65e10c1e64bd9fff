"""Vocabularies: a one-to-one map between labels and the symbols 0..V-1.

Predictors take symbols; streams hold words, commands, page names. A `Vocabulary` translates in
both directions and is saved with its predictor. It is immutable unless it is open; an open
vocabulary adds new labels as they appear.
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
    """A one-to-one map between labels and symbols.

    The symbol of a label is its index in `labels`. An unlisted label is an error, unless `unknown`
    is given: it then maps to one more symbol, the last. `Vocabulary.open` creates a vocabulary that
    adds new labels instead.

    Parameters
    ----------
    labels : iterable of str, int, bytes, or tuples of these
        Distinct labels. Numbers and strings are different labels: 1 is not "1".
    unknown : label, optional
        The label that stands for all labels not listed.

    Attributes
    ----------
    labels : tuple
        As passed, without `unknown`.
    unknown : label or None
        As passed.
    is_open : bool
        Whether the vocabulary adds new labels.
    max_labels : int or None
        Largest number of labels of an open vocabulary, without `unknown`.

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

    __slots__ = ("_symbols", "is_open", "max_labels", "unknown")

    unknown: Label | None
    is_open: bool
    max_labels: int | None
    _symbols: dict[Label, int]  # includes `unknown`; in an open vocabulary, once it is in use

    def __init__(self, labels: Iterable[Label], unknown: Label | None = None) -> None:
        read = tuple(_read_all("labels", labels))
        symbols: dict[Label, int] = {}
        for i, label in enumerate(read):
            if symbols.setdefault(label, i) != i:
                raise ValueError(
                    f"labels[{i}]={reprlib.repr(label)}: expected distinct labels; this one equals "
                    f"labels[{symbols[label]}]"
                )
        if unknown is not None:
            unknown = read_label("unknown", unknown)
            if symbols.setdefault(unknown, len(read)) != len(read):
                raise ValueError(
                    f"unknown={reprlib.repr(unknown)}: expected a label that is not in labels"
                )
        if not symbols:
            raise ValueError("labels: got none; expected at least one, or unknown")
        self._put(symbols, unknown)

    def _put(
        self,
        symbols: dict[Label, int],
        unknown: Label | None,
        is_open: bool = False,
        max_labels: int | None = None,
    ) -> None:
        put = object.__setattr__
        put(self, "unknown", unknown)
        put(self, "is_open", is_open)
        put(self, "max_labels", max_labels)
        put(self, "_symbols", symbols)

    @classmethod
    def open(
        cls,
        labels: Iterable[Label] = (),
        *,
        max_labels: int | None = None,
        unknown: Label | None = None,
    ) -> Self:
        """Return a vocabulary that adds new labels in order of first appearance.

        Parameters
        ----------
        labels : iterable of labels, optional
            The initial labels.
        max_labels : int, optional
            Largest number of labels. Later ones map to `unknown`, which is then required.
        unknown : label, optional
            The label of all labels beyond `max_labels`. It gets a symbol when the first of them
            appears.

        Examples
        --------
        >>> import mdvpf
        >>> vocabulary = mdvpf.Vocabulary.open(max_labels=2, unknown="OTHER")
        >>> vocabulary.encode(["ls", "cd", "ls", "rm", "cp", "cd"]).tolist()
        [0, 1, 0, 2, 2, 1]
        >>> vocabulary.labels
        ('ls', 'cd')
        """
        self = object.__new__(cls)
        symbols: dict[Label, int] = {}
        for label in _read_all("labels", labels):
            symbols.setdefault(label, len(symbols))
        if max_labels is not None:
            max_labels = validate.integer("max_labels", max_labels, low=1, also=", or None")
            if unknown is None:
                raise ValueError(
                    f"max_labels={max_labels} without unknown: expected unknown, the label of all "
                    "labels beyond max_labels"
                )
            if len(symbols) > max_labels:
                raise ValueError(f"labels: got {len(symbols)}; expected at most {max_labels}")
        elif unknown is not None:
            raise ValueError(f"unknown={unknown!r}: expected only with max_labels")
        if unknown is not None:
            unknown = read_label("unknown", unknown)
            if unknown in symbols:
                raise ValueError(f"unknown={unknown!r}: expected a label that is not in labels")
        self._put(symbols, unknown, True, max_labels)
        return self

    @property
    def labels(self) -> tuple[Label, ...]:
        """The labels in the order of their symbols, without `unknown`."""
        return tuple(label for label in self._symbols if label != self.unknown)

    @property
    def capacity(self) -> int | None:
        """Largest possible number of symbols; None if there is no limit.

        Examples
        --------
        >>> import mdvpf
        >>> mdvpf.Vocabulary("ab").capacity
        2
        >>> mdvpf.Vocabulary.open(max_labels=100, unknown="OTHER").capacity
        101
        """
        if not self.is_open:
            return self.n_symbols
        return None if self.max_labels is None else self.max_labels + 1

    def copy(self) -> Self:
        """Return an independent copy; a vocabulary that is not open returns itself.

        Examples
        --------
        >>> import mdvpf
        >>> vocabulary = mdvpf.Vocabulary.open("ab")
        >>> vocabulary.copy().add("c"), len(vocabulary)
        (2, 2)
        """
        if not self.is_open:
            return self
        other = object.__new__(type(self))
        other._put(self._symbols.copy(), self.unknown, True, self.max_labels)
        return other

    def find(self, label: Label) -> int:
        """Return the symbol of a label without adding it; for a new label, the next symbol.

        Examples
        --------
        >>> import mdvpf
        >>> vocabulary = mdvpf.Vocabulary.open("ab")
        >>> vocabulary.find("c"), vocabulary.find("d"), len(vocabulary)
        (2, 2, 2)
        """
        return self._symbol("label", read_label("label", label))

    def add(self, label: Label) -> int:
        """Return the symbol of a label; an open vocabulary adds it if it is new.

        Examples
        --------
        >>> import mdvpf
        >>> vocabulary = mdvpf.Vocabulary.open("ab")
        >>> vocabulary.add("c"), vocabulary.add("a"), vocabulary.labels
        (2, 0, ('a', 'b', 'c'))
        """
        return self._add("label", read_label("label", label))

    def _add(self, name: str, label: Label) -> int:
        symbol = self._symbol(name, label)
        if symbol == len(self._symbols):
            self._symbols[self._kept(label)] = symbol
        return symbol

    def _kept(self, label: Label) -> Label:
        """Return a new label of an open vocabulary, or `unknown` if the vocabulary is full."""
        if self.unknown is None or self.max_labels is None:
            return label
        n_labels = len(self._symbols) - (self.unknown in self._symbols)
        return label if n_labels < self.max_labels else self.unknown

    @classmethod
    def from_data(cls, data: Iterable[Label | None], unknown: Label | None = None) -> Self:
        """Return the vocabulary of the labels in some data, in order of first appearance.

        Parameters
        ----------
        data : iterable of labels
            The data. Missing labels (None, pandas.NA, masked entries) and `unknown` are skipped.
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
            labels.pop(read_label("unknown", unknown), None)
        return cls((label for label in labels if label is not None), unknown)

    @property
    def n_symbols(self) -> int:
        """Number of symbols, including that of `unknown`."""
        return len(self._symbols)

    def encode(self, labels: Iterable[Label | None]) -> NDArray[np.int64]:
        """Return the symbols of labels, as predictors take them; an open vocabulary adds new ones.

        Parameters
        ----------
        labels : iterable of labels
            The labels. None, pandas.NA and masked entries are missing; if there are any, the result
            is a masked array.

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
            -1 if label is None else self._add(f"labels[{i}]", label)
            for i, label in enumerate(read)
        ]
        array = np.array(symbols, dtype=np.int64)
        return np.ma.masked_equal(array, -1) if None in read else array

    def decode(self, symbols: ArrayLike) -> list[Label | None]:
        """Return the labels of symbols; None for a missing one.

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
        if self.is_open:
            return self._symbols.get(self._kept(label), len(self._symbols))
        if self.unknown is None:
            raise ValueError(
                f"{name}={reprlib.repr(label)}: expected one of the {len(self)} labels of the "
                "vocabulary; give the vocabulary unknown= to accept others"
            )
        return len(self._symbols) - 1

    def __getitem__(self, label: Label) -> int:
        """Return the symbol of one label.

        Examples
        --------
        >>> import mdvpf
        >>> mdvpf.Vocabulary(["ls", "cd"])["cd"]
        1
        """
        return self._symbol("label", read_label("label", label))

    def __iter__(self) -> Iterator[Label]:
        return iter(self._symbols)

    def __contains__(self, label: object) -> bool:
        try:
            return read_label("label", label) in self._symbols
        except TypeError:
            return False

    def __len__(self) -> int:
        return self.n_symbols

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vocabulary):
            return NotImplemented
        return self._identity() == other._identity()

    def _identity(self) -> tuple[Any, ...]:
        return tuple(self._symbols), self.unknown, self.is_open, self.max_labels

    def __hash__(self) -> int:
        if self.is_open:
            raise TypeError("an open vocabulary is mutable and has no hash")
        return hash(self._identity())

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a Vocabulary is immutable: {name} cannot be set")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self)._from_values, (self._values(),)

    def __repr__(self) -> str:
        shown = reprlib.repr(self.labels)
        if self.max_labels is not None:
            shown += f", max_labels={self.max_labels}"
        if self.unknown is not None:
            shown += f", unknown={reprlib.repr(self.unknown)}"
        return f"Vocabulary{'.open' if self.is_open else ''}({shown})"

    # -- in a checkpoint -------------------------------------------------------------------

    def _values(self) -> dict[str, Any]:
        values = {
            "labels": [label_to_json(label) for label in self.labels],
            "unknown": None if self.unknown is None else label_to_json(self.unknown),
        }
        if self.is_open:
            values["max_labels"] = self.max_labels
            values["symbols"] = [label_to_json(label) for label in self._symbols]
        return values

    @classmethod
    def _from_values(cls, values: dict[str, Any]) -> Self:
        labels = [label_from_json(label) for label in values["labels"]]
        unknown = None if values["unknown"] is None else label_from_json(values["unknown"])
        if "max_labels" not in values:
            return cls(labels, unknown)
        self = cls.open(labels, max_labels=values["max_labels"], unknown=unknown)
        symbols = [label_from_json(label) for label in values["symbols"]]
        if [label for label in symbols if label != unknown] != labels or len(set(symbols)) != len(
            symbols
        ):
            raise ValueError("symbols: expected the labels in order, each once")
        self._put({label: i for i, label in enumerate(symbols)}, unknown, True, self.max_labels)
        return self


def read_label(name: str, label: Any) -> Label:
    """Return a label as one of the built-in types, or raise.

    Examples
    --------
    >>> import numpy as np
    >>> from mdvpf.predictor.vocabulary import read_label
    >>> read_label("label", np.int64(7))
    7
    """
    if isinstance(label, str):
        return str(label)
    if isinstance(label, bytes):
        return bytes(label)
    if isinstance(label, (int, np.integer)) and not isinstance(label, bool):
        return int(label)
    if isinstance(label, tuple):
        return tuple(read_label(name, part) for part in label)
    raise TypeError(f"{name}={reprlib.repr(label)}: expected {_EXPECTED}")


def _read_all(name: str, labels: Any, *, missing: bool = False) -> Iterator[Any]:
    if isinstance(labels, (Mapping, Set)) or not isinstance(labels, Iterable):
        raise TypeError(f"{name}={reprlib.repr(labels)}: expected an ordered sequence of labels")
    for i, label in enumerate(validate.without_nulls(labels) if missing else labels):
        is_missing = missing and validate.is_missing(label)
        yield None if is_missing else read_label(f"{name}[{i}]", label)


def label_to_json(label: Label) -> Any:
    """Return a label as a JSON value: bytes in hexadecimal, tuples as lists.

    Examples
    --------
    >>> from mdvpf.predictor.vocabulary import label_to_json
    >>> label_to_json(("cd", b"x"))
    ['cd', {'bytes': '78'}]
    """
    if isinstance(label, bytes):
        return {"bytes": label.hex()}
    if isinstance(label, tuple):
        return [label_to_json(part) for part in label]
    return label


def label_text(label: Label) -> str:
    """Return a label for display: text unchanged, other labels as JSON.

    Examples
    --------
    >>> from mdvpf.predictor.vocabulary import label_text
    >>> label_text("cd"), label_text(7), label_text(("cd", 7))
    ('cd', '7', '["cd", 7]')
    """
    return label if isinstance(label, str) else json.dumps(label_to_json(label))


def label_from_json(value: Any) -> Label:
    """Return the label that `label_to_json` wrote, or raise.

    Examples
    --------
    >>> from mdvpf.predictor.vocabulary import label_from_json
    >>> label_from_json(["cd", {"bytes": "78"}])
    ('cd', b'x')
    """
    if isinstance(value, dict):
        return bytes.fromhex(value["bytes"])
    if isinstance(value, list):
        return tuple(label_from_json(part) for part in value)
    return read_label("label", value)
