"""Forecasts of a filter: top symbols, sampled continuations, distributions at longer horizons."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdvpf._support import validate
from mdvpf.filter.number_sampling import number_continuations
from mdvpf.filter.particle_statistics import ParticleStatistics
from mdvpf.filter.predictive import Predictive
from mdvpf.filter.sampling import continuations
from mdvpf.filter.uniforms import restored_on_error
from mdvpf.model import InfiniteHMM, channels_of
from mdvpf.predictor import Label, Predictor


class Forecasts(Predictor):
    """Base class of the filter: read-only methods that derive from its predictions.

    Examples
    --------
    >>> import mdvpf
    >>> from mdvpf.filter.forecasts import Forecasts
    >>> issubclass(mdvpf.ParticleFilter, Forecasts)
    True
    """

    model: InfiniteHMM

    @property
    @abstractmethod
    def weights(self) -> NDArray[np.float64]:
        """Normalised weight of each particle."""

    @abstractmethod
    def _statistics(self, k: int, number: int) -> ParticleStatistics:
        """Return the statistics of a particle, with its state in a key."""

    def _seen(self) -> NDArray[np.int64] | None:
        """Return how often each symbol of an open alphabet was seen; None if it is closed."""
        return None

    @abstractmethod
    def _numbers(self, k: int) -> NDArray[np.float64]:
        """Return the statistics of the states of a particle, in a family over numbers."""

    @abstractmethod
    def _components(self, number: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return weights and statistics of the components of the predictive of a key."""

    def predictive(self, key: Label | None = None) -> Predictive:
        """Return the distribution of the next observation of a key, for families over numbers.

        Parameters
        ----------
        key : label, optional
            Which of several interleaved sequences to predict.

        Examples
        --------
        >>> import mdvpf
        >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(emission=mdvpf.Poisson()), n_particles=10)
        >>> _ = pf.run([7, 8, 6, 7, 9, 7])
        >>> pf.predictive().mean() > 4.0
        True
        """
        if self.model.numbers is None:
            raise TypeError("predictive: observations are symbols; expected predict_proba()")
        return self._predictive(self._number(key))

    def _predictive(self, number: int) -> Predictive:
        assert self.model.numbers is not None
        return Predictive(self.model.numbers, *self._components(number))

    def _number_continuations(
        self, length: int, size: int, key: Label | None, rng: np.random.Generator
    ) -> Any:
        """Return `number_continuations` of this filter."""
        number = self._number(key)
        return number_continuations(
            self.model,
            self.weights,
            lambda k: (self._statistics(k, number), self._numbers(k)),
            length,
            size,
            rng,
        )

    def top(self, n: int = 3, key: Label | None = None) -> list[tuple[int, float]]:
        """Return the n likeliest symbols with their probabilities, the likeliest first.

        Ties are broken by symbol, the smaller first. An alphabet of fewer than n symbols yields
        fewer pairs. In an open alphabet `n_symbols` stands for a symbol never seen.

        Parameters
        ----------
        n : int, default 3
            Number of symbols to return.
        key : label, optional
            Which of several interleaved sequences to predict.

        Examples
        --------
        >>> import mdvpf
        >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(n_symbols=1000), n_particles=10)
        >>> _ = pf.run([7, 9] * 50)
        >>> [symbol for symbol, probability in pf.top(2)]
        [7, 9]
        """
        self._check_symbols("top")
        n = min(validate.integer("n", n, low=1), self.n_symbols + self.is_open)
        probabilities = self.predict_proba(key)
        last = np.partition(probabilities, -n)[-n]
        likelier = np.flatnonzero(probabilities > last)
        likelier = likelier[np.argsort(-probabilities[likelier], kind="stable")]
        equal = np.flatnonzero(probabilities == last)[: n - len(likelier)]
        symbols = np.concatenate([likelier, equal])
        return list(zip(symbols.tolist(), probabilities[symbols].tolist(), strict=True))

    def sample(
        self, length: int, size: int = 1, key: Label | None = None, rng: Any = None
    ) -> NDArray[Any]:
        """Return random continuations of the stream.

        Each continuation draws a particle by weight. It then draws states and symbols by the
        predictive rule of the model and adds them to its own counts. There is no selection, so a
        long continuation shows what the particle expects, not what the filter would learn. The
        filter is not changed. MD-VPA continues from its provisional particles. In an open alphabet
        a continuation numbers its new symbols from `n_symbols` on, by first appearance.

        Parameters
        ----------
        length : int
            Number of symbols of a continuation.
        size : int, default 1
            Number of continuations.
        key : label, optional
            Which of several interleaved sequences to continue.
        rng : None, int, SeedSequence, BitGenerator or Generator, optional
            Seed or generator of the random numbers. The default is a fresh generator, not that of
            the filter.

        Returns
        -------
        ndarray of int64, shape (size, length)
            The symbols. For numbers, float64, with a third axis if an observation has several.

        Examples
        --------
        >>> import mdvpf
        >>> model = mdvpf.InfiniteHMM(n_symbols=3, alpha=1e-6, beta=1e-6)
        >>> pf = mdvpf.ParticleFilter(model, n_particles=10)
        >>> _ = pf.run([0, 1, 2] * 100)
        >>> pf.sample(length=6, size=2, rng=0).tolist()
        [[0, 1, 2, 0, 1, 2], [0, 1, 2, 0, 1, 2]]
        """
        length = validate.integer("length", length, low=1)
        size = validate.integer("size", size, low=1)
        generator = validate.generator("rng", rng)
        family = self.model.numbers
        if family is not None:
            drawn = np.empty((size, length, len(channels_of(family))))
            with restored_on_error(generator):
                for part, numbers in self._number_continuations(length, size, key, generator):
                    for i in range(length):
                        drawn[part, i] = numbers.draw(generator)
            return drawn[..., 0] if drawn.shape[2] == 1 else drawn
        symbols = np.empty((size, length), dtype=np.int64)
        statistics = partial(self._statistics, number=self._number(key))
        for part, ahead in continuations(
            self.model, self.weights, statistics, length, size, generator, self._seen()
        ):
            for i in range(length):
                symbols[part, i] = ahead.draw(generator)
        return symbols

    def forecast(
        self, horizon: int, size: int = 1000, key: Label | None = None, rng: Any = None
    ) -> Any:
        """Return the distributions of the next `horizon` symbols, one row a symbol.

        Row 0 is `predict_proba`. Row h draws `size` continuations of h symbols as `sample` does
        and averages their exact one-step predictives. In an open alphabet the last entry of a row
        stands for all symbols not seen yet. For numbers the result is a list of `Predictive`; the
        first is `predictive`.

        Parameters
        ----------
        horizon : int
            Number of symbols to forecast.
        size : int, default 1000
            Number of continuations to average over.
        key : label, optional
            Which of several interleaved sequences to predict.
        rng : None, int, SeedSequence, BitGenerator or Generator, optional
            Seed or generator of the random numbers. The default is a fresh generator, not that of
            the filter.

        Returns
        -------
        ndarray of float64, shape (horizon, n_symbols), or (horizon, n_symbols + 1) if open
            Each row sums to one. For numbers, a list of `Predictive`.

        Examples
        --------
        >>> import mdvpf
        >>> model = mdvpf.InfiniteHMM(n_symbols=3, alpha=1e-6, beta=1e-6)
        >>> pf = mdvpf.ParticleFilter(model, n_particles=10)
        >>> _ = pf.run([0, 1, 2] * 100)
        >>> pf.forecast(horizon=4, rng=0).argmax(axis=1).tolist()
        [0, 1, 2, 0]
        """
        horizon = validate.integer("horizon", horizon, low=1)
        size = validate.integer("size", size, low=1)
        generator = validate.generator("rng", rng)
        if self.model.numbers is not None:
            with restored_on_error(generator):
                return self._forecast_numbers(horizon, size, key, generator)
        rows = np.zeros((horizon, self.n_symbols + self.is_open))
        rows[0] = self.predict_proba(key)
        if horizon == 1:
            return rows
        statistics = partial(self._statistics, number=self._number(key))
        for part, ahead in continuations(
            self.model, self.weights, statistics, horizon - 1, size, generator, self._seen()
        ):
            for row in rows[1:]:
                ahead.draw(generator)
                row += ahead.mean_predictive() * (len(part) / size)
        return rows

    def _forecast_numbers(
        self, horizon: int, size: int, key: Label | None, rng: np.random.Generator
    ) -> list[Predictive]:
        assert self.model.numbers is not None
        first = self.predictive(key)
        found: list[list[tuple[NDArray[np.float64], NDArray[np.float64]]]]
        found = [[] for _ in range(horizon - 1)]
        if horizon > 1:
            for _, numbers in self._number_continuations(horizon - 1, size, key, rng):
                for parts in found:
                    numbers.draw(rng)
                    parts.append(numbers.components())
        return [
            first,
            *(
                Predictive(
                    self.model.numbers,
                    np.concatenate([weights for weights, _ in parts]),
                    np.concatenate([statistics for _, statistics in parts]),
                )
                for parts in found
            ),
        ]
