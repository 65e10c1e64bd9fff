"""Streams to try the predictors on: switching HMMs, books, web clicks, shell commands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdvpf.hmm import HMM, HMMStream, random_hmm, sample_hmms

LETTERS = "abcdefghijklmnopqrstuvwxyz "

__all__ = [
    "HMM",
    "HMMStream",
    "random_hmm",
    "sample_hmms",
    "switching_hmm",
    "TextStream",
    "books",
    "Clicks",
    "msnbc",
    "Masquerade",
    "masquerade",
    "LETTERS",
]

Path = str | PathLike[str]


def switching_hmm(
    n_states: Sequence[int] = (3, 4),
    n_symbols: Sequence[int] = (3, 8),
    lengths: Sequence[int] = (150, 150),
    *,
    transition: float = 1.0,
    emission: float = 1.0,
    rng: Any = None,
) -> HMMStream:
    """Draw random HMMs, one a segment, and a stream that switches from each to the next."""
    raise NotImplementedError


@dataclass(frozen=True, slots=True, eq=False)
class TextStream:
    """Characters of several texts, one after another."""

    symbols: NDArray[np.int64]
    change_points: NDArray[np.int64]  # where the second and later texts start
    alphabet: str  # symbol i is alphabet[i]
    titles: tuple[str, ...]
    available: tuple[int, ...]  # characters that each text has in all: the limit of offsets

    @property
    def n_symbols(self) -> int:
        """Size of the alphabet."""
        return len(self.alphabet)


def books(
    paths: Sequence[Path] | None = None,
    n_characters: int = 600,
    alphabet: str = LETTERS,
    offsets: Sequence[int] | None = None,
) -> TextStream:
    """Return the first characters of each of several texts."""
    raise NotImplementedError


@dataclass(frozen=True, slots=True, eq=False)
class Clicks:
    """Page categories, user by user."""

    symbols: NDArray[np.int64]  # of all users, joined
    lengths: NDArray[np.int64]  # clicks of each user
    categories: tuple[str, ...]  # their names; symbol i is categories[i]

    @property
    def n_symbols(self) -> int:
        """Number of categories."""
        return len(self.categories)


def msnbc(path: Path | None = None) -> Clicks:
    """Return the MSNBC.com anonymous web data: page categories of 989,818 users on one day."""
    raise NotImplementedError


@dataclass(frozen=True, slots=True, eq=False)
class Masquerade:
    """Shell commands of 50 users, into some of which another user's were put."""

    symbols: NDArray[np.int64]  # (50, 15000)
    labels: NDArray[np.bool_]  # (50, 100): whether block k of commands 5000.. is another user's
    commands: tuple[str, ...]  # symbol i is commands[i]
    block: int = 100

    @property
    def n_symbols(self) -> int:
        """Number of distinct commands."""
        return len(self.commands)


def masquerade(path: Path | None = None) -> Masquerade:
    """Return the masquerading-user data of Schonlau et al."""
    raise NotImplementedError
