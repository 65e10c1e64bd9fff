"""Options of `mdvpf filter`: the format of its input, its reports, and resuming."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from mdvpf.cli.reading import Delimiter as Delimiter
from mdvpf.cli.reading import Key as Key
from mdvpf.cli.reading import Missing as Missing
from mdvpf.cli.reading import Time as Time
from mdvpf.cli.reading import TimeUnit as TimeUnit
from mdvpf.streams.formats import FORMATS
from mdvpf.streams.report import REPORT_FORMATS

_SPANS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}

# --- Input: options of `mdvpf.streams.formats.make_format` and of the monitor

Format = Annotated[
    str | None,
    typer.Option("--format", help=f"Format of a line: {', '.join(FORMATS)}. \\[default: lines]"),
]
Column = Annotated[
    str | None,
    typer.Option(help="Field of the symbol: a column, or a path such as request.path in JSON."),
]
End = Annotated[
    list[str] | None,
    typer.Option(help="The sequence of a key ends after this symbol. Repeat for several symbols."),
]
Pass = Annotated[
    list[str] | None,
    typer.Option("--pass", help="Copy this field to the reports. Repeat for several fields."),
]
Pattern = Annotated[
    str | None,
    typer.Option(help="For --format text: a regular expression whose named groups are the fields."),
]
MaxKeys = Annotated[
    int | None,
    typer.Option(
        help="Largest number of keys in use. A new key beyond it ends the least recently used one. "
        "\\[default: 10,000]"
    ),
]
KeyTtl = Annotated[
    float | None,
    typer.Option(
        "--key-ttl",
        help="End a key that was not used for this many seconds, by the times of the events, or "
        "for this many lines if events have no times.",
    ),
]
HalfLife = Annotated[
    str | None,
    typer.Option(
        help="Counts decay by half in this many symbols, or, by the times of the events, in a "
        "time span such as 30s, 10m, 6h or 2d. Not with --forget. \\[default: no decay]"
    ),
]
MaxLabels = Annotated[
    int | None,
    typer.Option(
        help="Open alphabet: each new label becomes a symbol, up to this many. All labels after "
        "them become the symbol of --unknown."
    ),
]

# --- Reports

ReportFormat = Annotated[
    str, typer.Option("--report", help=f"Format of the reports: {', '.join(REPORT_FORMATS)}.")
]
AlarmsOnly = Annotated[
    bool, typer.Option("--alarms-only", help="Report only alarms and change points.")
]
Expected = Annotated[
    int | None,
    typer.Option(
        help="How many of the likeliest symbols a report names, at most 3. \\[default: 3; 0 for "
        "more than 1,000 symbols, where finding them takes most of the time]"
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        dir_okay=False,
        help="Append the reports to this file. With --checkpoint the file has each report exactly "
        "once, even after a crash. \\[default: standard output]",
    ),
]
LagEvery = Annotated[
    float,
    typer.Option(
        min=0.0, help="Seconds between two messages about input that waits; 0 prints none."
    ),
]

# --- Resuming

FromStart = Annotated[
    bool,
    typer.Option(
        "--from-start",
        help="With --resume: read the input from its start, as new data after the old.",
    ),
]
TakeUnfinished = Annotated[
    bool,
    typer.Option(
        "--take-unfinished",
        help="With --checkpoint: accept a last line that does not end with a newline.",
    ),
]


def read_half_life(text: str | None) -> float | timedelta | None:
    """Return a half-life in symbols or as a time span, or raise."""
    if text is None:
        return None
    wrong = ValueError(
        f"half_life={text!r}: expected a number of symbols, or a time span such as 30s, 10m, 6h "
        "or 2d"
    )
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([smhd])", text)
    try:
        if found is None:
            return float(text)
        return timedelta(**{_SPANS[found[2]]: float(found[1])})
    except (ValueError, OverflowError):
        raise wrong from None
