"""Data frames and Parquet files as events.

Frames of pandas, polars and Arrow are read through narwhals, Parquet files by pyarrow in batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

from mdvpf._support.extras import needed
from mdvpf.streams.events import Event
from mdvpf.streams.excerpts import shown
from mdvpf.streams.records import Fields

_BATCH = 1 << 14  # rows


def read_frame(frame: Any, fields: Fields) -> Iterator[Event]:
    """Return the events of a data frame, one for each row, or raise if a column is missing.

    Examples
    --------
    >>> import pandas as pd
    >>> from mdvpf.streams.frames import read_frame
    >>> from mdvpf.streams.records import Fields
    >>> frame = pd.DataFrame({"user": ["ann", "bob"], "page": ["news", None]})
    >>> [event.symbol for event in read_frame(frame, Fields({"symbol": "page"}))]
    ['news', None]
    """
    with needed("read_events of a frame", "narwhals", "frames"):
        import narwhals as nw
    try:
        known = nw.from_native(frame)
    except TypeError:
        raise TypeError(
            f"source of type {type(frame).__name__}: expected a path, or a frame of pandas, polars "
            "or Arrow"
        ) from None
    table = known.collect() if isinstance(known, nw.LazyFrame) else known
    _check_columns(table.columns, fields)
    chosen = table.select(*fields.names)
    return _events(chosen.iter_rows(named=False, buffer_size=_BATCH), fields)


def read_parquet(file: BinaryIO, fields: Fields) -> Iterator[Event]:
    """Yield the events of a Parquet file, one for each row; the file is read in batches."""
    with needed("a Parquet file", "pyarrow", "parquet"):
        import pyarrow as pa
        import pyarrow.parquet as pq
    try:
        parquet = pq.ParquetFile(file)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"expected a Parquet file ({error})") from error
    _check_columns(parquet.schema_arrow.names, fields)
    return _events(_parquet_rows(parquet, fields.names), fields)


def _parquet_rows(parquet: Any, names: tuple[str, ...]) -> Iterator[tuple[Any, ...]]:
    import pyarrow as pa

    try:
        for batch in parquet.iter_batches(batch_size=_BATCH, columns=list(names)):
            columns = []
            for name in names:
                column = batch.column(name)
                if pa.types.is_timestamp(column.type):  # datetime has no nanoseconds
                    column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
                columns.append(column.to_pylist())
            yield from zip(*columns, strict=True)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"expected a Parquet file that can be read ({error})") from error


def _check_columns(columns: Iterable[str], fields: Fields) -> None:
    found = list(columns)
    for name in fields.names:
        if name not in found:
            raise ValueError(f"no column {name!r}; expected one of {shown(found)}")


def _events(rows: Iterable[tuple[Any, ...]], fields: Fields) -> Iterator[Event]:
    index = {name: i for i, name in enumerate(fields.names)}
    for i, row in enumerate(rows):
        try:
            event = fields.event(lambda name, row=row: row[index[name]])  # type: ignore[misc]
        except ValueError as error:
            raise ValueError(f"row {i + 1}: {error}") from None
        yield event
