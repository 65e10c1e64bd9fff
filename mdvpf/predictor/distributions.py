"""A run of any predictor that also returns the distribution before each symbol."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mdvpf.predictor.protocol import Predictor, read_step
from mdvpf.predictor.results import N_FIELDS
from mdvpf.predictor.stream import MISSING, Stream


def run_distributions(
    predictor: Predictor, stream: Stream
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Let a predictor absorb a validated stream that ends no sequences.

    Returns the reports and, for each symbol, the row that `predict_proba` would have returned
    before it; rows of an open alphabet are padded with zeros. Predictors with a compiled core do
    this in one call, others symbol by symbol.
    """
    width = max(predictor.n_symbols, int(stream.symbols.max()) + 1) + predictor.is_open
    out = np.zeros((1, len(stream), width))
    if type(predictor)._absorb_distributions is not Predictor._absorb_distributions:
        return predictor._run_keyed(stream, out=out), out[0]
    reports = np.empty((len(stream), N_FIELDS))
    keys = [None] * len(stream) if stream.keys is None else stream.keys
    for t, (code, key) in enumerate(zip(stream.symbols.tolist(), keys, strict=True)):
        named = {} if key is None else {"key": key}
        if stream.times is not None and not np.isnan(stream.times[t]):
            predictor.tell_time(float(stream.times[t]))
        found = predictor.predict_proba(**named)
        out[0, t, : len(found)] = found
        step = predictor.update(None if code == MISSING else code, **named)
        step = read_step(predictor, step)
        reports[t] = step.log_predictive, *step
    return reports, out[0]
