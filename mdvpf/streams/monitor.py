"""A stream as it arrives: lines of text in, one report a line out, and all of it in a checkpoint.

A `Monitor` puts a detector at the end of a stream. It reads a line, says what the predictor
expected in its place, lets the predictor absorb it, and the detector judge the surprise. It
counts the lines, so that a stream that comes from a file can go on after a restart where it
stopped. `mdvpf filter` is this with a file at each end.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mdvpf import checkpoint
from mdvpf._support import validate
from mdvpf._support.attributes import Checked, ReadOnly
from mdvpf.detect import SurpriseDetector
from mdvpf.filter import ParticleFilter
from mdvpf.mixture import Mixture
from mdvpf.predictor import Label, Predictor, Step, label_text, read_step

N_EXPECTED = 3  # how many of the likeliest symbols a report names


@dataclass(frozen=True, slots=True)
class Report:
    """What one line did.

    Attributes
    ----------
    line : int
        Number of the line, from 1, over the life of the monitor.
    symbol : label or None
        The symbol, as a label if there is a vocabulary; None if it is missing.
    log_predictive : float
        Log probability of the symbol, fixed before it was used; 0 for a missing one.
    surprise : float
        The same with the sign turned: nats.
    alarm : bool
        Whether the detector raised an alarm.
    mean_states : float or None
        Weighted mean number of states of the filter after the symbol; of all filters in a mixture,
        each by its weight in the next prediction; None if there is no filter.
    expected : tuple of (label, float)
        The likeliest symbols before this one was seen, and their probabilities.

    Examples
    --------
    >>> import mdvpf
    >>> report = mdvpf.Monitor(mdvpf.Markov(n_symbols=2, order=0)).read("1")
    >>> report.line, report.symbol, round(report.surprise, 3)
    (1, 1, 0.693)
    """

    line: int
    symbol: Label | None
    log_predictive: float
    surprise: float
    alarm: bool
    mean_states: float | None
    expected: tuple[tuple[Label, float], ...]

    def to_json(self) -> str:
        """Return the report as one line of JSON.

        JSON has no infinite numbers: what a symbol of probability zero has of them is null.

        Examples
        --------
        >>> from mdvpf.streams.monitor import Report
        >>> Report(1, "ls", -0.5, 0.5, False, 1.0, (("cd", 0.25),)).to_json()[:44]
        '{"line": 1, "symbol": "ls", "log_predictive"'
        """
        return json.dumps(
            {
                "line": self.line,
                "symbol": _plain(self.symbol),
                "log_predictive": _finite(self.log_predictive),
                "surprise": _finite(self.surprise),
                "alarm": self.alarm,
                "mean_states": self.mean_states,
                "expected": [
                    {"symbol": _plain(label), "probability": probability}
                    for label, probability in self.expected
                ],
            },
            allow_nan=False,
        )


@checkpoint.register("Monitor")
class Monitor(checkpoint.Saveable):
    r"""A detector and its predictor at the end of a stream of lines.

    A line holds one symbol: a label, if the predictor has a vocabulary, else a number in
    ``0..n_symbols-1``. A label that is not text stands in the line as JSON writes it: 7 is
    ``7``, the tuple ("a", 7) is ``["a", 7]``. Space around it does not count. An empty line
    ends a sequence.

    Parameters
    ----------
    detector : SurpriseDetector or Predictor
        What absorbs and judges the symbols; a predictor gets a detector as it is by default. It is
        the monitor's from now on.
    missing : str, optional
        The text of a line whose symbol is missing.

    Attributes
    ----------
    detector : SurpriseDetector
    missing : str or None
        As passed.
    n_lines : int
        How many lines were read, those that were skipped among them.

    Examples
    --------
    >>> import mdvpf
    >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(n_symbols=2), n_particles=10)
    >>> monitor = mdvpf.Monitor(pf)
    >>> report = monitor.read("1\n")
    >>> report.line, report.symbol, report.expected
    (1, 1, ((0, 0.5), (1, 0.5)))
    """

    detector: ReadOnly[SurpriseDetector] = ReadOnly()
    missing: ReadOnly[str | None] = ReadOnly()
    n_lines: Checked[int] = Checked(lambda n: validate.integer("n_lines", n, low=0, high=2**62))

    def __init__(
        self, detector: SurpriseDetector | Predictor, *, missing: str | None = None
    ) -> None:
        if isinstance(detector, Predictor):
            detector = SurpriseDetector(detector)
        if not isinstance(detector, SurpriseDetector):
            raise TypeError(f"detector={detector!r}: expected a SurpriseDetector or a Predictor")
        self.detector = detector
        self.n_lines = 0
        self._labels: list[Label] = list(self.predictor.vocabulary or ())
        self._symbols = _by_text(self._labels)
        self.missing = None if missing is None else self._read_missing(missing)

    def __repr__(self) -> str:
        return f"Monitor({self.detector!r}, missing={self.missing!r})"

    @property
    def predictor(self) -> Predictor:
        """The detector's predictor."""
        return self.detector.predictor

    def read(self, line: str | bytes) -> Report | None:
        """Absorb one line.

        Parameters
        ----------
        line : str or bytes
            The line, in UTF-8 if it is bytes.

        Returns
        -------
        Report or None
            None for an empty line.

        Raises
        ------
        ValueError
            If the line is malformed; then it is not counted, and nothing has changed.

        Examples
        --------
        >>> import mdvpf
        >>> monitor = mdvpf.Monitor(mdvpf.Markov(n_symbols=2, order=0), missing="?")
        >>> monitor.read("?").log_predictive
        0.0
        >>> monitor.read("two")
        Traceback (most recent call last):
        ...
        ValueError: line 2: 'two': expected an integer in 0..1
        """
        text = self._text(line)
        if not text:
            self.detector.new_sequence()
            self.n_lines += 1
            return None
        symbol = None if text == self.missing else self._symbol(text)
        predictor = self.detector.reader
        expected = _likeliest(predictor.predict_proba())
        step = read_step(predictor, predictor.update(symbol))
        detection = self.detector.judge(step, missing=symbol is None)
        self.n_lines += 1
        return Report(
            line=self.n_lines,
            symbol=None if symbol is None else self._label(symbol),
            log_predictive=step.log_predictive,
            surprise=detection.surprise,
            alarm=detection.alarm,
            mean_states=_mean_states(predictor, step),
            expected=tuple((self._label(i), p) for i, p in expected),
        )

    def skip(self) -> None:
        """Count a line without reading it.

        Examples
        --------
        >>> import mdvpf
        >>> monitor = mdvpf.Monitor(mdvpf.Markov(n_symbols=2, order=0))
        >>> monitor.skip()
        >>> monitor.n_lines
        1
        """
        self.n_lines += 1

    def _text(self, line: str | bytes) -> str:
        if isinstance(line, str):
            return line.strip()
        if not isinstance(line, bytes):
            raise TypeError(f"line={line!r}: expected a str or bytes")
        try:
            return line.decode("utf-8-sig").strip()  # files from Windows may begin with a mark
        except UnicodeDecodeError as error:
            raise self._malformed(line, f"text in UTF-8 ({error.reason})") from None

    def _read_missing(self, missing: Any) -> str:
        if not isinstance(missing, str):
            raise TypeError(f"missing={missing!r}: expected a str, or None")
        if not missing or missing != missing.strip():
            raise ValueError(f"missing={missing!r}: expected text without space around it")
        if missing in self._symbols or (not self._labels and missing.isdecimal()):
            raise ValueError(f"missing={missing!r}: expected text that is not a symbol")
        return missing

    def _symbol(self, text: str) -> int:
        if self._labels:
            vocabulary = self.predictor.vocabulary
            assert vocabulary is not None
            symbol = self._symbols.get(text)
            if symbol is not None:
                return symbol
            if vocabulary.unknown is not None:
                return len(vocabulary.labels)
            raise self._malformed(text, f"one of the {len(vocabulary)} labels of the vocabulary")
        last = self.predictor.n_symbols - 1
        if text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= last:
            return int(text)
        raise self._malformed(text, f"an integer in 0..{last}")

    def _label(self, symbol: int) -> Label:
        return self._labels[symbol] if self._labels else symbol

    def _malformed(self, text: str | bytes, expected: str) -> ValueError:
        shown = repr(text[:40]) + ("..." if len(text) > 40 else "")
        return ValueError(f"line {self.n_lines + 1}: {shown}: expected {expected}")

    # -- checkpoints -----------------------------------------------------------------------

    @classmethod
    def load(cls, file: checkpoint.File, *, discount: Callable[[int], float] | None = None) -> Self:
        """Read a checkpoint, of a detector or a predictor too: then no line was read yet.

        Parameters
        ----------
        file : path or binary file
            What `save` wrote.
        discount : callable, optional
            As for `Predictor.load`.

        Examples
        --------
        >>> import io
        >>> import mdvpf
        >>> file = io.BytesIO()
        >>> mdvpf.Markov(n_symbols=2, order=0).save(file)
        >>> _ = file.seek(0)
        >>> mdvpf.Monitor.load(file).n_lines
        0
        """
        loaded = checkpoint.load(file, (cls, SurpriseDetector, Predictor), discount)
        return loaded if isinstance(loaded, cls) else cls(loaded)

    def _to_checkpoint(self) -> checkpoint.State:
        return checkpoint.State(
            {"missing": self.missing, "n_lines": self.n_lines},
            parts={"detector": self.detector},
        )

    @classmethod
    def _from_checkpoint(cls, state: checkpoint.State, given: dict[str, Any]) -> Self:
        values = dict(state.values)
        n_lines = validate.integer("n_lines", values.pop("n_lines"), low=0, high=2**62)
        self = cls(state.parts["detector"], **values)
        self.n_lines = n_lines
        return self

    def _left_out(self) -> dict[str, Any]:
        return self.detector._left_out()


def _by_text(labels: list[Label]) -> dict[str, int]:
    symbols: dict[str, int] = {}
    for symbol, label in enumerate(labels):
        text = label_text(label)
        if symbols.setdefault(text, symbol) != symbol:
            raise ValueError(
                f"vocabulary: {labels[symbols[text]]!r} and {label!r} are both {text!r} in a line; "
                "expected labels that differ there"
            )
    return symbols


def _mean_states(predictor: Predictor, step: Step) -> float | None:
    if isinstance(predictor, Mixture):
        return predictor.mean_states()
    return step.mean_states if isinstance(predictor, ParticleFilter) else None


def _likeliest(probabilities: NDArray[np.float64]) -> list[tuple[int, float]]:
    """Return the likeliest symbols, the first of equals first; uses the array up."""
    found = []
    for _ in range(min(N_EXPECTED, len(probabilities))):
        symbol = int(probabilities.argmax())
        found.append((symbol, float(probabilities[symbol])))
        probabilities[symbol] = -1.0
    return found


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _plain(label: Label | None) -> Any:
    """Return a label as what JSON knows, text and numbers as they are."""
    if label is None or isinstance(label, (str, int)):
        return label
    return json.loads(label_text(label))
