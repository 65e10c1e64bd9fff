"""Books as streams of characters: an alphabet, and one space for everything outside it.

The default texts come from Project Gutenberg. Its files have a preface and a licence around the
book, and new versions replace them, so a copy is recognised by its first words and its length.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mdvpf._support import validate
from mdvpf._support.shown import shown_fields
from mdvpf.datasets import files

LETTERS = "abcdefghijklmnopqrstuvwxyz "


@dataclass(frozen=True, slots=True, eq=False)
class TextStream:
    """Characters of several texts, one after another.

    Attributes
    ----------
    symbols : ndarray of int64
        The characters, as indices of `alphabet`.
    change_points : ndarray of int64
        Where the second and later texts start.
    alphabet : str
        The characters of the symbols.
    titles : tuple of str
        The titles of the texts.
    available : tuple of int
        Total number of characters of each text, the limit of an offset into it.

    Examples
    --------
    >>> from mdvpf.datasets import TextStream
    >>> import numpy as np
    >>> text = TextStream(np.array([0, 1, 0]), np.array([2]), "ab", ("one", "two"), (9, 9))
    >>> text.text(), text.n_symbols
    ('aba', 2)
    """

    symbols: NDArray[np.int64]
    change_points: NDArray[np.int64]
    alphabet: str
    titles: tuple[str, ...]
    available: tuple[int, ...]

    def __repr__(self) -> str:
        return shown_fields(self)

    @property
    def n_symbols(self) -> int:
        """Size of the alphabet."""
        return len(self.alphabet)

    def text(self) -> str:
        """Return the symbols as text."""
        return "".join(self.alphabet[symbol] for symbol in self.symbols)


@dataclass(frozen=True, slots=True)
class _Book:
    title: str
    file: str
    number: int  # in Project Gutenberg; files are revised, so there is no hash
    opening: str  # the first words of the book, without punctuation
    at_least: int  # characters

    @property
    def source(self) -> files.Source:
        url = f"https://www.gutenberg.org/files/{self.number}/{self.number}-0.txt"
        return files.Source(self.title, ((f"{self.file}.gz",), (self.file,)), (url,))

    def parse(self, contents: files.Contents) -> str:
        text = _decoded(contents).split("*** END OF")[0]
        start = re.search(r"\W+".join(self.opening.split()), text)
        if start is None:
            raise ValueError(f"expected {self.title}, with the words {self.opening!r}")
        text = text[start.start() :]
        if len(text) < self.at_least:
            raise ValueError(f"{len(text)} characters; expected {self.at_least} or more")
        return text


_BOOKS = (
    _Book(
        "Alice's Adventures in Wonderland",
        "alice.txt",
        11,
        "Alice was beginning to get very tired",
        130_000,
    ),
    _Book(
        "The Wonderful Wizard of Oz",
        "wizard_of_oz.txt",
        55,
        "Dorothy lived in the midst",
        180_000,
    ),
    _Book("War and Peace", "war_and_peace.txt", 2600, "Well Prince so Genoa", 3_000_000),
)


def books(
    paths: Sequence[files.Named | None] | None = None,
    n_characters: int = 600,
    alphabet: str = LETTERS,
    offsets: ArrayLike | None = None,
) -> TextStream:
    """Return the first characters of each of several texts, one after another.

    By default these are Alice's Adventures in Wonderland, The Wonderful Wizard of Oz and War and
    Peace. The Wizard replaces the paper's second book, which is under copyright: pass
    ``[None, "your copy.txt", None]`` to use your own copy of that book.

    Parameters
    ----------
    paths : sequence of path or None, optional
        Text files, plain or gzipped, read from their first character; None is the default text at
        that position.
    n_characters : int, default 600
        Number of characters of each text.
    alphabet : str, default a-z and space
        The characters to keep. A run of other characters becomes one space, or nothing if the
        alphabet has no space. Text is converted to lower case first, unless the alphabet has upper
        case.
    offsets : array_like of int, optional
        Number of kept characters to skip at the start of each text.

    Examples
    --------
    >>> import os, tempfile
    >>> from mdvpf import datasets
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = os.path.join(folder, "mine.txt")
    ...     with open(file, "w") as f:
    ...         _ = f.write("It was a dark -- and stormy -- night.")
    ...     stream = datasets.books([file], n_characters=20)
    >>> stream.text()
    'it was a dark and st'
    """
    files = validate.entries("paths", [None] * len(_BOOKS) if paths is None else paths, of="paths")
    if None in files[len(_BOOKS) :]:
        i = files.index(None, len(_BOOKS))
        raise ValueError(f"paths[{i}]=None: expected a path, as there are {len(_BOOKS)} defaults")
    n_characters = validate.integer("n_characters", n_characters, low=1)
    alphabet = _read_alphabet(alphabet)
    skips = [0] * len(files)
    if offsets is not None:
        skips = validate.integers("offsets", offsets, low=0).tolist()
        if len(skips) != len(files):
            raise ValueError(f"offsets has {len(skips)} entries: expected {len(files)}, as paths")
    parts, titles, available = [], [], []
    for i, (file, skip) in enumerate(zip(files, skips, strict=True)):
        title, text = _read_text(i, file)
        text = _kept(text, alphabet)
        if skip + n_characters > len(text):
            raise ValueError(
                f"{title if file is None else file} has {len(text)} characters of the alphabet: "
                f"expected {n_characters} from offset {skip} on"
            )
        parts.append(text[skip : skip + n_characters])
        titles.append(title)
        available.append(len(text))
    index = {character: i for i, character in enumerate(alphabet)}
    return TextStream(
        symbols=np.array([index[c] for part in parts for c in part], dtype=np.int64),
        change_points=np.arange(1, len(files), dtype=np.int64) * n_characters,
        alphabet=alphabet,
        titles=tuple(titles),
        available=tuple(available),
    )


def _read_text(i: int, path: files.Named | None) -> tuple[str, str]:
    if path is not None:
        file = files.existing(path)
        try:
            return file.name, _decoded(files.unpack(file))
        except ValueError as error:
            raise ValueError(f"paths[{i}]={str(path)!r}: {error}") from error
    book = _BOOKS[i]
    return book.title, files.load(book.source, None, book.parse)


def _decoded(contents: files.Contents) -> str:
    if len(contents) != 1:
        raise ValueError(f"{len(contents)} files; expected one text")
    (content,) = contents.values()
    return content.decode("utf-8-sig", errors="replace")


def _read_alphabet(alphabet: Any) -> str:
    if not isinstance(alphabet, str):
        raise TypeError(f"alphabet={alphabet!r}: expected a string of characters")
    if not alphabet.strip(" ") or len(set(alphabet)) < len(alphabet):
        raise ValueError(
            f"alphabet={alphabet!r}: expected at least one character besides the space, each once"
        )
    return alphabet


def _kept(text: str, alphabet: str) -> str:
    """Return the text in the alphabet, without spaces at its ends."""
    if alphabet.lower() == alphabet:
        text = text.lower()
    others = f"[^{re.escape(alphabet.replace(' ', ''))}]+"
    return re.sub(others, " ", text).strip(" ") if " " in alphabet else re.sub(others, "", text)
