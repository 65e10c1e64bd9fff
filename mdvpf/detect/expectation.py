"""What a predictor expected before a symbol: entropy, likeliest symbol and its probability.

Over numbers it is an entropy and a value for each number (`filter/expected_numbers.py`).
"""

from __future__ import annotations

import math
from itertools import starmap
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mdvpf.filter.expected_numbers import expected_numbers
from mdvpf.filter.predictive import Predictive
from mdvpf.predictor import MISSING


class Expectation(NamedTuple):
    """A summary of the distribution of one symbol.

    Attributes
    ----------
    entropy : float
        Its entropy, in nats; NaN if the distribution is not known.
    symbol : int
        The likeliest symbol, the first of equals; -1 if not known.
    probability : float
        The probability of that symbol; NaN if not known.
    numbers : tuple of float or None
        Over numbers, what was expected of each; None if not known.
    """

    entropy: float
    symbol: int
    probability: float
    numbers: tuple[float, ...] | None = None


UNKNOWN = Expectation(math.nan, MISSING, math.nan)


def summarize(
    distributions: NDArray[np.float64], n_seen: NDArray[np.int64] | None = None
) -> list[Expectation]:
    """Return the expectation of each row.

    For an open alphabet, `n_seen` is the number of symbols seen before each row. The entry after
    them is the probability of a new symbol. That symbol has no number yet, so it is never the
    likeliest here. Entropies are summed from left to right, so the zeros that fill up the rows of
    an open alphabet do not change the result.

    Examples
    --------
    >>> import numpy as np
    >>> from mdvpf.detect.expectation import summarize
    >>> summarize(np.array([[0.0, 1.0], [0.5, 0.5]]))[0].symbol
    1
    """
    terms = np.log(np.where(distributions > 0.0, distributions, 1.0))
    terms *= distributions
    entropies = np.maximum(0.0, 0.0 - np.add.accumulate(terms, axis=1)[:, -1])
    rows, named = np.arange(len(distributions)), distributions
    if n_seen is not None:
        named = distributions.copy()
        named[rows, n_seen] = 0.0
    likeliest = named.argmax(axis=1)
    largest = named[rows, likeliest]
    if n_seen is not None:
        likeliest[n_seen == 0], largest[n_seen == 0] = UNKNOWN.symbol, UNKNOWN.probability
    found = zip(entropies.tolist(), likeliest.tolist(), largest.tolist(), strict=True)
    return list(starmap(Expectation, found))


def summarize_numbers(predictive: Predictive) -> Expectation:
    """Return the expectation of a predictive over numbers, of a built-in family.

    Examples
    --------
    >>> import mdvpf
    >>> from mdvpf.detect.expectation import summarize_numbers
    >>> model = mdvpf.InfiniteHMM(emission=mdvpf.Gaussian(mean=3.0))
    >>> summarize_numbers(mdvpf.ParticleFilter(model, n_particles=5).predictive()).numbers
    (3.0,)
    """
    found = expected_numbers(predictive)
    return Expectation(found.entropy, MISSING, math.nan, found.values)
