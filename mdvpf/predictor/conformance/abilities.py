"""Promises about optional abilities: to freeze and to save a predictor."""

from __future__ import annotations

import io

from mdvpf.predictor.conformance.streams import N_SHORT, OTHER, keyed, plain
from mdvpf.predictor.conformance.trials import (
    frozen_or_none,
    require,
    require_unchanged,
    same,
    updated,
)
from mdvpf.predictor.protocol import Predictor


def check_freeze(predictor: Predictor) -> None:
    """Check that `freeze` returns a predictor that does not learn."""
    other = predictor.copy()
    other.run(plain(other))
    before = other.copy()
    found = frozen_or_none(other)
    if found is None:
        return
    symbols = plain(other) if not other.is_open else [0] * N_SHORT
    scores = found.score(symbols, [len(symbols)])
    found.run(symbols[::-1] * 3)
    again = found.score(symbols, [len(symbols)])
    same(again, scores, "the scores of a sequence before and after a run")
    require_unchanged(before, other, "runs of what freeze returned")


def check_save(predictor: Predictor) -> None:
    """Check that `load` continues where `save` left off."""
    other = predictor.copy()
    other.run(plain(other))
    stream = keyed(other)
    if other._takes_keys:
        other.run(stream.symbols, keys=stream.keys)
    file = io.BytesIO()
    try:
        other.save(file)
    except TypeError as error:
        if "cannot be saved" in str(error):
            return
        raise
    file.seek(0)
    loaded = Predictor.load(file, **other._left_out())
    require_unchanged(other, loaded, "load")
    if other._takes_keys:
        require(loaded.n_keys == other.n_keys, f"n_keys is {loaded.n_keys}, not {other.n_keys}")
        for key in (*stream.labels, OTHER):
            found, expected = loaded.predict_proba(key), other.predict_proba(key)
            same(found, expected, f"the prediction for key={key!r}")
    symbols = plain(other)
    same(updated(loaded, symbols), updated(other, symbols), "the steps after load")
