"""The data sets of the comparison: each has streams for choosing and others for reporting.

    set             choosing         reporting         symbols of a stream
    hmm             seeds 1-10       seeds 11-30       300, `datasets.switching_hmm`
    books           windows 1-10     windows 11-20     1,800, 600 of each of three books
    book            Alice            War and Peace     100,000 characters, from the 500,000th on
    clicks          blocks 1-5       blocks 6-10       1,500 clicks, users as keys
    clicks-50000    block 1 of 4     block 3 of 4      50,000 clicks, users as keys
    commands        users 6-10       users 1-5         the first 1,000 commands
    pautomac        6 problems       6 problems        strings of 10,000 symbols or a few more
    processes       seeds 0 and 4    seeds 1-3         12,000 log lines, processes as keys
    turns           seeds 1-3        seeds 11-15       16,500, three automata, 11 visits each

Two more are long versions of short ones, for the distance to the best member after 10,000 symbols:

    hmm-long        seed 1           seeds 11-12       12,000, six visits of both HMMs of the paper
    commands-15000  user 6           users 1-2         all commands of a user

Twenty users click at any time, each in the order of the file; who clicks next is drawn. Sequences
in the file follow one another, which no live stream does. All methods keep at most 1,000 keys.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

import mdvpf
from mdvpf import datasets
from mdvpf.experiments import books, pautomac, webclick

SPLITS = ("choosing", "reporting")
MAX_KEYS = 1000
CHUNK = 5000  # symbols that are run at a time
_ACTIVE_USERS = 20
_BOOK_OFFSET = 500_000
_BOOK_LENGTH = 100_000
_STRINGS_LENGTH = 10_000


@dataclass(frozen=True, eq=False)
class Stream:
    """Symbols with at most one of sequence lengths and keys, and the generator if it is known."""

    name: str
    symbols: NDArray[np.int64]
    n_symbols: int
    lengths: NDArray[np.int64] | None = None
    keys: list[int] | None = None
    generator: mdvpf.KnownHMM | None = None
    change_points: tuple[int, ...] = ()

    @property
    def digest(self) -> str:
        """Hash of what a predictor is given."""
        found = hashlib.sha256(f"{self.n_symbols}".encode())
        for part in (self.symbols, self.lengths, self.keys):
            found.update(b"-" if part is None else np.asarray(part, np.int64).tobytes())
        return found.hexdigest()[:16]

    def chunks(self) -> Iterator[dict[str, object]]:
        """Yield the arguments of consecutive calls of `run`; sequences stay whole."""
        if self.lengths is not None:
            stops = np.cumsum(self.lengths)
            first, start = 0, 0
            while first < len(stops):
                last = max(first + 1, int(np.searchsorted(stops, start + CHUNK, side="right")))
                stop = int(stops[last - 1])
                yield {"symbols": self.symbols[start:stop], "lengths": self.lengths[first:last]}
                first, start = last, stop
            return
        for start in range(0, len(self.symbols), CHUNK):
            part = slice(start, start + CHUNK)
            found: dict[str, object] = {"symbols": self.symbols[part]}
            if self.keys is not None:
                found["keys"] = self.keys[part]
            yield found

    def to_bytes(self) -> bytes | None:
        """Return the symbols as a file, sequence after sequence; None if a byte cannot hold one."""
        if self.n_symbols > 256:
            return None
        symbols = self.symbols
        if self.keys is not None:
            symbols = symbols[np.argsort(self.keys, kind="stable")]
        return symbols.astype(np.uint8).tobytes()


@dataclass(frozen=True)
class DataSet:
    """A named set of streams."""

    name: str
    title: str
    parts: dict[str, Sequence[int]]
    load: Callable[[Sequence[int]], list[Stream]]
    long_only: bool = False  # for the distance to the best member, not for the comparison

    def streams(self, split: str) -> list[Stream]:
        """Return the streams of a split."""
        return self.load(self.parts[split])


def _hmm(numbers: Sequence[int], n_visits: int = 1, length: int = 150) -> list[Stream]:
    found = []
    for seed in numbers:
        sources = datasets.PAPER_HMMS * n_visits
        made = datasets.switching_hmm(sources, length, rng=seed)
        generator = mdvpf.KnownHMM(made.hmms, made.change_points)
        points = tuple(made.change_points.tolist())
        found.append(
            Stream(f"seed {seed}", made.symbols, 8, generator=generator, change_points=points)
        )
    return found


def _windows(numbers: Sequence[int]) -> list[Stream]:
    every = books.streams(20, 600, 0)
    return [Stream(each.name, each.symbols, each.n_symbols)
            for each in (every[i - 1] for i in numbers)]  # fmt: skip


def _book(numbers: Sequence[int]) -> list[Stream]:
    offsets = [0, 0, _BOOK_OFFSET]
    text = datasets.books(n_characters=_BOOK_LENGTH, offsets=offsets)
    parts = text.symbols.reshape(3, _BOOK_LENGTH)
    return [Stream(text.titles[i], parts[i], text.n_symbols) for i in numbers]


def _clicks(numbers: Sequence[int], n_blocks: int, length: int) -> list[Stream]:
    every = _click_blocks(n_blocks, length)
    return [_interleaved(*every[i - 1], seed=i) for i in numbers]


@cache
def _click_blocks(
    n_blocks: int, length: int
) -> list[tuple[NDArray[np.int64], NDArray[np.int64], int]]:
    found = webclick.streams(n_blocks, length)
    return [(each.symbols, each.lengths, each.n_symbols) for each in found]  # type: ignore[misc]


def _interleaved(
    symbols: NDArray[np.int64], lengths: NDArray[np.int64], n_symbols: int, seed: int
) -> Stream:
    """Return users who click at the same time, twenty of them, each in their own order."""
    rng = np.random.default_rng(seed)
    starts = (np.cumsum(lengths) - lengths).tolist()
    ends = np.cumsum(lengths).tolist()
    n_users = len(ends)
    active = list(range(min(_ACTIVE_USERS, n_users)))
    following = len(active)
    position = dict(zip(active, starts[: len(active)], strict=True))
    order, keys = [], []
    for u in rng.random(len(symbols)).tolist():
        place = int(u * len(active))
        user = active[place]
        order.append(position[user])
        keys.append(user)
        position[user] += 1
        if position[user] == ends[user]:
            if following < n_users:
                active[place] = following
                position[following] = starts[following]
                following += 1
            else:
                active.pop(place)
    return Stream(f"block {seed}", symbols[order], n_symbols, keys=keys)


def _commands(numbers: Sequence[int], length: int) -> list[Stream]:
    data = _masquerade()
    return [Stream(f"user {user}", data.symbols[user - 1, :length], data.n_symbols)
            for user in numbers]  # fmt: skip


@cache
def _masquerade() -> datasets.Masquerade:
    return datasets.masquerade()


def _strings(numbers: Sequence[int]) -> list[Stream]:
    found = []
    for number in numbers:
        problem = datasets.pautomac(number)
        lengths = np.array([len(string) for string in problem.train])
        n = int(np.searchsorted(np.cumsum(lengths), _STRINGS_LENGTH)) + 1
        generator = mdvpf.KnownHMM(problem.automaton.to_hmm())
        found.append(
            Stream(
                f"problem {number}",
                np.concatenate(problem.train[:n]),
                problem.n_symbols,
                lengths[:n],
                generator=generator,
            )
        )
    return found


def _processes(numbers: Sequence[int]) -> list[Stream]:
    found = []
    for seed in numbers:
        log = datasets.processes(rng=seed)
        names = {name: i for i, name in enumerate(dict.fromkeys(log.keys))}
        keys = [names[key] for key in log.keys]
        found.append(Stream(f"seed {seed}", log.symbols, log.n_symbols, keys=keys))
    return found


def _turns(numbers: Sequence[int]) -> list[Stream]:
    found = []
    for seed in numbers:
        made = datasets.taking_turns(rng=seed)
        points = tuple(made.change_points.tolist())
        generator = mdvpf.KnownHMM(made.hmms, points)
        found.append(
            Stream(f"seed {seed}", made.symbols, made.n_symbols, None, None, generator, points)
        )
    return found


def _parts(choosing: Sequence[int], reporting: Sequence[int]) -> dict[str, Sequence[int]]:
    return {"choosing": choosing, "reporting": reporting}


SETS = {
    each.name: each
    for each in (
        DataSet("hmm", "switching HMM", _parts(range(1, 11), range(11, 31)), _hmm),
        DataSet("books", "book windows", _parts(range(1, 11), range(11, 21)), _windows),
        DataSet("book", "one book, 100,000", _parts([0], [2]), _book),
        DataSet(
            "clicks",
            "clicks, 1,500",
            _parts(range(1, 6), range(6, 11)),
            lambda numbers: _clicks(numbers, 10, 1500),
        ),
        DataSet(
            "clicks-50000",
            "clicks, 50,000",
            _parts([1], [3]),
            lambda numbers: _clicks(numbers, 4, 50_000),
        ),
        DataSet(
            "commands",
            "commands",
            _parts(range(6, 11), range(1, 6)),
            lambda numbers: _commands(numbers, 1000),
        ),
        DataSet("pautomac", "PAutomaC", _parts(pautomac.CHOOSING, pautomac.REPORTING), _strings),
        DataSet("processes", "log lines", _parts([0, 4], [1, 2, 3]), _processes),
        DataSet("turns", "automata in turns", _parts(range(1, 4), range(11, 16)), _turns),
        DataSet(
            "hmm-long",
            "switching HMM, 12,000",
            _parts([1], [11, 12]),
            lambda numbers: _hmm(numbers, 6, 1000),
            long_only=True,
        ),
        DataSet(
            "commands-15000",
            "commands, 15,000",
            _parts([6], [1, 2]),
            lambda numbers: _commands(numbers, 15_000),
            long_only=True,
        ),
    )
}
