"""Convert observations to the matrix of doubles that the filters use.

Each observation is one row; NaN is a missing value. The family determines how input is validated:
as numbers, counts or symbols, one or several for each observation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdvpf._support import validate
from mdvpf.model.compiled_emission import CompiledEmission
from mdvpf.model.emissions import Categorical, OpenVocabulary
from mdvpf.model.number_families import (
    LARGEST_NUMBER,
    Gaussian,
    NumberFamily,
    Part,
    Poisson,
    Product,
    channels_of,
)

Observations = NDArray[np.float64]

_MOST_SYMBOLS = 2**31 - 18  # of an open alphabet, as in `_kernel/families.pxd`
_LARGEST_COUNT = 2**53  # beyond this, doubles do not represent every integer
_OR_MISSING = ", or None or NaN where one is missing"


def read_observations(
    family: NumberFamily, values: Any, n_seen: Sequence[int] | None = None
) -> Observations:
    """Return observations of a family as a matrix with one row for each, or raise.

    `n_seen` has the number of symbols seen in each open channel of a product; without it, numbers
    of new symbols are not checked.

    Examples
    --------
    >>> import mdvpf
    >>> from mdvpf.model import read_observations
    >>> read_observations(mdvpf.Gaussian(2), [[1.0, 2.0], [None, 3.0], None]).tolist()
    [[1.0, 2.0], [nan, 3.0], [nan, nan]]
    """
    if isinstance(family, Product):
        rows = _product_columns(family, values)
        _check_order(family, rows, n_seen)
    else:
        rows = _columns("symbols", family, values)
    if len(rows) == 0:
        raise ValueError("symbols: got none; expected at least one")
    return np.ascontiguousarray(rows)


def read_observation(
    family: NumberFamily, value: Any, n_seen: Sequence[int] | None = None
) -> Observations:
    """Return one observation of a family as an array, or raise.

    `n_seen` is as in `read_observations`.

    Examples
    --------
    >>> import mdvpf
    >>> from mdvpf.model import read_observation
    >>> read_observation(mdvpf.Product(mdvpf.Gaussian(), mdvpf.Poisson()), (0.5, None)).tolist()
    [0.5, nan]
    """
    if isinstance(family, Product):
        if validate.is_missing(value):
            return np.full(len(channels_of(family)), np.nan)
        parts = _entries("symbol", value, len(family.families))
        sizes = iter(n_seen or ())
        return np.concatenate(
            [
                _one(
                    f"symbol[{i}]",
                    part,
                    entry,
                    next(sizes, _MOST_SYMBOLS) if isinstance(part, OpenVocabulary) else 0,
                )
                for i, (part, entry) in enumerate(zip(family.families, parts, strict=True))
            ]
        )
    return _one("symbol", family, value)


def _one(name: str, family: Part, value: Any, n_seen: int = 0) -> Observations:
    """Return one observation of a part; in an open channel symbols are at most `n_seen`."""
    if isinstance(family, (Gaussian, CompiledEmission)) and family.n_dims > 1:
        if validate.is_missing(value):
            return np.full(family.n_dims, np.nan)
        entries = _entries(name, value, family.n_dims)
        names = [f"{name}[{i}]" for i in range(family.n_dims)]
        numbers = [_read(at, family, y, n_seen) for at, y in zip(names, entries, strict=True)]
        return np.array(numbers)
    if isinstance(value, np.ndarray) and value.shape == (1,):
        value = value[0]
    return np.array([_read(name, family, value, n_seen)], dtype=np.float64)


def _entries(name: str, value: Any, n: int) -> list[Any]:
    """Return the entries of one observation, or raise unless there are n."""
    if isinstance(value, (str, bytes)) or not isinstance(value, (Sequence, np.ndarray)):
        raise TypeError(f"{name}={value!r}: expected {n} entries, or None if all are missing")
    entries = value.tolist() if isinstance(value, np.ndarray) else list(value)
    if not isinstance(entries, list) or len(entries) != n:
        raise ValueError(f"{name}={value!r}: expected {n} entries, or None if all are missing")
    return entries


def split_observations(family: NumberFamily, rows: Observations) -> Any:
    """Convert rows of numbers to the form that `run` accepts for a family.

    Examples
    --------
    >>> import mdvpf, numpy as np
    >>> from mdvpf.model import split_observations
    >>> family = mdvpf.Product(mdvpf.Gaussian(), mdvpf.Categorical(3))
    >>> split_observations(family, np.array([[0.5, 2.0], [0.1, np.nan]]))[1].tolist()
    [2, None]
    """
    if not isinstance(family, Product):
        return rows
    ends = np.cumsum([len(channels_of(part)) for part in family.families])[:-1]
    return tuple(
        np.ma.masked_array(np.nan_to_num(part[:, 0]).astype(np.int64), np.isnan(part[:, 0]))
        if isinstance(kind, (Categorical, OpenVocabulary))
        else part
        for kind, part in zip(family.families, np.split(rows, ends, axis=1), strict=True)
    )


Row = tuple[float | None, ...]
"""The numbers of an observation, None for a missing one; equal observations have equal rows."""


def row_of(numbers: Observations) -> Row:
    """Return the numbers of an observation as a tuple that can be compared exactly.

    Examples
    --------
    >>> import numpy as np
    >>> from mdvpf.model.observations import row_of
    >>> row_of(np.array([0.5, np.nan, -0.0]))
    (0.5, None, 0.0)
    """
    # Adding 0.0 turns -0.0 into 0.0.
    return tuple(None if each != each else each + 0.0 for each in numbers.tolist())


def observation_of(family: NumberFamily, row: Row) -> Any:
    """Return a row in the form that `update` accepts for a family.

    Examples
    --------
    >>> import mdvpf
    >>> from mdvpf.model.observations import observation_of
    >>> observation_of(mdvpf.Product(mdvpf.Gaussian(2), mdvpf.Categorical(3)), (0.5, None, 2.0))
    ((0.5, None), 2)
    """
    parts = family.families if isinstance(family, Product) else (family,)
    entries: list[Any] = []
    for part in parts:
        width = len(channels_of(part))
        found, row = row[:width], row[width:]
        if isinstance(part, (Categorical, OpenVocabulary)):
            entries.append(None if found[0] is None else int(found[0]))
        else:
            entries.append(found[0] if width == 1 else found)
    return tuple(entries) if isinstance(family, Product) else entries[0]


# ---- one value ------------------------------------------------------------------------------


def _is_missing(value: Any) -> bool:
    if isinstance(value, (float, np.floating)):
        return math.isnan(value)
    return value is np.ma.masked or validate.is_missing(value)


def _is_count(family: Part) -> bool:
    """Whether the numbers of a family are counts."""
    if isinstance(family, CompiledEmission):
        return family.support == "counts"
    return isinstance(family, Poisson)


def _read(name: str, family: Part, value: Any, n_seen: int) -> float:
    if not _is_count(family) and not isinstance(family, (Categorical, OpenVocabulary)):
        return _number(name, value)
    if _is_missing(value):
        return math.nan
    if isinstance(family, (Categorical, OpenVocabulary)):
        most = n_seen if isinstance(family, OpenVocabulary) else family.n_symbols - 1
        return validate.integer(name, value, low=0, high=most, also=_OR_MISSING)
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        value = int(value)
    return validate.integer(name, value, low=0, high=_LARGEST_COUNT, also=_OR_MISSING)


def _number(name: str, value: Any) -> float:
    if _is_missing(value):
        return math.nan
    return validate.real(name, value, low=-LARGEST_NUMBER, high=LARGEST_NUMBER, also=_OR_MISSING)


# ---- many values ----------------------------------------------------------------------------


def _product_columns(family: Product, values: Any) -> Observations:
    n = len(family.families)
    if not isinstance(values, (tuple, list)) or len(values) != n:
        raise TypeError(
            f"symbols of type {type(values).__name__}: expected a tuple of {n} arrays, one for "
            "each family of the product"
        )
    parts = [
        _columns(f"symbols[{i}]", part, entry)
        for i, (part, entry) in enumerate(zip(family.families, values, strict=True))
    ]
    sizes = [len(part) for part in parts]
    if len(set(sizes)) > 1:
        raise ValueError(f"symbols: arrays of lengths {sizes}: expected one length")
    return np.concatenate(parts, axis=1)


def _check_order(family: Product, rows: Observations, n_seen: Sequence[int] | None) -> None:
    """Raise unless open channels number their symbols by first appearance."""
    firsts = np.cumsum([0, *(len(channels_of(part)) for part in family.families)])
    sizes = iter(() if n_seen is None else n_seen)
    for i, part in enumerate(family.families):
        if isinstance(part, OpenVocabulary) and (size := next(sizes, None)) is not None:
            known = np.concatenate([[size - 1], rows[:-1, firsts[i]]])
            most = np.fmax.accumulate(known) + 1
            wrong = rows[:, firsts[i]] > most
            if wrong.any():
                k = int(wrong.argmax())
                raise ValueError(
                    f"symbols[{i}][{k}]={int(rows[k, firsts[i]])}: expected at most "
                    f"{int(most[k])}, the number of different symbols before it: an open alphabet "
                    "numbers them by first appearance"
                )


def _columns(name: str, family: Part, values: Any) -> Observations:
    """Return the columns of one family, or raise."""
    width = len(channels_of(family))
    fast = _from_array(name, family, values, width)
    if fast is not None:
        return fast
    found = validate.sequence(name, _listed(values), of="observations")
    most = _MOST_SYMBOLS
    rows = [_one(f"{name}[{i}]", family, value, most) for i, value in enumerate(found)]
    return np.array(rows, dtype=np.float64).reshape(len(rows), width)


def _listed(values: Any) -> Any:
    """Return an array or a data frame as a list of its rows; return other values unchanged."""
    if hasattr(values, "to_pylist"):  # Arrow, whose entries are not Python's
        return values.to_pylist()
    if isinstance(values, np.ndarray) or getattr(values, "ndim", 1) == 2:
        return np.asanyarray(values).tolist()  # None where masked
    return values


def _from_array(name: str, family: Any, values: Any, width: int) -> Observations | None:
    """Return the columns of an array of numbers, or None if it must be read entry by entry."""
    if not hasattr(values, "__array__"):
        return None
    array = np.asanyarray(values)
    if array.dtype.kind not in "iuf":
        if array.dtype.kind == "O":
            return None
        raise TypeError(f"{name} of dtype {array.dtype}: expected numbers")
    is_fit = array.ndim == 2 and array.shape[1] == width
    if not is_fit and not (array.ndim == 1 and width == 1):
        expected = "(n,)" if width == 1 else f"(n, {width})"
        raise ValueError(f"{name} of shape {array.shape}: expected {expected}")
    numbers = np.ma.filled(array.astype(np.float64), np.nan).reshape(-1, width)
    if isinstance(family, (Categorical, OpenVocabulary)) and array.dtype.kind == "f":
        return None
    low, high = -LARGEST_NUMBER, LARGEST_NUMBER
    if _is_count(family):
        low, high = 0.0, float(_LARGEST_COUNT)
    elif isinstance(family, Categorical):
        low, high = 0.0, float(family.n_symbols - 1)
    elif isinstance(family, OpenVocabulary):
        low, high = 0.0, float(_MOST_SYMBOLS)
    wrong = ~(np.isnan(numbers) | ((numbers >= low) & (numbers <= high)))
    if _is_count(family):
        wrong |= (numbers != np.floor(numbers)) & ~np.isnan(numbers)
    if wrong.any():
        i, column = (int(k) for k in np.argwhere(wrong)[0])
        entry = f"{name}[{i}]" if width == 1 else f"{name}[{i}][{column}]"
        value = np.ma.getdata(array).reshape(-1, width)[i, column].item()
        _read(entry, family, value, _MOST_SYMBOLS)  # raises
        raise AssertionError(f"{entry}={value!r}")
    return numbers
