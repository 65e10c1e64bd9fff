"""`mdvpf evaluate`: learn one file, score another."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from mdvpf._support.tables import Cell, Column, Table
from mdvpf.cli import reading, shared
from mdvpf.cli.option_groups import EXPANDED, Given, with_options
from mdvpf.streams.evaluation import Evaluation
from mdvpf.streams.evaluation import evaluate as evaluate_predictor
from mdvpf.streams.methods import AUTO, make_predictor, resolve_method
from mdvpf.streams.readers import FileStream, read_files
from mdvpf.streams.report import finite

_FILE = {"exists": True, "dir_okay": False}


@with_options(file_options=reading.OPTIONS, settings=shared.SETTINGS)
def evaluate(
    train: Annotated[
        Path, typer.Argument(metavar="TRAIN", help="The file to learn from.", **_FILE)
    ],
    test: Annotated[Path, typer.Argument(metavar="TEST", help="The file to score.", **_FILE)],
    file_options: Given = EXPANDED,
    method: shared.Method = None,
    learning: Annotated[
        bool, typer.Option("--learning", help="Learn each symbol of TEST after it is scored.")
    ] = False,
    top_k: Annotated[
        str,
        typer.Option(
            help="Sizes k of the top-k accuracy, separated by commas: the share of symbols that "
            "are among the k likeliest."
        ),
    ] = "1,3",
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print one JSON object, with the score of every sequence."),
    ] = False,
    particles: shared.ParticlesInAll = None,
    settings: Given = EXPANDED,
    seed: shared.Seed = None,
) -> int:
    """Learn the sequences of TRAIN, then score those of TEST with the learnt model.

    The model stays frozen while TEST is scored, unless --learning is given. Each file has one
    symbol a line and blank lines between sequences, or another --format. The alphabet is the union
    of the symbols of both files. With --key the symbols of each key form one sequence; keys may be
    interleaved.

    For example:

    mdvpf evaluate week-1.txt week-2.txt --method MD-VPA --beta 0.01

    mdvpf evaluate train.csv test.csv --column call --breaks process --json

    mdvpf evaluate may.xes.gz june.xes.gz --method "PitmanYorTree 5"
    """
    with shared.usage():
        name = AUTO if method is None else resolve_method(method)
        sizes = _read_top_k(top_k)
        chosen = shared.given(**settings)
    with reading.show_warnings():
        streams = read_files([train, test], **file_options)
    learnt, scored = (stream if stream.is_interleaved else stream.grouped() for stream in streams)
    with shared.usage():
        predictor = make_predictor(name, learnt.n_symbols, particles, seed, **chosen)
    keys: dict[str, Any] = {"train_keys": learnt.keys, "test_keys": scored.keys}
    found = evaluate_predictor(
        predictor,
        _sequences(learnt),
        _sequences(scored),
        **{name: each for name, each in keys.items() if each is not None},
        frozen=not learning,
        top_k=sizes,
        copy=False,
        progress=True,
    )
    if as_json:
        print(json.dumps(_values(found, name, not learning, learnt), allow_nan=False))
    else:
        shared.console().print(_table(found, name, not learning, learnt, scored).rich())
    return 0


def _read_top_k(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(re.fullmatch(r"0*[1-9][0-9]{0,8}", part) for part in parts):
        raise ValueError(f"top_k={text!r}: expected integers from 1 on, separated by commas")
    return tuple(map(int, parts))


def _sequences(stream: FileStream) -> Any:
    if stream.keys is not None:
        return stream.symbols
    n = len(stream.symbols)
    return stream.symbols, np.array([n]) if stream.lengths is None else stream.lengths


def _values(found: Evaluation, method: str, frozen: bool, learnt: FileStream) -> dict[str, Any]:
    return {
        "method": method,
        "frozen": frozen,
        "alphabet": learnt.n_symbols,
        "n_learnt": found.n_learnt,
        "n_sequences": found.n_sequences,
        "n_symbols": found.n_symbols,
        "nats": finite(found.nats),
        "bits": finite(found.bits),
        "perplexity": finite(found.perplexity),
        "top_k": {str(k): share for k, share in found.top_k.items()},
        "sequence_log_probabilities": [
            finite(value) for value in found.sequence_log_probabilities.tolist()
        ],
    }


def _table(
    found: Evaluation, method: str, frozen: bool, learnt: FileStream, scored: FileStream
) -> Table:
    unknown = np.setdiff1d(np.ma.compressed(scored.symbols), np.ma.compressed(learnt.symbols))
    how = "frozen" if frozen else "learning"
    rows: list[tuple[Cell, ...]] = [
        ("symbols learnt", f"{found.n_learnt:,}"),
        ("symbols scored", f"{found.n_symbols:,} in {found.n_sequences:,} sequences"),
        ("alphabet", f"{learnt.n_symbols:,}, {len(unknown):,} of them only in the test file"),
        ("log predictive (nats a symbol)", f"{found.nats:+.4f}"),
        ("bits a symbol", f"{found.bits:.4f}"),
        ("perplexity of a symbol", f"{found.perplexity:.4f}"),
        ("log probability of a sequence, mean", f"{found.sequence_log_probabilities.mean():+.4f}"),
    ]
    for k, share in found.top_k.items():
        rows.append((f"among the {k} likeliest" if k > 1 else "the likeliest", f"{share:.2%}"))
    title = f"{method}, {how}: {learnt.name}, then {scored.name}"
    return Table("evaluation", title, (Column("what"), Column("value")), tuple(rows))
