"""`mdvpf detect`: what is strange in a file, and how well that is found if the file has labels."""

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

from mdvpf._support import validate
from mdvpf._support.progress import progress_bar
from mdvpf._support.tables import Column, Table
from mdvpf.cli import reading, shared
from mdvpf.cli.detect_incidents import IncidentList, check_picture, origin
from mdvpf.cli.detect_input import read_data
from mdvpf.cli.detect_keys import detect_each_key
from mdvpf.cli.detect_sequences import PER, detect_sequences
from mdvpf.cli.option_groups import EXPANDED, Given, with_options
from mdvpf.cli.shared import complain
from mdvpf.detect import Background, DetectionResult, SurpriseDetector
from mdvpf.detect.per_key import MAX_KEYS
from mdvpf.detect.roc import Curve
from mdvpf.predictor import Predictor, Vocabulary, label_text
from mdvpf.streams.methods import AUTO, make_predictor, resolve_method
from mdvpf.streams.readers import FileStream
from mdvpf.streams.reading import XES, format_of
from mdvpf.streams.records import label_of

COLUMNS = (Column("what"), Column("value"))
CHUNK = 256  # symbols between two updates of the progress bar
STRANGE = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False, "": False}


@with_options(file_options=reading.OPTIONS, settings=shared.SETTINGS)
def detect(
    file: shared.File,
    file_options: Given = EXPANDED,
    label: Annotated[
        str | None,
        typer.Option(help="With --column: the field that is 1 where a symbol is strange, else 0."),
    ] = None,
    train: Annotated[
        int, typer.Option(min=0, help="Number of symbols to learn before the first is judged.")
    ] = 0,
    background: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="Usual behaviour of everybody: a file like FILE, or a checkpoint of a predictor. "
            "A block is strange if the background predicts it better than the method does.",
        ),
    ] = None,
    background_learns: Annotated[
        bool,
        typer.Option("--background-learns", help="The background also learns from FILE."),
    ] = False,
    each_key: Annotated[
        bool,
        typer.Option(
            "--each-key",
            help="Use a detector for each key, over one shared background. Without it one detector "
            "judges all keys together.",
        ),
    ] = False,
    max_keys: Annotated[
        int | None,
        typer.Option(
            help="With --each-key: the most keys with a detector. One more drops the key used "
            f"longest ago. \\[default: {MAX_KEYS:,}]"
        ),
    ] = None,
    per: Annotated[
        str | None,
        typer.Option(
            help="Score whole sequences instead of looking for incidents: key, or sequence where "
            "there are no keys."
        ),
    ] = None,
    block: Annotated[
        int | None,
        typer.Option(
            help="Number of symbols in a block, which is judged as one. \\[default: 8; with "
            "--false-alarms each symbol is judged]"
        ),
    ] = None,
    smoothing: Annotated[
        float | None,
        typer.Option(help="With --false-alarms, without --block: average over this many symbols."),
    ] = None,
    learn: Annotated[
        str,
        typer.Option(
            help="Which blocks to learn: all, unflagged (those without an alarm) or none. With "
            "--background also own: those that the background does not explain better."
        ),
    ] = "all",
    warm_up: Annotated[
        int | None,
        typer.Option(
            help="Number of blocks at the start that are assumed to be usual and not judged; of "
            "symbols with --false-alarms and without --block. "
            "\\[default: 50; with --false-alarms 20]"
        ),
    ] = None,
    false_incidents: shared.FalseIncidents = None,
    cooldown: shared.Cooldown = None,
    false_alarms: shared.FalseAlarms = None,
    words: Annotated[
        bool, typer.Option("--words", help="Print incidents in words instead of JSON.")
    ] = False,
    picture: Annotated[
        Path | None,
        typer.Option(dir_okay=False, help="Draw the strangest incident into this file."),
    ] = None,
    method: shared.Method = None,
    particles: shared.ParticlesInAll = None,
    settings: Given = EXPANDED,
    seed: shared.Seed = None,
) -> int:
    """Find what is strange in a file: incidents with their reasons, one JSON object a line.

    The file has one symbol a line and blank lines between sequences, or another --format. With
    --key, sequences may be interleaved. Symbols are numbered from 1. The symbols of an incident are
    too surprising, too predictable, repetitive or looping; --false-incidents is the target number
    of false ones. With --false-alarms, the command writes alarms, a fixed share of the judgements,
    and change points instead. With --per key, it learns the sequences within the first --train
    symbols and gives every other sequence a score and a p-value. A table on standard error counts
    what was found; with --label it also counts hits and false alarms.

    For example:

    mdvpf detect commands.txt --train 5000 --block 100 --learn unflagged --background others.txt

    mdvpf detect calls.csv --column call --breaks process --label attack --false-alarms 0.05

    mdvpf detect calls.jsonl --column call.name --key process --per key --train 100000

    mdvpf detect service.log --method "PitmanYorTree 3" --words --picture incident.png
    """
    with shared.usage():
        name = AUTO if method is None else resolve_method(method)
        chosen = shared.given(**settings)
        if label is not None and file_options["column"] is None:
            raise ValueError(f"label={label!r}: expected only with --column")
        rate = shared.given(
            **shared.read_rate(false_incidents),
            cooldown=cooldown,
            false_alarms=false_alarms,
            smoothing=smoothing,
        )
        alarms = shared.alarm_settings(rate)
        if per is not None:
            of_alarms = shared.given(
                block=block,
                smoothing=smoothing,
                warm_up=warm_up,
                false_incidents=false_incidents,
                cooldown=cooldown,
                false_alarms=false_alarms,
            )
            for option, value in of_alarms.items():
                raise ValueError(f"{option}={value!r}: expected not together with --per")
            if background_learns:
                raise ValueError("--background-learns: expected not together with --per")
            validate.choice("per", per, PER)
            validate.choice("learn", learn, ("all", "none"))
        if background_learns and background is None:
            raise ValueError("--background-learns: expected only with --background")
        if each_key and (per is not None or picture or "false_incidents" not in alarms or train):
            raise ValueError(
                "--each-key: expected not together with --per, --picture, --train or --false-alarms"
            )
        has_cases = (file_options["format"] or format_of(file)) == XES  # the default keys
        if each_key and file_options["key"] is None and not has_cases:
            raise ValueError("--each-key: expected only with --key")
        if max_keys is not None and not each_key:
            raise ValueError(f"max_keys={max_keys}: expected only with --each-key")
        if (words or picture) and (per is not None or "false_incidents" not in alarms):
            raise ValueError("--words and --picture: expected only where there are incidents")
        if picture is not None:
            check_picture(picture)
    with reading.show_warnings():
        data, others = read_data(
            file,
            background,
            **file_options,
            pass_fields=None if label is None else [label],
        )
    strange = None if label is None else _read_labels(file, label, data.fields[label])
    n = len(data.symbols)
    with shared.usage():
        if data.times is None:
            shared.require_times(alarms)
        if train >= n:
            raise ValueError(f"train={train}: expected fewer than the {n} symbols of the file")
        predictor = make_predictor(name, data.n_symbols, particles, seed, **chosen)
        predictor.vocabulary = None if data.n_symbols == 0 else Vocabulary(data.labels)
        if isinstance(others, FileStream):
            others = _learnt(
                make_predictor(name, data.n_symbols, particles, seed, **chosen), others
            )
        if per is not None:
            is_learning = learn == "all" and train == 0
            return detect_sequences(
                predictor, others, data, train, learn=is_learning, strange=strange
            )
        detector = SurpriseDetector(
            predictor,
            block=block,
            learn=learn,
            background=None if others is None else Background(others, learn=background_learns),
            **shared.given(warm_up=warm_up),
            **alarms,
        )
    if each_key:
        lines, counted = detect_each_key(detector, MAX_KEYS if max_keys is None else max_keys, data)
        for line in lines:
            line.write(data, strange, words=words, first=1)
        _explain_silence(counted["judgements"], detector)
        rows = tuple((name, f"{count:,}") for name, count in counted.items())
        Console(stderr=True).print(Table("detect", "detected", COLUMNS, rows).rich())
        return 0
    incidents = IncidentList(detector, train)
    found = _run(detector, data, train, incidents, picture is not None)
    judged = _judgements(found, train, detector.block, strange)
    _explain_silence(len(judged) - detector.settings["warm_up"], detector)
    if "false_incidents" in alarms:
        for line in incidents.found.values():
            line.write(data, strange, words=words, first=train + 1)
        if picture is not None:
            incidents.save_picture(picture)
    else:
        for judgement in judged:
            if judgement["alarm"] or judgement["change"] is not None:
                last = judgement["symbols"][1] - 1
                print(json.dumps(judgement | origin(data, last), allow_nan=False))
    n_incidents = len(incidents.found) if "false_incidents" in alarms else None
    errors = Console(stderr=True)
    errors.print(_summary(judged, strange is not None, n_incidents).rich())
    return 0


