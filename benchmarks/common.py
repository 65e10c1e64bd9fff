"""Data of the benchmarks: three books as characters or as words, and clicks on a web site.

The folder of the data is in MDVPF_DATA.
"""

from __future__ import annotations

import gzip
import os
import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import mdvpf

BOOKS = ("alice", "wizard_of_oz", "war_and_peace")
N_SYMBOLS = 27
SPACE = 26
BETA = 0.01
TEXT_MODEL = mdvpf.InfiniteHMM(N_SYMBOLS, beta=BETA)

N_CATEGORIES = 17  # of pages
_HEADER_LINES = 7


class MissingData(RuntimeError):
    """MDVPF_DATA is not set, or a file is missing."""


def open_data(name: str) -> gzip.GzipFile:
    """Open a gzipped file in the folder of the real data."""
    folder = os.environ.get("MDVPF_DATA")
    if not folder:
        raise MissingData("MDVPF_DATA is not set: expected the folder of the real data")
    try:
        return gzip.open(Path(folder) / name, "rb")
    except FileNotFoundError as error:
        raise MissingData(f"MDVPF_DATA={folder!r}: expected {name} in it") from error


def _books() -> str:
    """Return the three books as words of a..z, separated by single spaces."""
    texts = []
    for book in BOOKS:
        with open_data(f"{book}.txt.gz") as file:
            texts.append(file.read().decode("utf-8").lower())
    return re.sub("[^a-z]+", " ", " ".join(texts)).strip()


def load_text(n: int | None = None) -> NDArray[np.int32]:
    """Return the first n characters of the books: a..z as 0..25, spaces as 26."""
    codes = np.frombuffer(_books()[:n].encode("ascii"), dtype=np.uint8).astype(np.int32) - ord("a")
    codes[codes < 0] = SPACE
    return codes


def load_words(n_symbols: int, n: int | None = None) -> NDArray[np.int32]:
    """Return the first n words of the books as frequency ranks; rare words share the last one."""
    words, codes, counts = np.unique(_books().split(), return_inverse=True, return_counts=True)
    rank = np.empty(len(words), np.int32)
    rank[np.argsort(-counts, kind="stable")] = np.arange(len(words))
    return np.minimum(rank[codes], n_symbols - 1)[:n].astype(np.int32)


def load_clicks(n: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the page categories of whole sessions, at least n, and the sessions' lengths."""
    sessions: list[list[int]] = []
    total = 0
    with open_data("msnbc990928.seq.gz") as file:
        for number, line in enumerate(file):
            pages = line.split() if number >= _HEADER_LINES else []
            if pages:
                sessions.append([int(page) - 1 for page in pages])
                total += len(pages)
            if total >= n:
                break
    symbols = np.fromiter((page for session in sessions for page in session), np.int32)
    return symbols, np.array([len(session) for session in sessions], np.int64)
