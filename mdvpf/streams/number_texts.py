"""Translate between the texts of a stream and the observations of a predictor over numbers."""

from __future__ import annotations

import math
from typing import Any

from mdvpf.model import (
    Categorical,
    NumberFamily,
    OpenVocabulary,
    Product,
    channels_of,
    read_observation,
)
from mdvpf.predictor import Label, Predictor
from mdvpf.streams.label_texts import shown


class NumberTexts:
    """Reads the text of a line as an observation; it stands in for `LabelTexts`.

    An observation of several numbers has them in one text, with space between; ``nan`` is missing.

    Parameters
    ----------
    family : NumberFamily
        What the predictor observes.

    Examples
    --------
    >>> import mdvpf
    >>> from mdvpf.streams.number_texts import NumberTexts
    >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(emission=mdvpf.Gaussian(2)), n_particles=5)
    >>> NumberTexts(pf.model.emission).symbol("0.5 nan", pf)
    (0.5, nan)
    """

    def __init__(self, family: NumberFamily) -> None:
        self._family = family
        parts = family.families if isinstance(family, Product) else (family,)
        self._widths = [len(channels_of(part)) for part in parts]
        self._are_symbols = [isinstance(part, (Categorical, OpenVocabulary)) for part in parts]

    def __contains__(self, text: str) -> bool:
        try:
            float(text)
        except ValueError:
            return False
        return not math.isnan(float(text))

    def symbol(self, label: Label, predictor: Predictor) -> Any:
        """Return the observation that a text stands for, or raise."""
        words, n = str(label).split(), sum(self._widths)
        try:
            numbers = [float(word) for word in words]
        except ValueError:
            numbers = []
        if len(numbers) != n or isinstance(label, (bytes, tuple)):
            what = "a number" if n == 1 else f"{n} numbers with space between"
            raise ValueError(f"{shown(label)}: expected {what}")
        found = self._observation(numbers)
        read_observation(self._family, found)  # or raises, before anything changes
        return found

    def _observation(self, numbers: list[float]) -> Any:
        """Return numbers in the form that `update` takes."""
        entries: list[Any] = []
        for width, is_symbol in zip(self._widths, self._are_symbols, strict=True):
            part, numbers = numbers[:width], numbers[width:]
            if is_symbol:
                number = part[0]
                whole = number.is_integer()
                entries.append(None if math.isnan(number) else int(number) if whole else number)
            else:
                entries.append(part[0] if width == 1 else tuple(part))
        return tuple(entries) if isinstance(self._family, Product) else entries[0]

    def note(self, label: Label, predictor: Predictor) -> None:
        """Do nothing: numbers have no vocabulary."""

    def label(self, symbol: Any, predictor: Predictor) -> Label | None:
        """Return an observation as reports show it: a number, or the text of several.

        A single number that is NaN is missing: None.
        """
        if not isinstance(symbol, tuple):
            return None if math.isnan(symbol) else symbol
        entries = [part for entry in symbol for part in _entries(entry)]
        return " ".join("nan" if entry is None else repr(entry) for entry in entries)


def _entries(entry: Any) -> tuple[Any, ...]:
    return entry if isinstance(entry, tuple) else (entry,)
