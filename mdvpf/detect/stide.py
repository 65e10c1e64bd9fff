"""`Stide`: sequence time-delay embedding, the classic detector of strange system-call traces.

It keeps the set of all windows of the training sequences. A window that is not in the set is a
mismatch. The score of a sequence is its number of mismatches, in total or within a short frame. The
benchmarks compare predictors with STIDE.

References
----------
S. Forrest, S. A. Hofmeyr, A. Somayaji and T. A. Longstaff (1996). A sense of self for Unix
processes. S. A. Hofmeyr, S. Forrest and A. Somayaji (1998). Intrusion detection using sequences of
system calls. C. Warrender, S. Forrest and B. Pearlmutter (1999). Detecting intrusions using system
calls: alternative data models.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mdvpf._support import validate
from mdvpf._support.shown import shown_fields


@dataclass(frozen=True, slots=True, eq=False)
class StideScores:
    """The scores of STIDE, one entry for each sequence.

    Attributes
    ----------
    n_windows, n_mismatches : ndarray of int64
        Number of windows of each sequence, and of those never seen in training.
    locality : ndarray of int64
        Largest number of mismatches in a locality frame, which is `frame` consecutive windows.

    Examples
    --------
    >>> from mdvpf.detect.stide import Stide
    >>> stide = Stide(window=2).learn([0, 1, 0, 1])
    >>> stide.score([0, 1, 1, 1], lengths=[2, 2]).mismatch_share.tolist()
    [0.0, 1.0]
    """

    n_windows: NDArray[np.int64]
    n_mismatches: NDArray[np.int64]
    locality: NDArray[np.int64]

    def __repr__(self) -> str:
        return shown_fields(self)

    def __len__(self) -> int:
        return len(self.n_windows)

    @property
    def mismatch_share(self) -> NDArray[np.float64]:
        """Share of the windows that are mismatches."""
        share: NDArray[np.float64] = self.n_mismatches / self.n_windows
        return share


class Stide:
    """The set of windows seen in training; windows outside it are mismatches.

    A sequence shorter than a window counts as one window, so that it has a score too.

    Parameters
    ----------
    window : int, default 6
        Length of the windows.
    frame : int, default 20
        Length of the locality frame, in consecutive windows.

    Examples
    --------
    >>> from mdvpf.detect.stide import Stide
    >>> stide = Stide(window=3, frame=2).learn([0, 1, 2] * 5)
    >>> found = stide.score([0, 1, 2, 2, 0, 1])
    >>> found.n_mismatches.tolist(), found.locality.tolist()
    ([2], [2])
    """

    def __init__(self, window: int = 6, frame: int = 20) -> None:
        self.window = validate.integer("window", window, low=1)
        self.frame = validate.integer("frame", frame, low=1)
        self._seen: set[tuple[int, ...]] = set()

    def __repr__(self) -> str:
        return f"Stide(window={self.window}, frame={self.frame})"

    def __len__(self) -> int:
        """Return the number of different windows seen."""
        return len(self._seen)

    def learn(self, symbols: ArrayLike, lengths: ArrayLike | None = None) -> Stide:
        """Add the windows of normal sequences; return the detector itself.

        Parameters
        ----------
        symbols : array_like of int
            Symbols of the sequences, one after the other.
        lengths : array_like of int, optional
            Lengths of the sequences; by default there is one sequence.

        Examples
        --------
        >>> from mdvpf.detect.stide import Stide
        >>> len(Stide(window=2).learn([0, 1, 0, 1], lengths=[2, 2]))
        1
        """
        for sequence in _read(symbols, lengths):
            self._seen.update(self._windows(sequence))
        return self

    def score(self, symbols: ArrayLike, lengths: ArrayLike | None = None) -> StideScores:
        """Count the mismatches of sequences; nothing is learnt.

        Parameters
        ----------
        symbols, lengths
            As for `learn`.

        Examples
        --------
        >>> from mdvpf.detect.stide import Stide
        >>> Stide(window=2).learn([0, 1, 2]).score([0, 1, 2, 0]).n_mismatches.tolist()
        [1]
        """
        counts = []
        for sequence in _read(symbols, lengths):
            strange = np.array([each not in self._seen for each in self._windows(sequence)])
            total = np.concatenate([[0], np.cumsum(strange)])
            width = min(self.frame, len(strange))
            counts.append((len(strange), total[-1], (total[width:] - total[:-width]).max()))
        n_windows, n_mismatches, locality = np.array(counts, dtype=np.int64).T
        return StideScores(n_windows, n_mismatches, locality)

    def _windows(self, sequence: list[int]) -> list[tuple[int, ...]]:
        n = max(1, len(sequence) - self.window + 1)
        return [tuple(sequence[i : i + self.window]) for i in range(n)]


def _read(symbols: ArrayLike, lengths: ArrayLike | None) -> list[list[int]]:
    """Return the sequences, or raise."""
    values = validate.integers("symbols", symbols, low=0)
    if len(values) == 0:
        raise ValueError("symbols: got none; expected at least one")
    if lengths is None:
        return [values.tolist()]
    sizes = validate.integers("lengths", lengths, low=1)
    if sizes.sum() != len(values):
        raise ValueError(
            f"lengths sum to {sizes.sum()}: expected {len(values)}, the number of symbols"
        )
    return [part.tolist() for part in np.split(values, np.cumsum(sizes)[:-1])]
