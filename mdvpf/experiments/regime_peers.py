"""Peers on streams of numbers: hmmlearn, refitted on a window, and ruptures, for change points.

hmmlearn fits a hidden Markov model with a fixed number of states to a batch. To follow a stream,
every `EVERY` observations it is fitted to the last `window` of them, with every number of states up
to `MOST_STATES`. The fit with the lowest BIC predicts until the next fit. A fitted model gives
unusual observations a density of almost zero. Each prediction is therefore a mixture with a single
conjugate state of weight `SHARE`. Before the first fit this state predicts alone.

ruptures finds change points offline, in the whole stream.
"""

from __future__ import annotations

import logging
import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdvpf._support.extras import needed
from mdvpf.experiments.regime_streams import (
    KINDS,
    Floats,
    ForwardFilter,
    Numbers,
    Regimes,
    predictions,
)
from mdvpf.filter import ParticleFilter
from mdvpf.model import Gaussian, InfiniteHMM, Poisson
from mdvpf.model.algorithms import VPA
from mdvpf.predictor import FilterResult

FAMILIES: dict[str, Gaussian | Poisson] = {
    "Gaussian": Gaussian(mean=0.0, mean_strength=0.06, shape=2.0, scale=2.0),
    "Poisson": Poisson(shape=1.0, rate=0.08),
}

WINDOWS = (250, 500, 1000)
EVERY = 100
FIRST = 50  # observations before the first fit
MOST_STATES = 6
N_ITER = 50
SHARE = 0.01
PENALTY = 3.0  # penalty of a change point, divided by the log of the number of observations


def single_state(kind: str) -> ParticleFilter:
    """Return the filter with one state: the conjugate model of all numbers so far."""
    model = InfiniteHMM(emission=FAMILIES[kind], max_states=1)
    return ParticleFilter(model, VPA(), n_particles=1)


@dataclass(frozen=True, slots=True)
class Refitted:
    """An HMM of hmmlearn, refitted on a window."""

    window: int
    every: int = EVERY
    share: float = SHARE

    def predictor(self, data: Numbers, rng: np.random.SeedSequence) -> Hmmlearn:
        """Return the HMM for a stream."""
        return Hmmlearn(data.regimes.kind, self, int(rng.generate_state(1)[0]))


class Hmmlearn:
    """Predictions by fits of hmmlearn on a moving window.

    Parameters
    ----------
    kind : str
        One of `KINDS`.
    settings : Refitted
        Window and interval of the fits.
    seed : int
        Seed of the fits.

    Attributes
    ----------
    changes : tuple of int
        Times at which the likeliest state changed, after a run.
    """

    def __init__(self, kind: str, settings: Refitted, seed: int) -> None:
        assert kind in KINDS
        self.changes: tuple[int, ...] = ()
        self._kind, self._settings, self._seed = kind, settings, seed

    def run(self, symbols: Floats, lengths: None = None) -> FilterResult:
        """Return the log predictives of a stream."""
        single = single_state(self._kind).run(symbols).log_predictive
        fitted, changes = single.copy(), []
        share = self._settings.share
        for start in range(FIRST, len(symbols), self._settings.every):
            window = symbols[max(0, start - self._settings.window) : start]
            block = symbols[start : start + self._settings.every]
            found, posteriors = self.fit(window).run(np.concatenate([window, block]))
            fitted[start : start + len(block)] = found[len(window) :]
            states = posteriors[len(window) - 1 :].argmax(axis=1)
            changes += (start + np.flatnonzero(np.diff(states))).tolist()
        self.changes = tuple(changes)
        mixed = np.logaddexp(math.log1p(-share) + fitted, math.log(share) + single)
        mixed[:FIRST] = single[:FIRST]
        return predictions(mixed)

    def fit(self, window: Floats) -> ForwardFilter:
        """Return the fit with the lowest BIC."""
        with needed("the peer hmmlearn", "hmmlearn", "peers"):
            from hmmlearn import hmm
        logging.getLogger("hmmlearn").setLevel(logging.ERROR)  # no warnings about convergence
        best: tuple[float, Any] = (math.inf, None)
        for n_states in range(1, MOST_STATES + 1):
            kind = hmm.GaussianHMM if self._kind == "Gaussian" else hmm.PoissonHMM
            model = kind(n_states, n_iter=N_ITER, random_state=self._seed)
            numbers = window[:, np.newaxis]
            numbers = numbers if self._kind == "Gaussian" else numbers.astype(np.int64)
            try:
                with np.errstate(all="ignore"):
                    model.fit(numbers)
                    bic = float(model.bic(numbers))
            except ValueError:  # more states than distinct numbers
                break
            if bic < best[0]:
                best = bic, model
        model = best[1]
        if self._kind == "Gaussian":
            second = np.sqrt(model.covars_.ravel())
            regimes = Regimes(self._kind, _plain(model.means_), _plain(second))
        else:
            regimes = Regimes(self._kind, _plain(model.lambdas_), _plain(model.lambdas_))
        return ForwardFilter(regimes, model.startprob_, model.transmat_)


def _plain(values: Floats) -> tuple[float, ...]:
    return tuple(values.ravel().tolist())


@dataclass(frozen=True, slots=True)
class Segmented:
    """Change points by ruptures: PELT with the cost of normal segments.

    Counts are transformed to square roots, whose variance hardly depends on the rate.
    """

    penalty: float = PENALTY

    def predictor(self, data: Numbers, rng: np.random.SeedSequence) -> Ruptures:
        """Return the search for a stream."""
        return Ruptures(data.regimes.kind, self.penalty)


class Ruptures:
    """A search for change points; its log predictives are NaN.

    Parameters
    ----------
    kind : str
        One of `KINDS`.
    penalty : float
        Penalty of a change point, divided by the log of the number of observations.

    Attributes
    ----------
    changes : tuple of int
        The change points, after a run.
    """

    def __init__(self, kind: str, penalty: float) -> None:
        self.changes: tuple[int, ...] = ()
        self._kind, self._penalty = kind, penalty

    def run(self, symbols: Floats, lengths: None = None) -> FilterResult:
        """Find the change points of a stream."""
        with needed("the peer ruptures", "ruptures", "peers"):
            import ruptures
        values = np.sqrt(symbols + 0.375) if self._kind == "Poisson" else symbols
        with warnings.catch_warnings():  # ruptures 1.1.5 announces a change
            warnings.simplefilter("ignore")
            search = ruptures.Pelt(model="normal", min_size=3, jump=1).fit(values)
        self.changes = tuple(search.predict(pen=self._penalty * math.log(len(values)))[:-1])
        return predictions(np.full(len(symbols), np.nan))
