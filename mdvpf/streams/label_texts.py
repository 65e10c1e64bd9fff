"""Labels of a stream on one side, symbols of a predictor on the other.

Lines hold text, and the labels of a vocabulary may be anything: a label stands for itself, and for
its text. An open vocabulary takes labels as they come, text or not: there "1" and 1 are two labels,
each of which stands for itself only.
"""

from __future__ import annotations

from mdvpf.predictor import Label, Predictor, Vocabulary, label_text


class LabelTexts:
    """Translates between what stands in a stream and the symbols of a predictor.

    Parameters
    ----------
    predictor : Predictor
        Its vocabulary, if it has one, knows the labels; without, they are numbers.
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
                    f"{text!r} in a line; expected labels that differ there"
                )
            self._symbols[label] = symbol

    def __contains__(self, text: str) -> bool:
        return text in self._symbols or (self._vocabulary is None and text.isdecimal())

    def symbol(self, label: Label, predictor: Predictor) -> int:
        """Return the symbol of a label for the predictor that is to absorb it, or raise.

        A new label of an open vocabulary has the number of symbols that there are so far.
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
        """Let an open vocabulary take a label that was absorbed."""
        if self._vocabulary is not None and self._vocabulary.is_open:
            _open_vocabulary(predictor).add(label)

    def label(self, symbol: int, predictor: Predictor) -> Label | None:
        """Return the label of a symbol; None for the one that stands for what was never seen."""
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
    """Return the beginning of a label for a message."""
    whole = label if isinstance(label, (str, bytes)) else label_text(label)
    return repr(whole[:40]) + ("..." if len(whole) > 40 else "")
