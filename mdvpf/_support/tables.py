"""Tables in three formats: CSV for programs, Markdown for pages, rich for terminals.

Columns that differ from run to run, such as times, are *volatile*. They are written to separate
files, so that the same configuration always reproduces the same table.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    from rich.table import Table as RichTable


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean and its standard error, which is NaN for a single value."""

    mean: float
    error: float

    @classmethod
    def of(cls, values: ArrayLike) -> Self:
        """Return the estimate from independent values.

        Examples
        --------
        >>> from mdvpf._support.tables import Estimate
        >>> Estimate.of([1.0, 3.0])
        Estimate(mean=2.0, error=1.0)
        """
        array = np.asarray(values, dtype=np.float64)
        if len(array) == 0:
            return cls(math.nan, math.nan)
        error = array.std(ddof=1) / math.sqrt(len(array)) if len(array) > 1 else math.nan
        return cls(float(array.mean()), float(error))


Cell = str | int | float | Estimate | None


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name, its number format, and whether its values vary from run to run.

    With ``show_error=False`` only the CSV has the standard errors of the column.
    """

    name: str
    format: str = "+.3f"
    volatile: bool = False
    show_error: bool = True


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under named columns; the first column names the row.

    Examples
    --------
    >>> from mdvpf._support.tables import Column, Estimate, Table
    >>> columns = (Column("method"), Column("score"), Column("time (s)", ".1f", volatile=True))
    >>> table = Table("table", "Scores", columns, (("VPA", Estimate(-1.5, 0.25), 0.125),))
    >>> print(table.csv(), end="")
    method,score,score: standard error
    VPA,-1.5,0.25
    >>> print(table.markdown(), end="")
    **Scores**
    <BLANKLINE>
    | method | score |
    |---|---|
    | VPA | -1.500 ± 0.250 |
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()

    def _part(self, volatile: bool) -> Table:
        """Return the table of the first column and either the volatile or the other columns."""
        kept = [i for i, column in enumerate(self.columns) if i == 0 or column.volatile == volatile]
        return Table(
            self.name,
            self.title,
            tuple(self.columns[i] for i in kept),
            tuple(tuple(row[i] for i in kept) for row in self.rows),
            () if volatile else self.notes,
        )

    def csv(self, volatile: bool = False) -> str:
        """Return the table as CSV in full precision; an estimate has two columns."""
        part = self._part(volatile)
        pairs = [
            any(isinstance(row[i], Estimate) for row in part.rows) for i in range(len(part.columns))
        ]
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(
            name
            for column, pair in zip(part.columns, pairs, strict=True)
            for name in [column.name, f"{column.name}: standard error"][: 1 + pair]
        )
        for row in part.rows:
            writer.writerow(
                value
                for cell, pair in zip(row, pairs, strict=True)
                for value in _values(cell)[: 1 + pair]
            )
        return text.getvalue()

    def markdown(self, volatile: bool = False) -> str:
        """Return the table as Markdown, rounded for reading."""
        part = self._part(volatile)
        lines = [f"**{part.title}**", "", _line(column.name for column in part.columns)]
        lines.append("|" + "---|" * len(part.columns))
        lines += [_line(part._shown(row)) for row in part.rows]
        lines += [f"\n{note}" for note in part.notes]
        return "\n".join(lines) + "\n"

    def rich(self) -> RichTable:
        """Return the table for a terminal, all columns together."""
        from rich.markup import escape
        from rich.table import Table as RichTable

        notes = escape("\n".join(self.notes))
        result = RichTable(title=escape(self.title), caption=notes, caption_justify="left")
        for i, column in enumerate(self.columns):
            justify: Literal["left", "right"] = "right" if i else "left"
            result.add_column(escape(column.name), justify=justify, overflow="fold", no_wrap=i == 0)
        for row in self.rows:
            result.add_row(*map(escape, self._shown(row)))
        return result

    def _shown(self, row: tuple[Cell, ...]) -> list[str]:
        return [_text(cell, column) for cell, column in zip(row, self.columns, strict=True)]

    def write(self, folder: Path) -> None:
        """Write the table to a folder, volatile columns into files of their own."""
        (folder / f"{self.name}.csv").write_text(self.csv(), encoding="utf-8")
        (folder / f"{self.name}.md").write_text(self.markdown(), encoding="utf-8")
        if any(column.volatile for column in self.columns):
            costs = f"{self.name}-costs"
            (folder / f"{costs}.csv").write_text(self.csv(volatile=True), encoding="utf-8")
            (folder / f"{costs}.md").write_text(self.markdown(volatile=True), encoding="utf-8")


def _values(cell: Cell) -> list[str]:
    """Return the fields of a cell in CSV: the value, and its standard error."""
    match cell:
        case None:
            return ["", ""]
        case Estimate():
            return [*_values(cell.mean)[:1], *_values(cell.error)[:1]]
        case float():
            return ["" if math.isnan(cell) else repr(cell), ""]
    return [str(cell), ""]


def _text(cell: Cell, column: Column) -> str:
    match cell:
        case None:
            return ""
        case Estimate() if math.isnan(cell.error) or not column.show_error:
            return _text(cell.mean, column)
        case Estimate():
            return f"{_text(cell.mean, column)} ± {format(cell.error, column.format.lstrip('+'))}"
        case float():
            return "" if math.isnan(cell) else format(cell, column.format)
    return str(cell)


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"
