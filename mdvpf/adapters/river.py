"""A predictor as a river model: `learn_one`, `score_one`, `predict_proba_one`.

river passes one dict of features at a time. One feature is the symbol, another may be the key; all
others are ignored. The score is the surprise of the symbol, so a `SymbolFilter` works as an anomaly
detector in river's pipelines, filters and evaluations.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from mdvpf._support.extras import needed
from mdvpf.filter import ParticleFilter
from mdvpf.model import InfiniteHMM
from mdvpf.predictor import MISSING, Label, Predictor, read_symbol

with needed("mdvpf.adapters.river", "river", "river"):
    from river import base


class SymbolFilter(base.AnomalyDetector):
    """Any predictor as an anomaly detector of river.

    Parameters
    ----------
    predictor : Predictor
        The initial predictor. The model and its clones learn in copies of it. With a vocabulary,
        symbols are passed and returned as labels.
    feature : str, default "symbol"
        The feature that is the symbol. If it is absent or None, the symbol is missing.
    key : str, optional
        The feature that is the key, for interleaved sequences. If it is absent or None, the key is
        None.

    Attributes
    ----------
    predictor, feature, key
        As passed.
    learnt : Predictor
        The copy that has learnt.

    Examples
    --------
    >>> import mdvpf
    >>> from mdvpf.adapters.river import SymbolFilter
    >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(n_symbols=2), n_particles=10)
    >>> pf.vocabulary = mdvpf.Vocabulary(["ls", "cd"])
    >>> model = SymbolFilter(pf, feature="command")
    >>> for command in ["ls", "cd"] * 20:
    ...     model.learn_one({"command": command})
    >>> model.score_one({"command": "ls"}) < model.score_one({"command": "cd"})
    True
    >>> max(model.predict_proba_one().items(), key=lambda item: item[1])[0]
    'ls'
    """

    def __init__(
        self, predictor: Predictor, feature: str = "symbol", key: str | None = None
    ) -> None:
        if not isinstance(predictor, Predictor):
            raise TypeError(f"predictor={predictor!r}: expected a Predictor")
        predictor._check_symbols("an adapter")
        if not isinstance(feature, str):
            raise TypeError(f"feature={feature!r}: expected a str")
        if key is not None:
            if not isinstance(key, str):
                raise TypeError(f"key={key!r}: expected a str, or None")
            predictor._check_keys()
        self.predictor = predictor
        self.feature = feature
        self.key = key
        self.learnt = predictor.copy()

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"predictor": ParticleFilter(InfiniteHMM(n_symbols=4), n_particles=20)}

    def _symbol(self, x: dict[Any, Any]) -> int | None:
        value = x.get(self.feature)
        vocabulary = self.learnt.vocabulary
        return value if value is None or vocabulary is None else vocabulary.find(value)

    def _key(self, x: dict[Any, Any] | None) -> dict[str, Label]:
        """Return the keyword arguments with the key; empty without one."""
        found = None if x is None or self.key is None else x.get(self.key)
        return {} if found is None else {"key": found}

    def learn_one(self, x: dict[Any, Any]) -> None:
        """Absorb the symbol of `x`.

        Parameters
        ----------
        x : dict
            The features.
        """
        vocabulary = self.learnt.vocabulary
        self.learnt.update(self._symbol(x), **self._key(x))
        label = x.get(self.feature)
        if vocabulary is not None and label is not None:
            vocabulary.add(label)  # an open vocabulary adds a new label

    def score_one(self, x: dict[Any, Any]) -> float:
        """Return how surprising the symbol of `x` would be now, in nats; 0 for a missing one.

        Parameters
        ----------
        x : dict
            The features.
        """
        symbol = read_symbol(self._symbol(x), self.learnt.n_symbols + self.learnt.is_open)
        if symbol == MISSING:
            return 0.0
        probability = float(self.learnt.predict_proba(**self._key(x))[symbol])
        return 0.0 - math.log(probability) if probability > 0.0 else math.inf

    def predict_proba_one(self, x: dict[Any, Any] | None = None) -> dict[Label, float]:
        """Return the probability of each symbol to come next.

        In an open alphabet the probability of a symbol never seen is left out.

        Parameters
        ----------
        x : dict, optional
            The features. Only the key is used.
        """
        vocabulary = self.learnt.vocabulary
        labels = range(self.learnt.n_symbols) if vocabulary is None else vocabulary
        found = self.learnt.predict_proba(**self._key(x)).tolist()
        return dict(zip(labels, found[: self.learnt.n_symbols], strict=False))

    def new_sequence(self, key: Label | None = None) -> None:
        """End the sequence of a key: its next symbol starts a new one."""
        if key is None:
            self.learnt.new_sequence()
        else:
            self.learnt.new_sequence(key)
