"""Promises about sequences without keys and about an open alphabet."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mdvpf.predictor.conformance.streams import N_SHORT, plain
from mdvpf.predictor.conformance.trials import (
    read_distribution,
    require,
    require_refusal,
    require_unchanged,
    same,
    updated,
)
from mdvpf.predictor.protocol import Predictor
from mdvpf.predictor.results import Step


def check_copy(predictor: Predictor) -> None:
    """Check that `copy` is independent."""
    first = predictor.copy()
    own, other = type(predictor).__name__, type(first).__name__
    require(type(first) is type(predictor), f"the copy of a {own} is a {other}")
    require(first is not predictor, "copy returned the predictor itself")
    before = np.array(predictor.predict_proba())
    same(first.predict_proba(), before, "the prediction of a copy")
    updated(first, plain(first))
    same(predictor.predict_proba(), before, "the prediction after updates of a copy")
    second, after = first.copy(), np.array(first.predict_proba())
    updated(first, plain(first))
    same(second.predict_proba(), after, "the prediction of a copy after updates of the first")


def check_alphabet(predictor: Predictor) -> None:
    """Check that `n_symbols` and `is_open` describe the alphabet."""
    n, is_open = predictor.n_symbols, predictor.is_open
    require(isinstance(is_open, (bool, np.bool_)), f"is_open is {is_open!r}, not True or False")
    is_integer = isinstance(n, (int, np.integer)) and not isinstance(n, bool)
    least = 0 if is_open else 1
    require(is_integer and n >= least, f"n_symbols is {n!r}, not an integer of at least {least}")
    other = predictor.copy()
    updated(other, plain(other))
    if not is_open:
        require(other.n_symbols == n, f"n_symbols went from {n} to {other.n_symbols}")


def check_distribution(predictor: Predictor) -> None:
    """Check that `predict_proba` is a distribution."""
    other = predictor.copy()
    first = read_distribution(other, "at first")
    same(other.predict_proba(), first, "asked again")
    for i, symbol in enumerate(plain(other)):
        other.update(symbol)
        read_distribution(other, f"after {i + 1} symbols")
    other.new_sequence()
    read_distribution(other, "after new_sequence")


def check_step(predictor: Predictor) -> None:
    """Check that `update` returns a `Step`."""
    other = predictor.copy()
    for symbol in plain(other):
        step: Any = other.update(symbol)
        kind = type(step).__name__
        require(isinstance(step, Step), f"update({symbol}) returned {step!r}, a {kind}")
        for name, value in zip(Step._fields, step, strict=True):
            is_number = isinstance(value, (int, float, np.integer, np.floating))
            require(is_number, f"update({symbol}) has {name}={value!r}, not a number")
            require(not math.isnan(value), f"update({symbol}) has {name}={value!r}")


def check_score_of_update(predictor: Predictor) -> None:
    """Check that `update` scores a symbol by the prediction before it."""
    other = predictor.copy()
    for symbol in plain(other):
        if symbol is not None:
            probability = float(other.predict_proba()[symbol])
            expected = math.log(probability) if probability > 0.0 else -math.inf
            found = other.update(symbol).log_predictive
            same(found, expected, f"log_predictive of update({symbol})")
        else:
            other.update(symbol)


def check_missing(predictor: Predictor) -> None:
    """Check that a missing symbol has log predictive 0."""
    other = predictor.copy()
    for _ in range(3):
        found = other.update(None).log_predictive
        require(found == 0.0, f"update(None) has log_predictive={found!r}")
        read_distribution(other, "after update(None) the prediction is not a distribution:")
        other.update(0)


def check_determinism(predictor: Predictor) -> None:
    """Check that copies behave alike."""
    first, second = predictor.copy(), predictor.copy()
    symbols = plain(first)
    same(updated(first, symbols), updated(second, symbols), "the steps of two copies")
    same(first.predict_proba(), second.predict_proba(), "the predictions of two copies")


def check_new_sequence(predictor: Predictor) -> None:
    """Check that `new_sequence` ends a sequence."""
    other = predictor.copy()
    updated(other, plain(other))
    found: Any = other.new_sequence()
    require(found is None, f"new_sequence returned {found!r}, not None")
    once = read_distribution(other, "after it the prediction is not a distribution:")
    other.new_sequence()
    same(other.predict_proba(), once, "the prediction after it was called twice")


def check_run(predictor: Predictor) -> None:
    """Check that `run` is `update` of each symbol."""
    first, second = predictor.copy(), predictor.copy()
    symbols = plain(first)
    lengths = [N_SHORT, len(symbols) - N_SHORT]
    result = first.run(symbols, lengths)
    second.new_sequence()
    steps = list(updated(second, symbols[:N_SHORT]))
    second.new_sequence()
    steps += list(updated(second, symbols[N_SHORT:]))
    for name, column in zip(Step._fields, np.array(steps).T, strict=True):
        same(getattr(result, name), column, f"{name} of run")
    same(first.predict_proba(), second.predict_proba(), "the prediction after run")


def check_score(predictor: Predictor) -> None:
    """Check that `score` is the run of a copy."""
    first = predictor.copy()
    symbols = plain(first)
    second = first.copy()
    found = first.score(symbols)
    require_unchanged(second, first, "score, which changes nothing")
    same(found, second.run(symbols).log_predictive, "score")


def check_bad_symbols(predictor: Predictor) -> None:
    """Check that a bad symbol is refused and changes nothing."""
    other = predictor.copy()
    updated(other, plain(other))
    first = other.copy()
    beyond = other.n_symbols + other.is_open
    for bad in (beyond, -1, 0.5, "0"):
        for call, what in (
            (lambda value: other.update(value), f"update({bad!r})"),
            (lambda value: other.run([0, value]), f"run([0, {bad!r}])"),
        ):
            require_refusal(call, bad, what, (ValueError, TypeError))
            require_unchanged(first, other, f"{what}, which changes nothing")


# -- open alphabets ------------------------------------------------------------------------------


def check_open(predictor: Predictor) -> None:
    """Check that an open alphabet grows with each new symbol."""
    other = predictor.copy()
    for _ in range(3):
        n = other.n_symbols
        other.update(n)
        require(other.n_symbols == n + 1, f"n_symbols is {other.n_symbols} after update({n})")
        read_distribution(other, f"after update({n}) the prediction is not a distribution:")
        other.update(n)
        other.update(None)
        found = other.n_symbols
        require(found == n + 1, f"n_symbols is {found} after update({n}), update(None)")
