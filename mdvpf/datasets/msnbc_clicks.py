"""Clicks on a news site: the page categories that each visitor of MSNBC.com looked at.

A file is accepted if its numbers of users, clicks and categories are the published ones. A download
must also match its hash; a user's own copy may have other line ends.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mdvpf._support.shown import shown_fields
from mdvpf.datasets import files


@dataclass(frozen=True, slots=True, eq=False)
class Clicks:
    """Page categories, user by user.

    Attributes
    ----------
    symbols : ndarray of int64
        The categories of all users, joined; numbered from 0, although the file numbers from 1.
    lengths : ndarray of int64
        Number of clicks of each user.
    categories : tuple of str
        The categories of the symbols.

    Examples
    --------
    >>> from mdvpf.datasets import Clicks
    >>> import numpy as np
    >>> Clicks(np.array([0, 0, 1]), np.array([2, 1]), ("frontpage", "news")).n_symbols
    2
    """

    symbols: NDArray[np.int64]
    lengths: NDArray[np.int64]
    categories: tuple[str, ...]

    def __repr__(self) -> str:
        return shown_fields(self)

    @property
    def n_symbols(self) -> int:
        """Number of categories."""
        return len(self.categories)


_MSNBC = files.Source(
    "MSNBC.com anonymous web data",
    (("msnbc990928.seq.gz",), ("msnbc990928.seq",)),
    ("https://archive.ics.uci.edu/static/public/133/msnbc+com+anonymous+web+data.zip",),
    (("msnbc990928.seq", "982d85eb7aff1744e64d8bfadb21f53fb921b79d53b6305d4df232da59f218fe"),),
)
_MSNBC_USERS, _MSNBC_EVENTS, _MSNBC_CATEGORIES = 989_818, 4_698_794, 17


def msnbc(path: files.Named | None = None) -> Clicks:
    """Return the page categories that each visitor of MSNBC.com looked at on 28 September 1999.

    Only the order of clicks within a user is documented. The order of users in the file is not the
    order of their visits.

    Parameters
    ----------
    path : path, optional
        The file ``msnbc990928.seq``, plain, gzipped or in the zip archive of the UCI repository.

    Returns
    -------
    Clicks
        989,818 sequences with 4,698,794 clicks on pages of 17 categories.

    Examples
    --------
    >>> from mdvpf import datasets
    >>> clicks = datasets.msnbc()  # doctest: +SKIP
    >>> clicks.categories[:2], clicks.lengths[:3].tolist()  # doctest: +SKIP
    (('frontpage', 'news'), [2, 1, 9])
    """
    return files.load(_MSNBC, path, _parse_msnbc)


def _parse_msnbc(contents: files.Contents) -> Clicks:
    content = next((each for name, each in contents.items() if name.endswith(".seq")), b"")
    head, mark, body = content.partition(b"% Sequences:")
    if not mark:
        raise ValueError("no line '% Sequences:'; expected the file msnbc990928.seq")
    names = [line for line in head.splitlines() if line and not line.startswith(b"%")]
    categories = tuple(names[0].decode("ascii", errors="replace").split()) if names else ()
    body = body.strip()
    if body.translate(None, b"0123456789 \r\n"):
        raise ValueError("characters other than digits among the sequences")
    symbols = np.array(body.split(), dtype=np.int64) - 1
    lengths = np.array([len(line.split()) for line in body.splitlines()], dtype=np.int64)
    found = len(lengths), len(symbols), len(categories)
    expected = _MSNBC_USERS, _MSNBC_EVENTS, _MSNBC_CATEGORIES
    if found != expected:
        raise ValueError(
            "{:,} users, {:,} clicks, {} categories; ".format(*found)
            + "expected {:,}, {:,} and {}".format(*expected)
        )
    if lengths.min() < 1 or symbols.min() < 0 or symbols.max() >= len(categories):
        raise ValueError("users without clicks, or categories out of range")
    return Clicks(symbols, lengths, categories)
