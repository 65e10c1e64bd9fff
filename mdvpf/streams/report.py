"""`Report`: the result of one line of a stream, as an object or as a line of JSON, CSV or text."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mdvpf.predictor import Label, label_text

N_EXPECTED = 3  # how many of the likeliest symbols a report names
REPORT_FORMATS = ("json", "csv", "text")

_PLAIN = (
    "line",
    "index",
    "key",
    "time",
    "symbol",
    "label",
    "log_predictive",
    "surprise",
    "level",
    "score",
    "threshold",
    "alarm",
    "change",
    "mean_states",
    "p_value",
    "side",
    "incident",
)


@dataclass(frozen=True, slots=True)
class Report:
    """The result of one line.

    Attributes
    ----------
    line : int
        Number of the line, from 1, over the life of the monitor.
    symbol : label or None
        The symbol, as a label if there is a vocabulary; None if it is missing. For a predictor over
        numbers: the number, or the text of several.
    log_predictive : float
        Log probability of the symbol, or log density of the number, fixed before it was used; 0
        for a missing one.
    surprise : float
        ``-log_predictive``, in nats.
    alarm : bool
        Whether the detector raised an alarm.
    mean_states : float or None
        Weighted mean number of states of the filter after the symbol. For a mixture the mean over
        its filters, weighted as in the next prediction. None without a filter.
    expected : tuple of (label, float)
        The likeliest symbols before this one was seen, and their probabilities.
    key : label or None
        The key of the symbol's sequence.
    time : float or None
        Time of the event in seconds since 1970.
    label : label or None
        The label in the input. It differs from `symbol` if that is the symbol of all unknown
        labels.
    index : int
        Number of the symbol, from 0, over the life of the detector.
    level : float
        The judged surprise; NaN if this symbol was not judged.
    score : float
        Distance of the level above its usual value, in standard deviations; NaN without a level.
    threshold : float
        Threshold of the level for an alarm; infinite during the warm-up.
    change : int or None
        The `index` at which a sustained rise of the surprise began, if it was detected with this
        symbol.
    fields : mapping of str to value
        Further fields of the event, passed through.
    p_value : float
        The p-value of the block that ends here, if the detector looks for incidents; else NaN.
    side : str or None
        The side on which that block is the strangest.
    incident : int or None
        Number of the incident that the alarm belongs to.
    why : str or None
        Explanation of the incident in words.

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
    key: Label | None = None
    time: float | None = None
    label: Label | None = None
    index: int = 0
    level: float = math.nan
    score: float = math.nan
    threshold: float = math.inf
    change: int | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    p_value: float = math.nan
    side: str | None = None
    incident: int | None = None
    why: str | None = None

    def to_json(self) -> str:
        """Return the report as one line of JSON; numbers that are not finite are null.

        Examples
        --------
        >>> from mdvpf.streams.report import Report
        >>> Report(1, "ls", -0.5, 0.5, False, 1.0, (("cd", 0.25),)).to_json()[:44]
        '{"line": 1, "symbol": "ls", "log_predictive"'
        """
        return json.dumps(
            {
                "line": self.line,
                "symbol": _plain(self.symbol),
                "log_predictive": finite(self.log_predictive),
                "surprise": finite(self.surprise),
                "alarm": self.alarm,
                "mean_states": self.mean_states,
                "expected": [
                    {"symbol": _plain(label), "probability": probability}
                    for label, probability in self.expected
                ],
                "key": _plain(self.key),
                "time": self.time,
                "label": _plain(self.label),
                "index": self.index,
                "level": finite(self.level),
                "score": finite(self.score),
                "threshold": finite(self.threshold),
                "change": self.change,
                "fields": _json_ready(self.fields) if self.fields else {},
                "p_value": finite(self.p_value),
                "side": self.side,
                "incident": self.incident,
                "why": self.why,
            },
            allow_nan=False,
        )

    def to_csv(self, fields: Sequence[str] = ()) -> str:
        """Return the report as a row of CSV; numbers that are not finite are empty.

        Text with newlines or other unprintable characters is written as a JSON string.

        Parameters
        ----------
        fields : sequence of str
            The fields of the event that get columns.

        Examples
        --------
        >>> from mdvpf.streams.report import Report
        >>> Report(1, "ls", -0.5, 0.5, False, 1.0, (("cd", 0.25),)).to_csv()
        '1,0,,,ls,,-0.5,0.5,,,,false,,1.0,,,,cd,0.25,,,,'
        """
        row = [_cell(getattr(self, name)) for name in _PLAIN]
        for i in range(N_EXPECTED):
            row += map(_cell, self.expected[i] if i < len(self.expected) else (None, None))
        return _row([*row, *(_cell(_json_ready(self.fields.get(name))) for name in fields)])

    def to_text(self) -> str:
        """Return the report as a readable line of text.

        Examples
        --------
        >>> from mdvpf.streams.report import Report
        >>> Report(7, "ls", -0.5, 0.5, True, 1.0, (), level=0.5, threshold=0.4).to_text()
        '7: ls, surprise 0.500; ALARM: 0.500 above 0.400'
        """
        what = self.symbol if self.label is None else self.label
        text = f"{self.line}: "
        if self.key is not None:
            text += f"[{_printable(self.key)}] "
        text += "missing" if what is None else _printable(what)
        text += f", surprise {self.surprise:.3f}"
        if self.expected:
            named = (f"{_printable(label)} {p:.2f}" for label, p in self.expected)
            text += f"; expected {', '.join(named)}"
        for name, value in self.fields.items():
            text += f"; {_printable(name)} {_printable(str(value))}"
        if self.incident is not None:
            text += f"; INCIDENT {self.incident}, p = {self.p_value:.2g}: {_one_line(self.why)}"
        elif self.alarm:
            text += f"; ALARM: {self.level:.3f} above {self.threshold:.3f}"
        if self.change is not None:
            text += f"; change since symbol {self.change}"
        return text


