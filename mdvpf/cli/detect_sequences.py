"""`mdvpf detect --per key`: one score for each sequence instead of incidents."""

from __future__ import annotations

import json

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from mdvpf._support.tables import Column, Table
from mdvpf.detect.roc import Curve
from mdvpf.detect.sequences import SequenceScores, score_sequences
from mdvpf.predictor import Predictor
from mdvpf.streams.readers import FileStream
from mdvpf.streams.records import plain
from mdvpf.streams.report import finite

PER = ("key", "sequence")
LEAST_REFERENCE = 20  # fewest usual sequences for p-values by rank


def detect_sequences(
    predictor: Predictor,
    background: Predictor | None,
    data: FileStream,
    train: int,
    *,
    learn: bool,
    strange: NDArray[np.bool_] | None,
) -> int:
    """Learn the first sequences, score those that follow, and print them, the strangest first.

    The sequences that end within the first `train` symbols are learnt. If the last third of them is
    at least 20 sequences, it is held out, and p-values are ranks among its scores.
    """
    grouped = data.grouped() if data.keys is not None else data
    lengths = grouped.lengths
    lengths = np.array([len(grouped.symbols)]) if lengths is None else lengths
    ends = np.cumsum(lengths)
    n_train = int(np.searchsorted(ends, train, side="right"))
    if n_train == len(lengths):
        raise ValueError(f"train={train}: expected sequences that end after as many symbols")
    held_out = n_train // 3 if n_train // 3 >= LEAST_REFERENCE and not learn else 0
    starts = np.concatenate([[0], ends])
    learnt, first = starts[n_train - held_out], starts[n_train]
    if learnt:
        predictor.run(grouped.symbols[:learnt], lengths=lengths[: n_train - held_out])
    reference = None
    if held_out:
        reference = (grouped.symbols[learnt:first], lengths[n_train - held_out : n_train])
    found = score_sequences(
        predictor,
        grouped.symbols[first:],
        lengths[n_train:],
        background=background,
        reference=reference,
        learn=learn,
        progress=True,
    )
    names = _names(data, n_train)
    labels = None if strange is None else _strange(data, strange, lengths, n_train)
    for i in np.lexsort((-found.score, found.p_value)).tolist():  # of equal p-values by score
        print(json.dumps(_line(found, i, names[i], labels), allow_nan=False))
    rows = [("sequences", f"{len(found):,}"), ("learnt before", f"{n_train - held_out:,}")]
    rows.append(("held out for p-values", f"{held_out:,}"))
    rows.append(("p-values below 0.01", f"{int((found.p_value < 0.01).sum()):,}"))
    if labels is not None and labels.any() and not labels.all():
        area = Curve.of(-found.p_value, labels).area
        rows.append(("area under the curve of the p-values", f"{area:.3f}"))
    table = Table("detect", "scored", (Column("what"), Column("value")), tuple(rows))
    Console(stderr=True).print(table.rich())
    return 0


def _names(data: FileStream, n_train: int) -> list[object]:
    """Return the names of the scored sequences: their keys, or their numbers from 1."""
    if data.keys is None:
        n = 1 if data.lengths is None else len(data.lengths)
        return [i + 1 for i in range(n_train, n)]
    return [plain(key) for key in dict.fromkeys(data.keys)][n_train:]


def _strange(
    data: FileStream, strange: NDArray[np.bool_], lengths: NDArray[np.int64], n_train: int
) -> NDArray[np.bool_]:
    """Tell for each scored sequence whether one of its symbols is labelled strange."""
    if data.keys is None:
        which = np.repeat(np.arange(len(lengths)), lengths)
    else:
        numbers = {key: i for i, key in enumerate(dict.fromkeys(data.keys))}
        which = np.array([numbers[key] for key in data.keys])
    return (np.bincount(which, weights=strange, minlength=len(lengths)) > 0)[n_train:]


def _line(
    found: SequenceScores, i: int, name: object, labels: NDArray[np.bool_] | None
) -> dict[str, object]:
    score = found[i]
    line: dict[str, object] = {
        "key": name,
        "length": score.length,
        "mean": finite(score.mean),
        "ratio": finite(score.ratio),
        "score": finite(score.score),
        "worst_window": finite(score.worst_window),
        "worst_start": score.worst_start + 1,
        "p_value": score.p_value,
    }
    if labels is not None:
        line["strange"] = bool(labels[i])
    return line
