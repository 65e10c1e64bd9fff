"""Shell commands of 50 users, some blocks of which are another user's.

The data set has no published hash. A file is accepted if its numbers of users, commands and
masquerades are the published ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mdvpf._support.shown import shown_fields
from mdvpf.datasets import files


@dataclass(frozen=True, slots=True, eq=False)
class Masquerade:
    """Shell commands of several users, some blocks of which are another user's.

    Attributes
    ----------
    symbols : ndarray of int64, shape (50, 15000)
        The commands of each user, as indices of `commands`.
    labels : ndarray of bool, shape (50, 100)
        Whether a block of 100 commands is another user's. The first 5,000 commands are the user's
        own; entry k describes the 100 commands from ``5000 + 100 * k`` on.
    commands : tuple of str
        The commands of the symbols, in alphabetical order.

    Examples
    --------
    >>> from mdvpf.datasets import Masquerade
    >>> import numpy as np
    >>> Masquerade(np.array([[0, 1]]), np.array([[False]]), ("cat", "ls")).n_symbols
    2
    """

    symbols: NDArray[np.int64]
    labels: NDArray[np.bool_]
    commands: tuple[str, ...]

    def __repr__(self) -> str:
        return shown_fields(self)

    @property
    def n_symbols(self) -> int:
        """Number of distinct commands."""
        return len(self.commands)


_MASQUERADE = files.Source(
    "masquerading user data of Schonlau et al.",
    (("schonlau_sea.tar.gz",), ("masquerade-data.zip", "masquerade_summary.txt")),
    (
        "https://www.schonlau.net/masquerade/masquerade-data.zip",
        "https://www.schonlau.net/masquerade/masquerade_summary.txt",
    ),
)
_USERS, _COMMANDS, _OWN, _BLOCK = 50, 15_000, 5_000, 100
_DISTINCT, _MASQUERADES = 856, 231
_LABELS = ("label.txt", "masquerade_summary.txt")


def masquerade(path: files.Named | None = None) -> Masquerade:
    """Return the masquerading user data of Schonlau et al.: shell commands of 50 users.

    Parameters
    ----------
    path : path, optional
        An archive (tar or zip) or a folder with the files ``User1`` to ``User50`` and the labels,
        ``label.txt`` or ``masquerade_summary.txt``.

    Returns
    -------
    Masquerade
        50 times 15,000 commands, and which of the last 100 blocks of 100 are another user's.

    Examples
    --------
    >>> from mdvpf import datasets
    >>> data = datasets.masquerade()  # doctest: +SKIP
    >>> data.symbols.shape, data.n_symbols, int(data.labels.sum())  # doctest: +SKIP
    ((50, 15000), 856, 231)
    """
    return files.load(_MASQUERADE, path, _parse_masquerade)


def _parse_masquerade(contents: files.Contents) -> Masquerade:
    users = []
    for i in range(1, _USERS + 1):
        if f"User{i}" not in contents:
            raise ValueError(f"no file User{i}")
        users.append(contents[f"User{i}"].decode("latin-1").split())
        if len(users[-1]) != _COMMANDS:
            raise ValueError(f"{len(users[-1])} commands in User{i}; expected {_COMMANDS}")
    labels = _parse_labels(contents)
    commands = sorted(set().union(*users))
    if (len(commands), labels.sum()) != (_DISTINCT, _MASQUERADES):
        raise ValueError(
            f"{len(commands)} distinct commands, {labels.sum()} masquerades; "
            f"expected {_DISTINCT} and {_MASQUERADES}"
        )
    index = {command: i for i, command in enumerate(commands)}
    symbols = np.array([[index[c] for c in user] for user in users], dtype=np.int64)
    return Masquerade(symbols, labels, tuple(commands))


def _parse_labels(contents: files.Contents) -> NDArray[np.bool_]:
    tables = [contents[name] for name in _LABELS if name in contents]
    if not tables:
        raise ValueError(f"no file of labels, {' or '.join(_LABELS)}")
    rows = [line.split() for line in tables[0].splitlines() if line.strip()]
    n_blocks = (_COMMANDS - _OWN) // _BLOCK
    entries = {entry for row in rows for entry in row}
    if [len(row) for row in rows] != [_USERS] * n_blocks or entries - {b"0", b"1"}:
        raise ValueError(f"labels that are not {n_blocks} rows of {_USERS} zeros and ones")
    return np.array([[entry == b"1" for entry in row] for row in rows], dtype=np.bool_).T
