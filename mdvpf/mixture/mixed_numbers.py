"""`MixedNumbers`: the predictive of a mixture whose members are over numbers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from mdvpf.filter.predictive import Predictive
from mdvpf.mixture.members import Combined, Members
from mdvpf.mixture.weights import Weights
from mdvpf.predictor import Label, Predictor


class MixedNumbers(Combined):
    """Base class of `Mixture`, with the method that it has only for members over numbers.

    Examples
    --------
    >>> import mdvpf
    >>> from mdvpf.mixture.mixed_numbers import MixedNumbers
    >>> issubclass(mdvpf.Mixture, MixedNumbers)
    True
    """

    _members: Members
    _weights: Weights

    @property
    @abstractmethod
    def living(self) -> Sequence[Predictor]:
        """The members and all living restarted copies."""

    def predictive(self, key: Label | None = None) -> Predictive:
        """Return the distribution of the next observation of a key, for members over numbers.

        Examples
        --------
        >>> import mdvpf
        >>> models = [mdvpf.InfiniteHMM(emission=mdvpf.Gaussian(mean=m)) for m in (0.0, 4.0)]
        >>> mixture = mdvpf.Mixture([mdvpf.ParticleFilter(m, n_particles=5) for m in models])
        >>> mixture.predictive().mean()
        2.0
        """
        if self._family is None:
            raise TypeError("predictive: observations are symbols; expected predict_proba()")
        return self._predictive(self._number(key))

    def _predictive(self, number: int) -> Predictive:
        self._members.check_whole()
        parts = [member._predictive(number) for member in self.living]  # type: ignore[attr-defined]
        return Predictive.mixed(np.exp(self._weights.log).ravel(), parts)
