"""Helpers of the checks: compare values, and report the promise that is broken."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from mdvpf.predictor.conformance.streams import plain
from mdvpf.predictor.protocol import Predictor

_SUM = 1e-6  # tolerance of the sum of a distribution
_TOLERANCE = 1e-5  # tolerance between equal values; some counts have single precision


class BrokenError(Exception):
    """A promise is broken."""


@contextmanager
def named(predictor: Predictor, promise: str) -> Iterator[None]:
    """Raise an AssertionError that names predictor and promise if the block raises any error."""
    name = type(predictor).__name__
    try:
        yield
    except BrokenError as error:
        raise AssertionError(f"{name}: {promise}: {error}") from None
    except Exception as error:
        message = f"{name}: {promise}: it raised {type(error).__name__}: {error}"
        raise AssertionError(message) from error


def require(holds: Any, message: str) -> None:
    """Raise `BrokenError` with a message unless a condition holds."""
    if not holds:
        raise BrokenError(message)


def same(found: Any, expected: Any, what: str) -> None:
    """Require two numbers or arrays to be equal within the tolerance."""
    first, second = np.asarray(found, dtype=np.float64), np.asarray(expected, dtype=np.float64)
    require(first.shape == second.shape, f"{what}: shape {first.shape}, not {second.shape}")
    close = np.isclose(first, second, rtol=_TOLERANCE, atol=_TOLERANCE, equal_nan=True)
    if not close.all():
        i = int(np.argmin(close.ravel()))
        where = f" (entry {i})" if first.ndim else ""
        found_one, other = first.ravel()[i].item(), second.ravel()[i].item()
        raise BrokenError(f"{what}: {found_one!r}, not {other!r}{where}")


def differ(first: NDArray[np.float64], second: NDArray[np.float64], by: float) -> bool:
    """Return whether some entry of two distributions differs by more than `by`."""
    return bool(np.abs(first - second).max() > by)


def updated(predictor: Predictor, symbols: Sequence[int | None]) -> NDArray[np.float64]:
    """Update by each symbol in turn; return the steps."""
    return np.array([predictor.update(symbol) for symbol in symbols], dtype=np.float64)


def require_unchanged(predictor: Predictor, other: Predictor, after: str) -> None:
    """Require two predictors to have equal predictions and equal next steps."""
    same(other.n_symbols, predictor.n_symbols, f"n_symbols after {after}")
    same(other.predict_proba(), predictor.predict_proba(), f"the prediction after {after}")
    symbols = plain(predictor)[:3]
    found, expected = updated(other.copy(), symbols), updated(predictor.copy(), symbols)
    same(found, expected, f"the steps after {after}")


def read_distribution(predictor: Predictor, when: str, **key: Any) -> NDArray[np.float64]:
    """Return a prediction, or raise if it is not a distribution over the alphabet."""
    found = predictor.predict_proba(**key)
    require(isinstance(found, np.ndarray), f"{when} it is {found!r}, not an array")
    size = predictor.n_symbols + predictor.is_open
    extra = ": n_symbols, and one never seen" if predictor.is_open else ": n_symbols"
    require(found.shape == (size,), f"{when} its shape is {found.shape}, not ({size},){extra}")
    require(found.dtype.kind == "f", f"{when} its dtype is {found.dtype}, not a float")
    require(np.all(np.isfinite(found)), f"{when} an entry is not finite: {found}")
    require(np.all(found >= 0.0), f"{when} an entry is negative: {found.min()}")
    total = float(found.sum())
    require(abs(total - 1.0) < _SUM, f"{when} its sum is {total:.9g}, not 1")
    return np.array(found)


def require_refusal(
    call: Callable[[Any], Any], value: Any, what: str, wanted: tuple[type[Exception], ...]
) -> None:
    """Require a call with a bad value to raise one of the wanted errors."""
    names = " or ".join(each.__name__ for each in wanted)
    try:
        found = call(value)
    except wanted:
        return
    except Exception as error:
        raise BrokenError(f"{what} raised {type(error).__name__}, not a {names}") from error
    raise BrokenError(f"{what} returned {found!r}, and raised no {names}")


def frozen_or_none(predictor: Predictor) -> Predictor | None:
    """Return a frozen predictor; None if freezing is not supported."""
    if type(predictor).freeze is Predictor.freeze:
        return None
    try:
        found: Any = predictor.freeze()
    except TypeError as error:  # a mixture with a member that cannot be frozen
        if "cannot be frozen" in str(error):
            return None
        raise
    require(isinstance(found, Predictor), f"freeze returned {found!r}, which is not a Predictor")
    return cast(Predictor, found)
