"""Detect files of another format before they are read as plain lines by default.

Without this check every row of a table or every JSON object would silently become a symbol of its
own.
"""

from __future__ import annotations

import csv
import json
from itertools import islice
from pathlib import Path

from mdvpf.streams.input_files import opened

_N_LINES = 50
_LONGEST = 1 << 16  # bytes of a line to examine
_TABLES = {",": "csv", ";": "csv --delimiter ';'", "\t": "tsv"}


def check_plain_lines(path: Path) -> None:
    r"""Raise if the first lines of a file are JSON objects, rows of cells, Parquet or XES.

    A pipe is not examined, because its bytes cannot be read again.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from mdvpf.streams.plain_lines import check_plain_lines
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "clicks.txt")
    ...     _ = path.write_text('{"page": "news"}\n')
    ...     try:
    ...         check_plain_lines(path)
    ...     except ValueError as error:
    ...         print(str(error).removeprefix(folder))
    /clicks.txt: the lines are JSON objects; expected --format json and --column, or --format lines
    """
    if not path.is_file():
        return
    with opened(path) as file:
        found = [file.readline(_LONGEST) for _ in range(_N_LINES)]
    if any(line.startswith(b"PAR1") for line in islice(found, 1)):
        raise ValueError(f"{path}: this is a Parquet file; expected --format parquet")
    lines = [line.decode("utf-8", "replace").lstrip("\ufeff").strip("\r\n") for line in found]
    full = [line for line in lines if line.strip()]
    if not full:
        return
    if all(_is_object(line) for line in full):
        raise ValueError(
            f"{path}: the lines are JSON objects; expected --format json and --column, or "
            "--format lines"
        )
    if full[0].lstrip().startswith("<?xml") and any("<log" in line for line in full):
        raise ValueError(f"{path}: this is an XES log; expected --format xes")
    for delimiter, name in _TABLES.items():
        n_cells = _n_cells(full, delimiter)
        if n_cells > 1:
            raise ValueError(
                f"{path}: every line has {n_cells} cells; expected --column, and --format {name} "
                "(or --format lines, if every line is a symbol)"
            )


def _is_object(line: str) -> bool:
    if not line.lstrip().startswith("{"):
        return False
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _n_cells(lines: list[str], delimiter: str) -> int:
    """Return the number of cells of every line; 1 if it differs, or for fewer than two lines."""
    if len(lines) < 2 or not all(delimiter in line for line in lines):
        return 1
    try:
        counts = {len(row) for row in csv.reader(lines, delimiter=delimiter, strict=True)}
    except csv.Error:
        return 1
    return counts.pop() if len(counts) == 1 else 1
