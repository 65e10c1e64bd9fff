"""Promises about keys: each key is a sequence with a position of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mdvpf.predictor.conformance.streams import OTHER, keyed, plain
from mdvpf.predictor.conformance.trials import (
    differ,
    frozen_or_none,
    read_distribution,
    require,
    require_refusal,
    require_unchanged,
    same,
)
from mdvpf.predictor.own_keys import has_key
from mdvpf.predictor.protocol import Predictor


def _keyless(predictor: Predictor) -> Predictor:
    """Return a copy without keys in use and without a limit on them."""
    other = predictor.copy()
    other.max_keys = None
    other.new_sequence()
    for key in other._table.labels():
        other.new_sequence(key)
    return other


def check_key_arguments(predictor: Predictor) -> None:
    """Check that `predict_proba` and `new_sequence` take a key, as `update` does."""
    for method in (type(predictor).predict_proba, type(predictor).new_sequence):
        require(has_key(method), f"{method.__name__} has no argument key")


def check_one_key(predictor: Predictor) -> None:
    """Check that a key is a sequence like any other."""
    first, second = _keyless(predictor), _keyless(predictor)
    symbols = plain(first)
    found = first.run(symbols, keys=[OTHER] * len(symbols)).log_predictive
    same(found, second.run(symbols).log_predictive, "log_predictive with one key, and with none")
    same(first.predict_proba(OTHER), second.predict_proba(), "the prediction for it")


def check_run_with_keys(predictor: Predictor) -> None:
    """Check that `run` with keys is `update` of each symbol with its key."""
    first, second = _keyless(predictor), _keyless(predictor)
    stream = keyed(first)
    result = first.run(stream.symbols, keys=stream.keys)
    for i, (symbol, key) in enumerate(zip(stream.symbols, stream.keys, strict=True)):
        prediction = read_distribution(second, f"for key={key!r}", key=key)
        found = second.update(symbol, key).log_predictive
        if symbol is not None:
            with np.errstate(divide="ignore"):
                expected = float(np.log(prediction[symbol]))
            same(found, expected, f"log_predictive of update({symbol}, {key!r})")
        same(result.log_predictive[i], found, f"log_predictive of run, symbol {i}")
    for key in (*stream.labels, OTHER):
        found_one, other = first.predict_proba(key), second.predict_proba(key)
        same(found_one, other, f"the prediction for key={key!r} after run")


def check_end_of_key(predictor: Predictor) -> None:
    """Check that a key whose sequence ends is back at the start."""
    other = _keyless(predictor)
    stream = keyed(other)
    other.run(stream.symbols, keys=stream.keys)
    for key in stream.labels:
        other.new_sequence(key)
        start = other.predict_proba(OTHER)
        same(other.predict_proba(key), start, f"the prediction after new_sequence({key!r})")


def check_positions(predictor: Predictor) -> None:
    """Check that keys have positions of their own.

    A frozen predictor must score interleaved sequences as it scores them one at a time. For a
    predictor that cannot be frozen, the past of a sequence must matter with keys if it matters
    without them.
    """
    learner = _keyless(predictor)
    stream = keyed(learner)
    learner.run(stream.symbols, keys=stream.keys)
    frozen = frozen_or_none(_keyless(learner))
    if frozen is not None:
        require(frozen._takes_keys, "what freeze returns takes no keys")
        stream = keyed(frozen) if not frozen.is_open else stream
        result = frozen.copy().run(stream.symbols, keys=stream.keys).log_predictive
        for key in stream.labels:
            alone, where = frozen.copy(), [other == key for other in stream.keys]
            expected = alone.run([y for y, own in zip(stream.symbols, where, strict=True) if own])
            what = f"log_predictive of key={key!r}, among others and alone"
            same(result[where], expected.log_predictive, f"when frozen, {what}")
        return
    unkeyed = _keyless(predictor)
    symbols = plain(unkeyed)
    unkeyed.run(symbols)
    present = np.array(unkeyed.predict_proba())
    unkeyed.new_sequence()
    if differ(present, unkeyed.predict_proba(), 1e-3):
        other = _keyless(predictor)
        other.run(symbols, keys=[OTHER] * len(symbols))
        apart = differ(other.predict_proba(OTHER), other.predict_proba(), 1e-9)
        require(apart, "after symbols of one key, the prediction for another is the same")


def check_number_of_keys(predictor: Predictor) -> None:
    """Check that `n_keys` counts the keys in use."""
    other = _keyless(predictor)
    require(other.n_keys == 0, f"n_keys is {other.n_keys} when all sequences have ended")
    stream = keyed(other)
    used: set[Any] = set()
    for symbol, key in zip(stream.symbols, stream.keys, strict=True):
        other.update(symbol, key)
        used.add(key)
        found, n = other.n_keys, len(used)
        require(found == n, f"n_keys is {found} after updates with {n} keys")
    require(other.copy().n_keys == len(used), f"n_keys is {other.copy().n_keys} in a copy")
    other.predict_proba(OTHER)
    require(other.n_keys == len(used), f"n_keys is {other.n_keys} after predict_proba")
    other.new_sequence(stream.labels[0])
    found = other.n_keys
    require(found == len(used) - 1, f"n_keys is {found} after one of {len(used)} keys ended")


def check_max_keys(predictor: Predictor) -> None:
    """Check that `max_keys` ends the key used longest ago."""
    other = _keyless(predictor)
    stream = keyed(other)
    other.max_keys = 2
    other.run(stream.symbols, keys=stream.keys)
    require(other.n_keys == 2, f"n_keys is {other.n_keys} with max_keys=2")
    last = list(dict.fromkeys(reversed(stream.keys)))  # the key used last comes first
    start = other.predict_proba(OTHER)
    for key in last[2:]:
        same(other.predict_proba(key), start, f"the prediction for key={key!r}, which has ended")
    other.update(None, OTHER)
    require(other.n_keys == 2, f"n_keys is {other.n_keys} after one more key, with max_keys=2")


def check_bad_keys(predictor: Predictor) -> None:
    """Check that a bad key is refused and changes nothing."""
    other = _keyless(predictor)
    stream = keyed(other)
    other.run(stream.symbols, keys=stream.keys)
    first = other.copy()
    for bad in ([1], 0.5):
        calls: tuple[tuple[Callable[[Any], Any], str], ...] = (
            (lambda key: other.update(0, key), f"update(0, {bad!r})"),
            (lambda key: other.new_sequence(key), f"new_sequence({bad!r})"),
        )
        for call, what in calls:
            require_refusal(call, bad, what, (ValueError, TypeError))
            require_unchanged(first, other, f"{what}, which changes nothing")
            n = other.n_keys
            require(n == first.n_keys, f"n_keys is {n} after {what}, not {first.n_keys}")
