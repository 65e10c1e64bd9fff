"""The text that benchmarks run on: three books as streams of 27 symbols."""

from __future__ import annotations

import gzip
import os
import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

BOOKS = ("alice", "wizard_of_oz", "war_and_peace")
N_SYMBOLS = 27
SPACE = 26


def encode(text: str) -> NDArray[np.int32]:
    """Return a..z as 0..25, in either case, and each run of other characters as one space, 26."""
    words = re.sub("[^a-z]+", " ", text.lower()).strip()
    codes = np.frombuffer(words.encode("ascii"), dtype=np.uint8).astype(np.int32) - ord("a")
    codes[codes < 0] = SPACE
    return codes


def load_text(book: str, n_symbols: int | None = None) -> NDArray[np.int32]:
    """Return the first `n_symbols` symbols of a book in the folder that MDVPF_DATA names."""
    if book not in BOOKS:
        raise ValueError(f"book={book!r}: expected one of {', '.join(BOOKS)}")
    folder = os.environ.get("MDVPF_DATA")
    if not folder:
        raise FileNotFoundError("MDVPF_DATA is not set: expected the folder of the real data")
    with gzip.open(Path(folder) / f"{book}.txt.gz", "rt", encoding="utf-8") as file:
        return encode(file.read())[:n_symbols]