def _explain_silence(n_judged: int, detector: SurpriseDetector) -> None:
    """Say that there can be no alarm where every block was in the warm-up."""
    if n_judged <= 0:
        what = "symbols" if detector.block is None else f"blocks of {detector.block} symbols"
        complain(
            f"no alarm was possible: the first {detector.settings['warm_up']} {what} are a "
            "warm-up; expected fewer (--warm-up) or smaller ones (--block), or a longer file"
        )


def _learnt(predictor: Predictor, data: FileStream) -> Predictor:
    """Return a predictor that has learnt a stream."""
    if data.is_interleaved:
        predictor.run(data.symbols, keys=data.keys)
    else:
        grouped = data.grouped() if data.keys is not None else data
        predictor.run(grouped.symbols, lengths=grouped.lengths)
    return predictor


def _run(
    detector: SurpriseDetector,
    data: FileStream,
    train: int,
    incidents: IncidentList,
    picture: bool,
) -> DetectionResult:
    """Learn the first symbols, and judge the others."""
    n = len(data.symbols)
    keys = data.keys if data.is_interleaved else None
    sequences = data if data.is_interleaved else data.grouped()
    lengths = np.array([n]) if sequences.lengths is None else sequences.lengths
    parts = []
    with progress_bar(True, n, "detect") as advance:
        for first, stop, is_new in _pieces(lengths, train):
            if is_new:
                detector.new_sequence()
            for start in range(first, stop, CHUNK):
                part = slice(start, min(start + CHUNK, stop))
                chunk = data.symbols[part]
                given: dict[str, Any] = {} if keys is None else {"keys": keys[part]}
                if data.times is not None:
                    given["times"] = data.times[part]
                if stop <= train:
                    detector.predictor.run(chunk, **given)
                else:
                    parts.append(detector.run(chunk, **given))
                    incidents.add(parts[-1], picture)
                advance(len(chunk))
    return _joined(parts)


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
    """Yield start and end of each sequence, and whether it is new; `train` cuts one in two."""
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
    """Return every judgement, with its first and last symbol counted from 1."""
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


