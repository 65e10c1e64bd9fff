"""`Monitor` follows a live stream: one line or event in, one report out.

For each line, a format parses the event, the predictor predicts its symbol and then absorbs it, and
the detector judges the surprise. The monitor counts the lines, ends keys that are no longer used,
and saves everything in a checkpoint. `mdvpf filter` runs a monitor on files and pipes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mdvpf import checkpoint
from mdvpf._support import validate
from mdvpf._support.attributes import Checked, ReadOnly
from mdvpf.detect import Detection, SurpriseDetector
from mdvpf.filter.predictive import Predictive
from mdvpf.mixture.base import MixtureBase, reports_states
from mdvpf.model.clock import read_time
from mdvpf.predictor import Label, Predictor, Step, read_step
from mdvpf.predictor.keys import read_key
from mdvpf.streams.events import Event
from mdvpf.streams.formats import LineFormat, make_format
from mdvpf.streams.key_ages import KeyAges
from mdvpf.streams.label_texts import LabelTexts
from mdvpf.streams.likeliest import Expected, n_named, name_likeliest
from mdvpf.streams.number_texts import NumberTexts
from mdvpf.streams.report import N_EXPECTED, Report

__all__ = ["Monitor", "MonitorHolder", "Report"]

MAX_KEYS = 10_000  # by default


class MonitorHolder(checkpoint.Saveable):
    """Base of classes that are saved with a monitor; `Monitor.load` extracts the monitor."""

    monitor: Monitor


@checkpoint.register("Monitor")
class Monitor(checkpoint.Saveable):
    r"""A detector with its predictor on a stream of lines or events.

    By default a line has one symbol: a label if the predictor has a vocabulary, else an integer in
    ``0..n_symbols-1``. A label that is not text is written in JSON: 7 is ``7``, the tuple
    ("a", 7) is ``["a", 7]``. Surrounding white space is ignored. An empty line ends a sequence.
    `mdvpf.streams.formats` has other formats. For a predictor over numbers a line has the numbers
    of one observation, separated by spaces.

    Parameters
    ----------
    detector : SurpriseDetector or Predictor
        The detector, or a predictor that gets a detector with default settings. The monitor takes
        ownership of it.
    missing : str, optional
        Text of a line whose symbol is missing. Formats other than plain lines have their own option
        for it.
    format : LineFormat, optional
        The format that parses lines into events. The monitor takes ownership of it.
    max_keys : int, default 10,000
        Largest number of keys in use. A new key beyond it ends the least recently used one. A
        limit of the predictor, such as that of `auto`, is kept unless another one is passed.
    key_ttl : float, optional
        Time to live: a key that was not used for longer ends. In seconds of the events' times, or
        in lines for events without times.
    n_expected : int, optional
        How many of the likeliest symbols a report names, at most 3. With many symbols, computing
        their distribution takes many times as long as a step. The default is therefore 3 up to
        1,000 symbols, and 0 for more. Over numbers it is always 0.

    Attributes
    ----------
    detector : SurpriseDetector
    format : LineFormat
    max_keys : int
    key_ttl : float or None
    n_expected : int or None
        As passed.
    n_lines : int
        Number of lines so far, including skipped ones.

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
    format: ReadOnly[LineFormat] = ReadOnly()
    max_keys: ReadOnly[int] = ReadOnly()
    key_ttl: ReadOnly[float | None] = ReadOnly()
    n_expected: ReadOnly[int | None] = ReadOnly()
    n_lines: Checked[int] = Checked(lambda n: validate.integer("n_lines", n, low=0, high=2**62))

    def __init__(
        self,
        detector: SurpriseDetector | Predictor,
        *,
        missing: str | None = None,
        format: LineFormat | None = None,
        max_keys: int = MAX_KEYS,
        key_ttl: float | None = None,
        n_expected: int | None = None,
    ) -> None:
        if isinstance(detector, Predictor):
            detector = SurpriseDetector(detector)
        if not isinstance(detector, SurpriseDetector):
            raise TypeError(f"detector={detector!r}: expected a SurpriseDetector or a Predictor")
        if format is not None and not isinstance(format, LineFormat):
            raise TypeError(f"format={format!r}: expected a LineFormat, or None")
        self.detector = detector
        self.n_lines = 0
        family = self.predictor._family
        self._texts: LabelTexts | NumberTexts
        self._texts = LabelTexts(self.predictor) if family is None else NumberTexts(family)
        if missing is not None:
            if format is not None:
                raise ValueError(f"missing={missing!r}: expected None, as the format has its own")
            missing = self._read_missing(missing)
        self.format = make_format("lines", {"missing": missing}) if format is None else format
        self.key_ttl = (
            None if key_ttl is None else validate.real("key_ttl", key_ttl, low=0.0, high=1e15)
        )
        self.n_expected = (
            None
            if n_expected is None
            else validate.integer("n_expected", n_expected, low=0, high=N_EXPECTED)
        )
        if self.n_expected and family is not None:
            raise ValueError(f"n_expected={n_expected!r}: expected None or 0 over numbers")
        self._ages = None if self.key_ttl is None else KeyAges(self.key_ttl)
        self.max_keys = validate.integer("max_keys", max_keys, low=1)

    def __repr__(self) -> str:
        return f"Monitor({self.detector!r}, missing={self.missing!r})"

    @property
    def predictor(self) -> Predictor:
        """The detector's predictor."""
        return self.detector.predictor

    @property
    def missing(self) -> str | None:
        """The text of a symbol that is missing."""
        missing: str | None = self.format.options.get("missing")
        return missing

    def read(self, line: str | bytes) -> Report | None:
        """Absorb one line.

        Parameters
        ----------
        line : str or bytes
            The line, in UTF-8 if it is bytes.

        Returns
        -------
        Report or None
            None for a line without a symbol, such as an empty one.

        Raises
        ------
        ValueError
            If the line is malformed. It is then not counted, and the monitor is unchanged.

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
        if isinstance(line, str):
            line = line.encode("utf-8", "surrogatepass")
        elif not isinstance(line, bytes):
            raise TypeError(f"line={line!r}: expected a str or bytes")
        try:
            event = self.format.parse(line)
        except ValueError as error:
            raise ValueError(f"line {self.n_lines + 1}: {error}") from None
        if event is None:
            self.n_lines += 1
            return None
        return self.absorb(event)

    def absorb(self, event: Event) -> Report | None:
        """Absorb one event, which counts as a line.

        Parameters
        ----------
        event : Event
            The event.

        Returns
        -------
        Report or None
            None for an event without a symbol, which only ends a sequence.

        Raises
        ------
        ValueError
            If the predictor does not know the symbol, or the time is not finite. The event is then
            not counted, and the monitor is unchanged.

        Examples
        --------
        >>> import mdvpf
        >>> from mdvpf.streams.events import Event
        >>> monitor = mdvpf.Monitor(mdvpf.Markov(n_symbols=2))
        >>> report = monitor.absorb(Event(1, time=1700000000.0, fields={"host": "a"}))
        >>> report.time, report.fields
        (1700000000.0, {'host': 'a'})
        """
        if not isinstance(event, Event):
            raise TypeError(f"event={event!r}: expected an Event")
        if event.no_symbol:
            self._end(event.key)
            self.n_lines += 1
            return None
        try:
            report = self._absorb(event)
        except ValueError as error:
            raise ValueError(f"line {self.n_lines + 1}: {error}") from None
        self.n_lines += 1
        if event.ends:
            self._end(event.key)
        return report

    def _absorb(self, event: Event) -> Report:
        key, label, texts = read_key("key", event.key), event.symbol, self._texts
        time = None if event.time is None else read_time("time", event.time)
        reader = self.detector.reader
        symbol = None if label is None else texts.symbol(label, reader)
        if key is not None:
            self.detector._check_keys()
        # All checks are done; from here on the state changes.
        if self._ages is not None:
            for old in self._ages.expired(time, self.n_lines):
                self.detector._expire(old)
                self._ages.end(old)
        if time is not None:
            self.detector.tell_time(time)
        if key is not None:
            self._limit_keys(reader)
        probabilities = self._predict(reader, key)
        expected: Expected = ()
        if probabilities is not None:
            (expected,) = self._expected(reader, probabilities[np.newaxis])
        predictive = self._predictive(reader, key)
        step = reader.update(symbol) if key is None else reader.update(symbol, key=key)
        step = read_step(reader, step)
        if self._ages is not None:
            self._ages.use(key, time, self.n_lines, reader.max_keys or self.max_keys)
        if label is not None:
            texts.note(label, reader)
        detection = self.detector.judge(
            step,
            missing=symbol is None,
            symbol=symbol,
            key=key,
            probabilities=probabilities,
            predictive=predictive,
        )
        mean_states = _mean_states(reader, step)
        own_label = None if symbol is None else texts.label(symbol, reader)
        log_predictive = step.log_predictive
        return self._report(
            event, key, time, own_label, log_predictive, mean_states, expected, detection
        )

    def _limit_keys(self, reader: Predictor) -> None:
        """Bound the keys of the predictor, unless it has a limit and none was passed."""
        if reader.max_keys is None or self.max_keys != MAX_KEYS:
            reader.max_keys = self.max_keys

    def _report(
        self,
        event: Event,
        key: Label | None,
        time: float | None,
        symbol: Label | None,
        log_predictive: float,
        mean_states: float | None,
        expected: Expected,
        detection: Detection,
    ) -> Report:
        incident = detection.incident
        return Report(
            line=self.n_lines + 1,
            symbol=symbol,
            log_predictive=log_predictive,
            surprise=detection.surprise,
            alarm=detection.alarm,
            mean_states=mean_states,
            expected=expected,
            key=key,
            time=time,
            label=event.symbol,
            index=detection.time,
            level=detection.level,
            score=detection.score,
            threshold=detection.threshold,
            change=detection.change,
            fields=event.fields,
            p_value=detection.p_value,
            side=detection.side,
            incident=None if incident is None else incident.number,
            why=None if incident is None else self.detector.explain(incident).text(),
        )

    def _predict(self, reader: Predictor, key: Label | None) -> NDArray[np.float64] | None:
        """Return the distribution of the next symbol of a key, if it is needed."""
        if self._n_named(reader) == 0 and not self.detector.wants_entropy:
            return None
        return reader.predict_proba() if key is None else reader.predict_proba(key=key)

    def _predictive(self, reader: Any, key: Label | None) -> Predictive | None:
        """Return the distribution of the next observation of a key, if it is needed."""
        if not self.detector.wants_predictive:
            return None
        found: Predictive = reader.predictive() if key is None else reader.predictive(key=key)
        return found

    def _n_named(self, reader: Predictor) -> int:
        """Return the number of expected symbols in a report."""
        return n_named(self.n_expected, reader)

    def _expected(self, reader: Predictor, distributions: NDArray[np.float64]) -> list[Expected]:
        """Return the likeliest symbols of each row, by name."""
        return name_likeliest(distributions, self._n_named(reader), self._texts, reader)

    def _end(self, key: Label | None) -> None:
        if key is None:
            self.detector.new_sequence()
        else:
            self.detector.new_sequence(key)
        if self._ages is not None:
            self._ages.end(key)

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

    def copy(self) -> Self:
        """Return an independent copy.

        Examples
        --------
        >>> import mdvpf
        >>> monitor = mdvpf.Monitor(mdvpf.Markov(n_symbols=2, order=0))
        >>> monitor.copy().read("1") == monitor.read("1")
        True
        """
        twin = type(self)(
            self.detector.copy(),
            format=make_format(self.format.name, self.format.options, self.format.state()),
            max_keys=self.max_keys,
            key_ttl=self.key_ttl,
            n_expected=self.n_expected,
        )
        twin.n_lines = self.n_lines
        twin._ages = None if self._ages is None else self._ages.copy()
        return twin

    def __copy__(self) -> Self:
        return self.copy()

    def _read_missing(self, missing: Any) -> str:
        if not isinstance(missing, str):
            raise TypeError(f"missing={missing!r}: expected a str, or None")
        if not missing or missing != missing.strip():
            raise ValueError(
                f"missing={missing!r}: expected text that is not empty, without space around it"
            )
        if missing in self._texts:
            raise ValueError(f"missing={missing!r}: expected text that is not a symbol")
        return missing

    # -- checkpoints -----------------------------------------------------------------------

    @classmethod
    def load(
        cls,
        file: checkpoint.File,
        *,
        discount: Callable[[int], float] | None = None,
        emission: Any = None,
    ) -> Self:
        """Load a checkpoint of a monitor, of `mdvpf filter`, of a detector or of a predictor.

        A detector or a predictor becomes a new monitor without any lines.

        Parameters
        ----------
        file : path or binary file
            The checkpoint.
        discount, emission
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
        wanted = (cls, MonitorHolder, SurpriseDetector, Predictor)
        loaded = checkpoint.load(file, wanted, discount, emission)
        if isinstance(loaded, MonitorHolder):
            loaded = loaded.monitor
        return loaded if isinstance(loaded, cls) else cls(loaded)

    def _to_checkpoint(self) -> checkpoint.State:
        values: dict[str, Any] = {"missing": self.missing, "n_lines": self.n_lines}
        if (self.format.name, set(self.format.options) - {"missing"}) != ("lines", set()):
            values["format"] = {
                "name": self.format.name,
                "options": self.format.options,
                "state": self.format.state(),
            }
        if self.max_keys != MAX_KEYS:
            values["max_keys"] = self.max_keys
        if self._ages is not None:
            values["key_ttl"] = self.key_ttl
            values["ages"] = self._ages.to_values()
        if self.n_expected is not None:
            values["n_expected"] = self.n_expected
        return checkpoint.State(values, parts={"detector": self.detector})

    @classmethod
    def _from_checkpoint(cls, state: checkpoint.State, given: dict[str, Any]) -> Self:
        values = dict(state.values)
        n_lines = validate.integer("n_lines", values.pop("n_lines"), low=0, high=2**62)
        ages = values.pop("ages", None)
        form = values.pop("format", None)
        if form is not None:
            values["format"] = make_format(form["name"], form["options"], form["state"])
            values.pop("missing")
        elif values["missing"] is not None and _is_open(state.parts["detector"]):
            # Pass `missing` through the format: the constructor would refuse it if an event has
            # meanwhile brought a label with the same text.
            values["format"] = make_format("lines", {"missing": values.pop("missing")})
        self = cls(state.parts["detector"], **values)
        if (ages is None) != (self._ages is None):
            raise ValueError("ages: expected with key_ttl, and only then")
        if self._ages is not None:
            self._ages.restore(ages)
        self.n_lines = n_lines
        return self

    def _left_out(self) -> dict[str, Any]:
        return self.detector._left_out()


def _is_open(detector: Any) -> bool:
    """Tell whether the labels are those of an open vocabulary."""
    if not isinstance(detector, SurpriseDetector):
        return False
    vocabulary = detector.predictor.vocabulary
    return vocabulary is not None and vocabulary.is_open


def _mean_states(predictor: Predictor, step: Step) -> float | None:
    if reports_states(predictor):
        return step.mean_states
    return predictor.mean_states() if isinstance(predictor, MixtureBase) else None
