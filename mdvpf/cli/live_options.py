"""Options of `mdvpf filter` about its two ends: what lines say, and what becomes of reports."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from mdvpf.streams.formats import FORMATS
from mdvpf.streams.report import REPORT_FORMATS
from mdvpf.streams.times import TIME_UNITS

_SPANS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}

# --- What lines say: options of `mdvpf.streams.formats.make_format`

Format = Annotated[
    str | None,
    typer.Option("--format", help=f"What a line is: {', '.join(FORMATS)}. \\[default: lines]"),
]
Column = Annotated[
    str | None,
    typer.Option(help="The field of the symbol: a column, or a path such as request.path in JSON."),
]
Key = Annotated[
    list[str] | None,
    typer.Option(
        help="The field that says which of the interleaved sequences a symbol belongs to; again "
        "for a key of several fields."
    ),
]
Time = Annotated[str | None, typer.Option("--time", help="The field of the time.")]
TimeUnit = Annotated[
    str | None,
    typer.Option(help=f"How the time is written: {', '.join(TIME_UNITS)}. \\[default: iso]"),
]
End = Annotated[
    list[str] | None,
    typer.Option(help="The sequence of a key ends after this symbol; again for several."),
]
Pass = Annotated[
    list[str] | None,
    typer.Option("--pass", help="A field that goes through to the reports; again for several."),
]
Missing = Annotated[
    str | None, typer.Option(help="How a line or a field says that its symbol is missing.")
]
Delimiter = Annotated[str | None, typer.Option(help="What separates cells, such as ';'.")]
Pattern = Annotated[
    str | None,
    typer.Option(help="Of text: a regular expression whose named groups are the fields."),
]
MaxKeys = Annotated[
    int | None,
    typer.Option(
        help="The most keys in use; another one ends that which was used longest ago. "
        "\\[default: 10,000]"
    ),
]
KeyTtl = Annotated[
    float | None,
    typer.Option(
        "--key-ttl",
        help="A key ends that was not used for so many seconds of the events' times, or lines "
        "where they have no time.",
    ),
]
HalfLife = Annotated[
    str | None,
    typer.Option(
        help="Counts fade to half of them in so many symbols, or in a time span such as 30s, 10m, "
        "6h or 2d of the events' times; not together with --forget. \\[default: never]"
    ),
]
MaxLabels = Annotated[
    int | None,
    typer.Option(
        help="Labels are taken as they come, so many of them at most; later ones are --unknown."
    ),
]

# --- What becomes of reports

ReportFormat = Annotated[
    str, typer.Option("--report", help=f"How reports are written: {', '.join(REPORT_FORMATS)}.")
]
AlarmsOnly = Annotated[
    bool, typer.Option("--alarms-only", help="Report alarms and change points, and no other line.")
]
Expected = Annotated[
    int | None,
    typer.Option(
        help="How many of the likeliest symbols a report names, up to 3. \\[default: 3; 0 if there "
        "are more than 1,000 symbols, where it takes most of the time]"
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        dir_okay=False,
        help="Add the reports to this file; with --checkpoint each is there exactly once, whatever "
        "happens. \\[default: standard output]",
    ),
]
LagEvery = Annotated[
    float,
    typer.Option(min=0.0, help="Seconds between two lines that say how much input waits; 0: none."),
]

# --- Going on

FromStart = Annotated[
    bool,
    typer.Option(
        "--from-start",
        help="With --resume: read all of the input, as what follows on everything before it.",
    ),
]
TakeUnfinished = Annotated[
    bool,
    typer.Option(
        "--take-unfinished", help="With --checkpoint: take the last line although it has no end."
    ),
]


def read_half_life(text: str | None) -> float | timedelta | None:
    """Return a half-life in symbols, or the time span that it is, or raise."""
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
