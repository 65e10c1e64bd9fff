"""The input of `mdvpf detect`: the file, and the background that it is compared with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mdvpf.checkpoint.file_format import MAGIC
from mdvpf.predictor import Predictor, label_text
from mdvpf.streams.monitor import Monitor
from mdvpf.streams.readers import FileStream, read_file, read_files


def read_data(
    file: Path, background: Path | None, **options: Any
) -> tuple[FileStream, FileStream | Predictor | None]:
    """Return the stream of a file, and its background: a stream over the same alphabet, or a model.

    If the background is the checkpoint of a predictor, the symbols of the file are numbered by its
    alphabet. A file may repeat one line only, as a heartbeat does.
    """
    options["least_labels"] = 1
    if background is None:
        return read_file(file, **options), None
    with background.open("rb") as start:
        is_checkpoint = start.read(len(MAGIC)) == MAGIC
    if not is_checkpoint:
        passed = {**options, "pass_fields": None}
        if options.get("pass_fields"):  # the background may lack these fields
            data = read_file(file, **options)
            own, other = read_files([file, background], **passed)
            return replace(own, fields=data.fields), other
        own, other = read_files([file, background], **passed)
        return own, other
    predictor = Monitor.load(background).predictor
    data = read_file(file, **options)
    return _renumbered(data, predictor, background), predictor


def _renumbered(data: FileStream, predictor: Predictor, path: Path) -> FileStream:
    """Encode the labels of a stream by the vocabulary of a predictor, or raise."""
    vocabulary = predictor.vocabulary
    if vocabulary is None:
        texts = [label_text(label) for label in data.labels]
        wrong = [text for text in texts if not text.isdecimal() or int(text) >= predictor.n_symbols]
        if wrong:
            raise ValueError(
                f"{path}: {wrong[0]!r} is no symbol of the background; expected integers in "
                f"0..{predictor.n_symbols - 1}, as it has no labels"
            )
        codes = np.array([int(text) for text in texts], dtype=np.int64)
        labels: tuple[Any, ...] = tuple(range(predictor.n_symbols))
    else:
        codes = np.asarray(vocabulary.encode(data.labels), dtype=np.int64)
        labels = tuple(vocabulary.decode(range(predictor.n_symbols)))
    symbols = np.ma.masked_array(codes[np.ma.filled(data.symbols, 0)], np.ma.getmask(data.symbols))
    return replace(data, symbols=symbols, labels=labels)
