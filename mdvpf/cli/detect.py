"""`mdvpf detect`: alarms and change points in a file, and how good they are if it has labels."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console

from mdvpf._support.progress import progress_bar
from mdvpf._support.tables import Column, Table
from mdvpf.cli import reading, shared
from mdvpf.detect import DetectionResult, SurpriseDetector
from mdvpf.detect.roc import Curve
from mdvpf.predictor import label_text
from mdvpf.streams.methods import AUTO, make_predictor, resolve_method
from mdvpf.streams.readers import FileStream, read_file
from mdvpf.streams.records import label_of, plain

CHUNK = 256  # symbols between two looks at the progress bar
STRANGE = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False, "": False}


def detect(
    file: shared.File,
    column: reading.Column = None,
    breaks: reading.Breaks = None,
    file_format: reading.Format = None,
    key: reading.Key = None,
    time: reading.Time = None,
    time_unit: reading.TimeUnit = None,
    by_time: reading.ByTime = False,
    end: reading.End = None,
    missing: reading.Missing = None,
    delimiter: reading.Delimiter = None,
    label: Annotated[
        str | None,
        typer.Option(help="With --column: this field says 1 where a symbol is strange, else 0."),
    ] = None,
    train: Annotated[
        int, typer.Option(min=0, help="Learn so many symbols before the first is judged.")
    ] = 0,
    block: Annotated[
        int | None, typer.Option(help="Judge blocks of so many symbols. \\[default: each symbol]")
    ] = None,
    smoothing: Annotated[
        float | None, typer.Option(help="Without --block: average over about so many symbols.")
    ] = None,
    learn: Annotated[
        str, typer.Option(help="With --block: learn from all, unflagged or none of the blocks.")
    ] = "all",
    false_alarms: shared.FalseAlarms = None,
    method: shared.Method = None,
    particles: shared.ParticlesInAll = None,
    alpha: shared.Alpha = None,
    gamma: shared.Gamma = None,
    beta: shared.Beta = None,
    oracle: shared.Oracle = None,
    max_states: shared.MaxStates = None,
    machine: shared.Machine = None,
    kappa: shared.Kappa = None,
    forget: shared.Forget = None,
    half_life: shared.HalfLife = None,
    discount: shared.Discount = None,
    normalizer: shared.Normalizer = None,
    carry_weights: shared.CarryWeights = None,
    selection: shared.Selection = None,
    seed: shared.Seed = None,
) -> int:
    """Find what is strange in a file: alarms and change points, one JSON object a line.

    The file is as for compare: one symbol a line and blank lines between sequences, or any other
    --format. With --key, sequences may be interleaved. Symbols are counted from 1. With --label the
    tables that follow, on standard error, say how many of the strange symbols (or blocks with such
    symbols) were found, and at what price.

    For example:

    mdvpf detect commands.txt --train 5000 --block 100 --learn unflagged

    mdvpf detect calls.csv --column call --breaks process --label attack --false-alarms 0.05

    mdvpf detect calls.jsonl --column call.name --key process --time at --time-unit ms

    mdvpf detect commands.txt --method MD-VPA --beta 0.03 --discount 0.1
    """
    with shared.usage():
        name = AUTO if method is None else resolve_method(method)
        settings = shared.given(
            alpha=alpha,
            gamma=gamma,
            beta=beta,
            oracle=oracle,
            max_states=max_states,
            machine=machine,
            kappa=kappa,
            forget=forget,
            half_life=half_life,
            discount=discount,
            normalizer=normalizer,
            carry_weights=carry_weights,
            selection=selection,
        )
        if label is not None and column is None:
            raise ValueError(f"label={label!r}: expected only with --column")
    with reading.told():
        data = read_file(
            file,
            column=column,
            breaks=breaks,
            format=file_format,
            key=key,
            time=time,
            time_unit=time_unit,
            by_time=by_time,
            end=end,
            missing=missing,
            delimiter=delimiter,
            pass_fields=None if label is None else [label],
        )
    strange = None if label is None else _read_labels(file, label, data.fields[label])
    n = len(data.symbols)
    keys = data.keys if data.is_interleaved else None
    sequences = data if data.is_interleaved else data.grouped()
    lengths = np.array([n]) if sequences.lengths is None else sequences.lengths
    with shared.usage():
        if train >= n:
            raise ValueError(f"train={train}: expected fewer than the {n} symbols of the file")
        detector = SurpriseDetector(
            make_predictor(name, data.n_symbols, particles, seed, **settings),
            block=block,
            learn=learn,
            **shared.given(false_alarms=false_alarms, smoothing=smoothing),
        )
    parts = []
    with progress_bar(True, n, "detect") as advance:
        for first, stop, is_new in _pieces(lengths, train):
            if is_new:
                detector.new_sequence()
            for start in range(first, stop, CHUNK):
                part = slice(start, min(start + CHUNK, stop))
                chunk = data.symbols[part]
                given: dict[str, Any] = {} if keys is None else {"keys": keys[part]}
                if stop <= train:
                    detector.predictor.run(chunk, **given)
                else:
                    parts.append(detector.run(chunk, **given))
                advance(len(chunk))
    found = _joined(parts)
    judged = _judgements(found, train, block, strange)
    _add_origins(judged, data)
    for judgement in judged:
        if judgement["alarm"] or judgement["change"] is not None:
            print(json.dumps(judgement, allow_nan=False))
    errors = Console(stderr=True)
    errors.print(_summary(judged, strange is not None).rich())
    return 0


def _read_labels(path: Path, label: str, values: list[Any]) -> NDArray[np.bool_]:
    strange = []
    for i, value in enumerate(values):
        read = label_of(value, label)
        text = "" if read is None else label_text(read).strip().lower()
        if text not in STRANGE:
            raise ValueError(
                f"{path}: row {i + 1} has {text!r} in column {label!r}; expected 0 or 1"
            )
        strange.append(STRANGE[text])
    return np.array(strange)


def _pieces(lengths: NDArray[np.int64], train: int) -> Iterator[tuple[int, int, bool]]:
    """Yield where sequences begin and end, and that they do begin; `train` cuts one in two."""
    first = 0
    for stop in np.cumsum(lengths).tolist():
        if first < train < stop:
            yield first, train, True
            yield train, stop, False
        else:
            yield first, stop, True
        first = stop


def _joined(parts: list[DetectionResult]) -> DetectionResult:
    return DetectionResult(
        *(
            np.concatenate([getattr(part, name) for part in parts])
            for name in DetectionResult.__slots__
        )
    )


def _judgements(
    found: DetectionResult, train: int, block: int | None, strange: NDArray[np.bool_] | None
) -> list[dict[str, Any]]:
    """Return every judgement: of which symbols, counted from 1, and what it says."""
    judgements = []
    for i in np.flatnonzero(~np.isnan(found.level)).tolist():
        last = train + i
        first = last - (block or 1) + 1
        threshold = float(found.threshold[i])
        judgements.append(
            {
                "symbols": [first + 1, last + 1],
                "level": float(found.level[i]),
                "threshold": threshold if math.isfinite(threshold) else None,
                "alarm": bool(found.alarm[i]),
                "change": int(found.change[i]) + train + 1 if found.change[i] >= 0 else None,
                "strange": None if strange is None else bool(strange[first : last + 1].any()),
            }
        )
    return judgements


def _add_origins(judged: list[dict[str, Any]], data: FileStream) -> None:
    """Add the key and the time of the last symbol to every judgement, if there are any."""
    for judgement in judged:
        last = judgement["symbols"][1] - 1
        if data.keys is not None:
            judgement["key"] = plain(data.keys[last])
        if data.times is not None:
            judgement["time"] = float(data.times[last])


def _summary(judged: list[dict[str, Any]], labelled: bool) -> Table:
    alarms = np.array([each["alarm"] for each in judged], dtype=np.bool_)
    rows: list[tuple[str, str]] = [
        ("judgements", f"{len(judged):,}"),
        ("alarms", _share(alarms)),
        ("change points", str(sum(each["change"] is not None for each in judged))),
    ]
    if labelled:
        strange = np.array([each["strange"] for each in judged], dtype=np.bool_)
        levels = np.array([each["level"] for each in judged])
        rows += [
            ("hits among the strange", _share(alarms[strange])),
            ("false alarms among the others", _share(alarms[~strange])),
            ("area under the curve of the levels", _area(levels, strange)),
        ]
    return Table("detect", "detected", (Column("what"), Column("value")), tuple(rows))


def _share(chosen: NDArray[np.bool_]) -> str:
    if len(chosen) == 0:
        return "0 of 0"
    return f"{chosen.sum():,} of {len(chosen):,} ({chosen.mean():.2%})"


def _area(levels: NDArray[np.float64], strange: NDArray[np.bool_]) -> str:
    if strange.all() or not strange.any():
        return "nan"
    return f"{Curve.of(levels, strange).area:.3f}"
