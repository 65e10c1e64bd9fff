"""Families over numbers for the enumeration: predictives as ratios of marginal likelihoods.

Neither Student's t nor the negative binomial is in here: the density of an observation is the
marginal likelihood with it over that without it, from sums that are not centred. So nothing is
shared with the package but the prior.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mdvpf
from mdvpf.model.number_families import compiled_parts
from tests.compiled_families import OWN_PAIR, OWN_POISSON, TWINS
from tests.enumeration import Open

Weighted = Sequence[tuple[float, float]]  # a weight, and a number that was observed


def gaussian(family: mdvpf.Gaussian, seen: Weighted) -> float:
    """Log marginal likelihood of numbers that count with weights."""
    n = math.fsum(w for w, _ in seen)
    kappa, a = family.mean_strength + n, family.shape + n / 2
    mean = (family.mean_strength * family.mean + math.fsum(w * y for w, y in seen)) / kappa
    squares = math.fsum(w * y * y for w, y in seen) + family.mean_strength * family.mean**2
    b = family.scale + (squares - kappa * mean**2) / 2
    return (
        math.lgamma(a)
        - a * math.log(b)
        - math.log(kappa) / 2
        - math.log(2 * math.pi) * len(seen) / 2
    )


def poisson(family: mdvpf.Poisson, seen: Weighted) -> float:
    """The same of counts."""
    a = family.shape + math.fsum(w * y for w, y in seen)
    b = family.rate + math.fsum(w for w, _ in seen)
    return math.lgamma(a) - a * math.log(b) - math.fsum(math.lgamma(y + 1) for _, y in seen)


def categorical(family: mdvpf.Categorical, seen: Weighted) -> float:
    """The same of symbols."""
    found = math.lgamma(family.n_symbols * family.beta)
    found -= math.lgamma(family.n_symbols * family.beta + math.fsum(w for w, _ in seen))
    for symbol in range(family.n_symbols):
        times = math.fsum(w for w, y in seen if y == symbol)
        found += math.lgamma(family.beta + times) - math.lgamma(family.beta)
    return found


def log_open(family: mdvpf.OpenVocabulary, seen: Weighted, y: int, stream: Sequence[Any]) -> float:
    """Log probability of a symbol of an open alphabet, given the symbols of the whole stream."""
    rule = Open(family.concentration, family.strength, family.discount)
    times = math.fsum(w for w, symbol in seen if symbol == y)
    total = math.fsum(w for w, _ in seen)
    prior = rule.concentration * rule.base(stream, y)
    return math.log((times + prior) / (total + rule.concentration))


LIKELIHOODS: dict[type, Any] = {
    mdvpf.Gaussian: gaussian,
    mdvpf.Poisson: poisson,
    mdvpf.Categorical: categorical,
}


@dataclass(frozen=True)
class Numbers:
    """A family over numbers, as a rule of the enumeration has it."""

    family: Any

    def density(
        self, emitted: Sequence[tuple[float, Any]], observation: Any, known: Sequence[Any] = ()
    ) -> float:
        """Predictive density in a state that emitted these observations, with their weights.

        `known` is everything that the stream had before; only open alphabets depend on it.
        """
        channels = self._channels(observation)
        before = [self._channels(y) for _, y in emitted]
        weights = [float(w) for w, _ in emitted]
        log = 0.0
        for i, (family, y) in enumerate(channels):
            if y is None:
                continue
            seen = [
                (w, row[i][1]) for w, row in zip(weights, before, strict=True)
                if row[i][1] is not None
            ]  # fmt: skip
            if isinstance(family, mdvpf.OpenVocabulary):
                stream = [self._channels(row)[i][1] for row in known if row is not None]
                log += log_open(family, seen, y, stream)
                continue
            likelihood = LIKELIHOODS[type(family)]
            log += likelihood(family, [*seen, (1.0, y)]) - likelihood(family, seen)
        return math.exp(log)

    def _channels(self, observation: Any) -> list[tuple[Any, Any]]:
        """Each number of an observation, with its family, or the built-in one that it equals."""
        if self.family in TWINS:
            return Numbers(TWINS[self.family])._channels(observation)
        if isinstance(self.family, mdvpf.Product):
            parts = zip(self.family.families, observation, strict=True)
            return [pair for part, entry in parts for pair in Numbers(part)._channels(entry)]
        if isinstance(self.family, mdvpf.Gaussian) and self.family.n_dims > 1:
            entries = [None] * self.family.n_dims if observation is None else observation
            return [(self.family, y) for y in entries]
        return [(self.family, observation)]


# For every family its observations: some alike, some far off, some missing.
STREAMS: dict[str, tuple[Any, list[Any]]] = {
    "gaussian": (
        mdvpf.Gaussian(mean=0.5, mean_strength=0.3, shape=1.5, scale=0.4),
        [0.1, -0.3, None, 5.0, 5.2, 0.0, 4.9],
    ),
    "two dimensions": (
        mdvpf.Gaussian(2, scale=0.7),
        [(0.1, 3.0), (None, 2.5), (4.0, None), None, (4.1, -1.0), (0.2, 2.9), (3.9, -1.2)],
    ),
    "poisson": (mdvpf.Poisson(2.0, 0.5), [0, 7, None, 6, 1, 0, 9]),
    "product": (
        mdvpf.Product(mdvpf.Gaussian(shape=2.0), mdvpf.Poisson(), mdvpf.Categorical(3, 0.4)),
        [
            (0.1, 2, 0), (None, 3, 0), (4.0, None, 2), None,
            (4.2, 0, None), (0.0, 2, 1), (4.1, 1, 2),
        ],
    ),
    "product of users": (
        mdvpf.Product(OWN_PAIR, mdvpf.Categorical(3, 0.4), OWN_POISSON, mdvpf.Gaussian(), OWN_PAIR),
        [
            ((0.1, 3.0), 0, 2, None, None), (None, 0, 3, 0.1, (None, 0.2)),
            ((4.0, None), 2, None, 5.0, (4.0, 4.1)), None,
            ((None, -1.0), None, 7, None, (0.0, 0.1)),
            ((0.2, 2.9), 1, 2, 0.3, None), (None, 2, None, 4.9, (3.9, None)),
        ],
    ),
    "open product": (
        mdvpf.Product(
            mdvpf.OpenVocabulary(), mdvpf.Gaussian(), mdvpf.OpenVocabulary(2.0, 0.5, 0.3)
        ),
        [
            (0, 0.1, 0), (0, None, 1), (None, 5.0, None), (1, 5.2, 0), None, (2, None, 2),
            (0, 4.9, 3),
        ],
    ),
    "everything": (
        mdvpf.Product(
            OWN_POISSON, mdvpf.OpenVocabulary(0.5, 2.0, 0.0), mdvpf.Categorical(2),
            mdvpf.Poisson(), mdvpf.OpenVocabulary(), OWN_PAIR, mdvpf.Gaussian(shape=2.0),
        ),
        [
            (3, 0, 1, 2, None, (0.1, 0.2), 0.3), (None, 1, None, 9, 0, (4.0, None), None),
            (4, None, 0, None, 1, None, 0.1), (9, 0, 1, 8, None, (None, 0.3), 5.0), None,
            (None, None, None, None, 0, None, None), (8, 2, 0, 2, 2, (4.1, 4.0), 5.1),
        ],
    ),
}  # fmt: skip

BUILT_IN = [stream for stream in STREAMS if stream not in ("product of users", "everything")]
CLOSED = [stream for stream in STREAMS if stream not in ("open product", "everything")]
CLOSED_BUILT_IN = [stream for stream in CLOSED if stream in BUILT_IN]


def given_for(family: Any) -> dict[str, Any]:
    """What `load` must be given for a filter with this family."""
    return {"emission": family} if compiled_parts(family) else {}
