"""What a mixture comes down to: predictors that are no mixtures, each with its weight."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mdvpf.filter import ParticleFilter
from mdvpf.mixture.mixture import Mixture
from mdvpf.predictor import Predictor


def leaves(predictor: Predictor, weight: float = 1.0) -> Iterator[tuple[float, Predictor]]:
    """Yield who predicts in the end, copies that restart among them, and how much each counts.

    A predictor that is no mixture is its own leaf. Weights sum to the given one.
    """
    if not isinstance(predictor, Mixture):
        yield weight, predictor
        return
    shares = np.exp(predictor._weights.log).ravel().tolist()
    for share, member in zip(shares, predictor.living, strict=True):
        yield from leaves(member, weight * share)


def mean_states(predictor: Predictor) -> float | None:
    """Return the mean number of states of all filters, by weight; None if there are none."""
    mass = total = 0.0
    for weight, leaf in leaves(predictor):
        if isinstance(leaf, ParticleFilter):
            mass += weight
            total += weight * leaf._mean_states()
    return total / mass if mass > 0.0 else None
