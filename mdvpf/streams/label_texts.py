"""Translate between the labels of a stream and the symbols of a predictor.

Lines contain text, but labels of a vocabulary need not be text. In a fixed vocabulary both a label
and its text select the symbol. In an open vocabulary "1" and 1 are two different labels, and each
selects only its own symbol.
"""

from __future__ import annotations

from mdvpf.predictor import Label, Predictor, Vocabulary, label_text
from mdvpf.streams import excerpts


class LabelTexts:
    """Translates between labels in a stream and symbols of a predictor.

    Parameters
    ----------
    predictor : Predictor
        Its vocabulary defines the labels. Without a vocabulary the labels are numbers.
    """

    def __init__(self, predictor: Predictor) -> None:
        self._vocabulary: Vocabulary | None = predictor.vocabulary
        self._labels: list[Label] = list(self._vocabulary or ())
        self._symbols: dict[Label, int] = {}
        for symbol, label in enumerate(self._labels):
            text = label_text(label)
            other = self._symbols.setdefault(text, symbol)
            if other != symbol and not (self._vocabulary and self._vocabulary.is_open):
                raise ValueError(
                    f"vocabulary: {self._labels[self._symbols[text]]!r} and {label!r} are both "
                    f"{text!r} in a line; expected labels with different texts"
                )
            self._symbols[label] = symbol

    def __contains__(self, text: str) -> bool:
        return text in self._symbols or (self._vocabulary is None and text.isdecimal())

    def symbol(self, label: Label, predictor: Predictor) -> int:
        """Return the symbol of a label, or raise.

        In an open vocabulary a new label gets the next free number. `predictor` may be a copy of
        the one whose vocabulary was passed before.
        """
        if self._vocabulary is None:
            return _read_number(label, predictor)
        if self._vocabulary.is_open:
            return _open_vocabulary(predictor).find(label)
        symbol = self._symbols.get(label)
        if symbol is not None:
            return symbol
        if self._vocabulary.unknown is not None:
            return self._vocabulary.n_symbols - 1
        raise ValueError(
            f"{shown(label)}: expected one of the {len(self._vocabulary)} labels of the vocabulary"
        )

    def note(self, label: Label, predictor: Predictor) -> None:
        """Add a label to an open vocabulary after the predictor has absorbed it."""
        if self._vocabulary is not None and self._vocabulary.is_open:
            _open_vocabulary(predictor).add(label)

    def label(self, symbol: int, predictor: Predictor) -> Label | None:
        """Return the label of a symbol; None for the symbol of all unseen labels."""
        if self._vocabulary is None:
            return symbol
        if self._vocabulary.is_open:
            vocabulary = _open_vocabulary(predictor)
            if vocabulary is not self._vocabulary or len(self._labels) != len(vocabulary):
                self._vocabulary, self._labels = vocabulary, list(vocabulary)
        return self._labels[symbol] if symbol < len(self._labels) else None


def _open_vocabulary(predictor: Predictor) -> Vocabulary:
    assert predictor.vocabulary is not None
    return predictor.vocabulary


def _read_number(label: Label, predictor: Predictor) -> int:
    last = predictor.n_symbols - (0 if predictor.is_open else 1)
    if isinstance(label, str) and label.isascii() and label.isdecimal() and len(label) < 20:
        number = int(label)
    else:
        number = label if type(label) is int else -1
    if 0 <= number <= last:
        return number
    raise ValueError(f"{shown(label)}: expected an integer in 0..{last}")


def shown(label: Label) -> str:
    """Return a label for a message, shortened if it is long."""
    return excerpts.shown(label if isinstance(label, (str, bytes)) else label_text(label))