def _one_line(text: str | None) -> str:
    return "; ".join((text or "").splitlines())


def csv_header(fields: Sequence[str] = ()) -> str:
    """Return the names of the columns of `Report.to_csv`.

    Examples
    --------
    >>> from mdvpf.streams.report import csv_header
    >>> csv_header(["host"])[-29:]
    'expected_3,probability_3,host'
    """
    expected = [
        f"{name}_{i + 1}" for i in range(N_EXPECTED) for name in ("expected", "probability")
    ]
    return _row([*_PLAIN, *expected, *fields])


def report_writer(name: str, fields: Sequence[str] = ()) -> Callable[[Report], str]:
    """Return the function that writes a report in one of the `REPORT_FORMATS`."""
    if name == "csv":
        return lambda report: report.to_csv(fields)
    return Report.to_json if name == "json" else Report.to_text


def finite(number: float | None) -> float | None:
    """Return a number for JSON; None if it is not finite.

    Examples
    --------
    >>> from mdvpf.streams.report import finite
    >>> finite(float("inf")) is None, finite(0.5)
    (True, 0.5)
    """
    return number if number is not None and math.isfinite(number) else None


def _plain(label: Label | None) -> Any:
    """Return a label in types that JSON has; text and numbers stay as they are."""
    if label is None or isinstance(label, (str, int, float)):  # a float of a family over numbers
        return label
    return json.loads(label_text(label))


def _json_ready(value: Any) -> Any:
    """Return the value of a field in types that JSON has."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return finite(value)
    if isinstance(value, Mapping):
        return {str(name): _json_ready(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_ready(entry) for entry in value]
    return str(value)


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (float, int)):
        return repr(value)
    return _printable(value) if isinstance(value, (str, bytes, tuple)) else json.dumps(value)


def _row(cells: Sequence[str]) -> str:
    file = io.StringIO()
    csv.writer(file, lineterminator="").writerow(cells)
    return file.getvalue()


def _printable(label: Label) -> str:
    """Return a label as text on one line; as a JSON string if it has unprintable characters."""
    text = repr(label) if isinstance(label, float) else label_text(label)
    return text if text.isprintable() else json.dumps(text)
