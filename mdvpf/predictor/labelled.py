"""Labels of a predictor's symbols, the table of its keys, and how a checkpoint holds both."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any, ClassVar, Self

from mdvpf import checkpoint
from mdvpf.predictor.keys import KeyTable
from mdvpf.predictor.vocabulary import Vocabulary


class Labelled(checkpoint.Saveable):
    """Base class of predictors: a vocabulary for symbols, a table for keys."""

    @property
    @abstractmethod
    def n_symbols(self) -> int:
        """Size of the alphabet; for an open one, the number of symbols seen."""

    @property
    def is_open(self) -> bool:
        """Whether the alphabet is open: the symbol `n_symbols` stands for one never seen."""
        return False

    @property
    def _n_seen(self) -> tuple[int, ...]:
        """Number of symbols seen in each open channel of a family over numbers."""
        return ()

    _key_table: KeyTable | None = None

    @property
    def _table(self) -> KeyTable:
        """The keys in use."""
        if self._key_table is None:
            self._key_table = KeyTable()
        return self._key_table

    # -- labels of the symbols -------------------------------------------------------------

    _vocabulary: Vocabulary | None = None

    @property
    def vocabulary(self) -> Vocabulary | None:
        """The labels of the symbols: a `Vocabulary`, or None unless set.

        With a vocabulary, `run` and `score` accept labels as well as symbols. It does not affect
        predictions. Copies and checkpoints include it.

        Examples
        --------
        >>> import mdvpf
        >>> chain = mdvpf.Markov(2)
        >>> chain.vocabulary = mdvpf.Vocabulary(["cd", "make"])
        >>> bool((chain.score(["make", "cd", None]) == chain.score([1, 0, None])).all())
        True
        """
        return self._vocabulary

    @vocabulary.setter
    def vocabulary(self, vocabulary: Vocabulary | None) -> None:
        if vocabulary is not None:
            if not isinstance(vocabulary, Vocabulary):
                raise TypeError(f"vocabulary={vocabulary!r}: expected a Vocabulary, or None")
            _check_size(vocabulary, self.n_symbols, self.is_open)
        self._vocabulary = vocabulary

    def _learn_labels(self, trial: Vocabulary) -> None:
        """Add the labels that a copy of the vocabulary has learnt in a run."""
        vocabulary = self._vocabulary
        assert vocabulary is not None
        labels = list(trial)
        for label in labels[len(vocabulary) : self.n_symbols if self.is_open else None]:
            vocabulary.add(label)

    # -- checkpoints -----------------------------------------------------------------------

    _is_of_0_1: ClassVar[bool] = True  # then 0.1 can read a file without keys

    def _to_state(self) -> checkpoint.State:
        """Return the state of the predictor, without its vocabulary and keys."""
        raise TypeError(f"{type(self).__name__} cannot be saved")

    @classmethod
    def _from_state(cls, state: checkpoint.State, given: dict[str, Any]) -> Self:
        """Return the predictor of a state, or raise; `given` holds the arguments of `load`."""
        raise TypeError(f"{cls.__name__} cannot be loaded")

    def _to_checkpoint(self) -> checkpoint.State:
        state = self._to_state()
        vocabulary = None if self.vocabulary is None else self.vocabulary._values()
        values = {**state.values, "vocabulary": vocabulary}
        version = state.version
        if self.vocabulary is not None and self.vocabulary.is_open:
            version = max(version, 2)
        is_guessed = (None in self._table) == self._has_begun or (version == 1 and self._is_of_0_1)
        if not (self._table.is_plain and self._table.max_keys is None and is_guessed):
            values["keys"] = self._table.to_values()
            version = max(version, 2)
        return replace(state, values=values, version=version)  # without keys, as in version 0.1

    @classmethod
    def _from_checkpoint(cls, state: checkpoint.State, given: dict[str, Any]) -> Self:
        values = dict(state.values)
        vocabulary, keys = values.pop("vocabulary"), values.pop("keys", None)
        predictor = cls._from_state(replace(state, values=values), given)
        if vocabulary is not None:
            read = Vocabulary._from_values(vocabulary)
            if predictor.is_open and read.is_open:
                predictor._vocabulary = read  # its size may differ from `n_symbols`
            else:
                predictor.vocabulary = read
        if keys is not None:
            predictor._key_table = KeyTable.from_values(keys)
        elif predictor._has_begun:
            predictor._table.use(None)
        return predictor

    @property
    def _has_begun(self) -> bool:
        """Whether the sequence of key=None has begun, as far as its position tells.

        A file without a table of keys leaves this open.
        """
        return True


def _check_size(vocabulary: Vocabulary, n_symbols: int, is_open: bool) -> None:
    """Check that a vocabulary fits an alphabet of `n_symbols` symbols, open or not."""
    n = vocabulary.n_symbols
    if is_open:
        if not vocabulary.is_open or n != n_symbols:
            raise ValueError(
                f"vocabulary={vocabulary!r} of {n} symbols: expected one that is open "
                f"(Vocabulary.open) and has the {n_symbols} symbols that the predictor has seen"
            )
    elif (
        vocabulary.capacity is None
        or vocabulary.capacity > n_symbols
        or (not vocabulary.is_open and n < n_symbols)
    ):
        raise ValueError(
            f"vocabulary={vocabulary!r} of {n} symbols: expected {n_symbols}, as the predictor "
            "has; the size of its alphabet is fixed: create a new predictor, or one with an open "
            "alphabet"
        )