def _summary(judged: list[dict[str, Any]], labelled: bool, n_incidents: int | None) -> Table:
    alarms = np.array([each["alarm"] for each in judged], dtype=np.bool_)
    rows: list[tuple[str, str]] = [
        ("judgements", f"{len(judged):,}"),
        ("alarms", _share(alarms)),
    ]
    if n_incidents is not None:
        rows.append(("incidents", f"{n_incidents:,}"))
    rows.append(("change points", str(sum(each["change"] is not None for each in judged))))
    if labelled:
        strange = np.array([each["strange"] for each in judged], dtype=np.bool_)
        levels = np.array([each["level"] for each in judged])
        rows += [
            ("hits among the strange", _share(alarms[strange])),
            ("false alarms among the others", _share(alarms[~strange])),
            ("area under the curve of the levels", _area(levels, strange)),
        ]
    return Table("detect", "detected", COLUMNS, tuple(rows))


def _share(chosen: NDArray[np.bool_]) -> str:
    if len(chosen) == 0:
        return "0 of 0"
    return f"{chosen.sum():,} of {len(chosen):,} ({chosen.mean():.2%})"


def _area(levels: NDArray[np.float64], strange: NDArray[np.bool_]) -> str:
    if strange.all() or not strange.any():
        return "nan"
    return f"{Curve.of(levels, strange).area:.3f}"
