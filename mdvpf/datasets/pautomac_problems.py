"""PAutomaC: strings of known probabilistic automata, and the official score.

The problems are those of the competition of 2012 (Verwer, Eyraud and de la Higuera 2014, "PAutomaC:
a probabilistic automata and hidden Markov models learning competition"). A problem has training
strings, test strings with their true probabilities, and the automaton that generated them. The
perplexity of that automaton is a lower bound for every predictor.

The files are for academic research. They are neither bundled nor downloaded.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mdvpf._support import validate
from mdvpf._support.shown import shown_fields
from mdvpf.datasets import files
from mdvpf.datasets.hmm_sources import HMM

FOLDER = "pautomac"  # in the folder of all data sets
_PARTS = (".train", ".test", "_solution.txt", "_model.txt")
_WHERE = (
    "The files are for academic research only: they are neither bundled nor downloaded. They are "
    "in the repository tudelft-cda-lab/FlexFringe, folder data/PAutomaC-competition_sets"
)
_TOLERANCE = 1e-6  # of sums of probabilities in a file, which has 12 digits
_ENTRY = re.compile(r"\(\s*(\d+(?:\s*,\s*\d+)*)\s*\)\s+(\S+)")
_LARGEST = 10_000  # limit on the numbers of states and symbols in a file

T = TypeVar("T")
Strings = list[NDArray[np.int64]]


class PAutomaCScore(NamedTuple):
    """The official score of predicted probabilities of test strings.

    Attributes
    ----------
    perplexity : float
        ``2 ** -sum(p * log2(q))`` over the test strings. p are their true probabilities and q the
        predicted ones, both normalised.
    floor : float
        The least possible perplexity, which is that of p itself.
    gap : float
        ``perplexity - floor``.
    bits : float
        ``log2(perplexity / floor)``: the divergence of q from p, in bits a string.

    Examples
    --------
    >>> from mdvpf.datasets import PAutomaCScore
    >>> PAutomaCScore(4.0, 2.0, 2.0, 1.0).bits
    1.0
    """

    perplexity: float
    floor: float
    gap: float
    bits: float


@dataclass(frozen=True, slots=True, eq=False)
class Automaton:
    """A probabilistic automaton over strings.

    In each state it stops with the probability in `final`. Otherwise it emits a symbol and moves
    on; the distribution of the next state depends on the state and the symbol.

    Attributes
    ----------
    start : ndarray of shape (n_states,)
        Distribution of the first state.
    final : ndarray of shape (n_states,)
        Probability of stopping in each state.
    emission : ndarray of shape (n_states, alphabet)
        Distribution of the symbol in each state, given that it does not stop there.
    transition : ndarray of shape (n_states, alphabet, n_states)
        Distribution of the next state after each state and symbol.

    Examples
    --------
    >>> import numpy as np
    >>> from mdvpf.datasets import Automaton
    >>> coin = Automaton(np.ones(1), np.full(1, 0.5), np.ones((1, 1)), np.ones((1, 1, 1)))
    >>> coin.log_probabilities([[1], [0, 1], [0, 0, 1]]) / np.log(0.5)
    array([1., 2., 3.])
    """

    start: NDArray[np.float64]
    final: NDArray[np.float64]
    emission: NDArray[np.float64]
    transition: NDArray[np.float64]

    def __repr__(self) -> str:
        return shown_fields(self)

    @property
    def n_states(self) -> int:
        """Number of states."""
        return len(self.start)

    @property
    def end(self) -> int:
        """The symbol that ends a string: the one after those of the alphabet."""
        return int(self.emission.shape[1])

    @property
    def n_symbols(self) -> int:
        """Size of the alphabet, the end symbol included."""
        return self.end + 1

    def log_probabilities(self, strings: Sequence[ArrayLike]) -> NDArray[np.float64]:
        """Return the log probability of each string, whose last symbol is the end symbol.

        Examples
        --------
        >>> from mdvpf import datasets
        >>> problem = datasets.pautomac(24)  # doctest: +SKIP
        >>> problem.automaton.log_probabilities(problem.test)[:2].round(2)  # doctest: +SKIP
        array([-1.57, -9.61])
        """
        found = np.empty(len(strings))
        goes_on = (1.0 - self.final)[:, np.newaxis] * self.emission
        for i, string in enumerate(strings):
            symbols = validate.integers(f"strings[{i}]", string, low=0, high=self.end).tolist()
            if symbols.count(self.end) != 1 or symbols[-1] != self.end:
                raise ValueError(f"strings[{i}]={symbols}: expected the end symbol {self.end} last")
            state, log_probability = self.start, 0.0
            for symbol in symbols[:-1]:
                state = (state * goes_on[:, symbol]) @ self.transition[:, symbol]
                total = float(state.sum())
                if total == 0.0:
                    break
                log_probability += math.log(total)
                state = state / total
            stops = float(state @ self.final)
            found[i] = log_probability + math.log(stops) if stops > 0.0 else -math.inf
        return found

    def to_hmm(self) -> HMM:
        """Return the HMM that emits the strings of the automaton, each with its end symbol.

        Its states are the possible pairs of a state and a symbol, or the end symbol. After an end
        another string starts, so the HMM generates endless streams.

        Examples
        --------
        >>> import numpy as np
        >>> from mdvpf.datasets import Automaton
        >>> coin = Automaton(np.ones(1), np.full(1, 0.5), np.ones((1, 1)), np.ones((1, 1, 1)))
        >>> coin.to_hmm().emission.tolist()
        [[1.0, 0.0], [0.0, 1.0]]
        """
        # Probability of each pair within its state: the symbols, and the end after them.
        goes_on = (1.0 - self.final)[:, np.newaxis] * self.emission
        choice = np.column_stack([goes_on, self.final])
        states, symbols = np.nonzero(choice)
        chosen = choice[states, symbols]
        start = self.start[states] * chosen
        transition = np.empty((len(states), len(states)))
        ends = symbols == self.end
        transition[ends] = start
        rows = self.transition[states[~ends], symbols[~ends]]
        transition[~ends] = rows[:, states] * chosen
        return HMM(start, transition, np.eye(self.n_symbols)[symbols])


@dataclass(frozen=True, slots=True, eq=False)
class PAutomaC:
    """A problem of PAutomaC.

    Attributes
    ----------
    number : int
        The number of the problem in the competition.
    train, test : list of ndarray of int64
        The strings, each followed by the end symbol.
    solution : ndarray of float64
        The true probabilities of the test strings, normalised.
    automaton : Automaton
        The automaton that generated the strings.

    Examples
    --------
    >>> from mdvpf import datasets
    >>> problem = datasets.pautomac(24)  # doctest: +SKIP
    >>> problem.n_symbols, len(problem.train), len(problem.test)  # doctest: +SKIP
    (6, 20000, 1000)
    """

    number: int
    train: Strings
    test: Strings
    solution: NDArray[np.float64]
    automaton: Automaton

    def __repr__(self) -> str:
        return shown_fields(self)

    @property
    def n_symbols(self) -> int:
        """Size of the alphabet, the end symbol included."""
        return self.automaton.n_symbols

    @property
    def end(self) -> int:
        """The symbol that ends a string."""
        return self.automaton.end

    @property
    def floor(self) -> float:
        """The least possible perplexity: that of the automaton."""
        return self.score(self.automaton.log_probabilities(self.test)).perplexity

    def score(self, log_probabilities: ArrayLike) -> PAutomaCScore:
        """Return the official score of predicted log probabilities of the test strings.

        Parameters
        ----------
        log_probabilities : array_like of float
            One natural log a test string. Any constant may be added to all of them.

        Examples
        --------
        >>> from mdvpf import datasets
        >>> problem = datasets.pautomac(24)  # doctest: +SKIP
        >>> problem.score([0.0] * len(problem.test)).perplexity  # doctest: +SKIP
        1000.0
        """
        return pautomac_score(self.solution, log_probabilities)


def pautomac_score(solution: ArrayLike, log_probabilities: ArrayLike) -> PAutomaCScore:
    """Return the official score of PAutomaC.

    Parameters
    ----------
    solution : array_like of float
        True probabilities of strings; they are divided by their sum.
    log_probabilities : array_like of float
        Finite natural logs of the predicted probabilities, up to a common constant.

    Examples
    --------
    >>> import numpy as np
    >>> from mdvpf.datasets import pautomac_score
    >>> pautomac_score([0.5, 0.5], np.log([0.2, 0.2]))
    PAutomaCScore(perplexity=2.0, floor=2.0, gap=0.0, bits=0.0)
    """
    true = np.asarray(solution, dtype=np.float64)
    logs = np.asarray(log_probabilities, dtype=np.float64)
    if true.ndim != 1 or not np.all(true >= 0.0) or not 0.0 < true.sum() < math.inf:
        raise ValueError(f"solution of shape {true.shape}: expected probabilities of strings")
    if logs.shape != true.shape:
        raise ValueError(f"log_probabilities of shape {logs.shape}: expected {true.shape}")
    if not np.all(np.isfinite(logs)):
        raise ValueError("log_probabilities with infinite entries or NaN: expected finite numbers")
    true = true / true.sum()
    top = float(logs.max())
    predicted = logs - top - math.log(math.fsum(np.exp(logs - top)))
    possible = true > 0.0
    entropy = -math.fsum(true[possible] * np.log2(true[possible]))
    cross = -math.fsum(true * predicted) / math.log(2.0)
    perplexity, floor = _power_of_two(cross), 2.0**entropy
    return PAutomaCScore(perplexity, floor, perplexity - floor, cross - entropy)


def _power_of_two(exponent: float) -> float:
    return 2.0**exponent if exponent < 1024.0 else math.inf


# --- Files


def pautomac(problem: int, path: files.Named | None = None) -> PAutomaC:
    """Return a problem of PAutomaC, the competition of 2012.

    Parameters
    ----------
    problem : int
        Its number, 1 to 48.
    path : path, optional
        The folder of the files ``N.pautomac.train``, ``N.pautomac.test``,
        ``N.pautomac_solution.txt`` and ``N.pautomac_model.txt``, plain or gzipped. Without it, the
        folder ``pautomac`` in the folder that ``MDVPF_DATA`` names.

    Returns
    -------
    PAutomaC
        Strings, true probabilities and the automaton.

    Examples
    --------
    >>> from mdvpf import datasets
    >>> problem = datasets.pautomac(24)  # doctest: +SKIP
    >>> round(problem.floor, 3), problem.automaton.n_states  # doctest: +SKIP
    (38.729, 6)
    """
    number = validate.integer("problem", problem, low=1, high=48)
    folder = _folder(path)
    found = [_file(folder, f"{number}.pautomac{part}", number) for part in _PARTS]
    train, size = _parsed(found[0], _read_strings)
    test, test_size = _parsed(found[1], _read_strings)
    solution = _parsed(found[2], _read_solution)
    automaton = _parsed(found[3], lambda content: _read_automaton(content, size))
    if test_size != size:
        raise ValueError(
            f"{found[1]}: an alphabet of {test_size} symbols; expected {size}, as for training"
        )
    if len(solution) != len(test):
        raise ValueError(f"{found[2]}: {len(solution)} probabilities of {len(test)} strings")
    return PAutomaC(number, train, test, solution, automaton)


def _folder(path: files.Named | None) -> Path:
    if path is not None:
        folder = files.existing(path)
        if not folder.is_dir():
            raise ValueError(f"path={str(path)!r}: expected a folder")
        return folder
    root = os.environ.get(files.FOLDER)
    if not root:
        raise FileNotFoundError(
            f"PAutomaC: there are no files. {_WHERE}. Put them into the folder {FOLDER} in the "
            f"folder that {files.FOLDER} names (not set), or pass the path of their folder"
        )
    return Path(root).expanduser() / FOLDER


def _file(folder: Path, name: str, number: int) -> Path:
    for file in (folder / name, folder / f"{name}.gz"):
        if file.is_file():
            return file
    raise FileNotFoundError(
        f"PAutomaC, problem {number}: no file {name} or {name}.gz in {folder}. {_WHERE}"
    )


def _parsed(file: Path, parse: Callable[[str], T]) -> T:
    contents = list(files.unpack(file).values())
    if len(contents) != 1:
        raise ValueError(f"{file}: {len(contents)} files; expected one")
    content = contents[0]
    try:
        return parse(content.decode("ascii", errors="replace"))
    except ValueError as error:
        raise ValueError(f"{file}: not the expected content: {error}") from error


def _read_strings(content: str) -> tuple[Strings, int]:
    """Return the strings, each with the end symbol, and the size of the alphabet without it."""
    try:
        numbers = np.array(content.split(), dtype=np.int64)
    except (ValueError, OverflowError):
        raise ValueError("something other than integers") from None
    if len(numbers) < 2 or numbers[0] < 1 or not 1 <= numbers[1] <= _LARGEST:
        raise ValueError("no number of strings and size of the alphabet in the first line")
    n, end = int(numbers[0]), int(numbers[1])
    # In the file each string follows its length. Without the first length, the position of the next
    # one is free for the end symbol.
    symbols = np.append(numbers[3:], end)
    stops, position, lengths = [], 2, numbers.tolist()
    while position < len(lengths):
        if lengths[position] < 0:
            raise ValueError(f"a string of length {lengths[position]}")
        position += lengths[position] + 1
        stops.append(position - 2)
    if len(stops) != n or position != len(lengths):
        raise ValueError(f"{len(stops)} strings, or a part of one; expected {n}")
    inner = np.ones(len(symbols), dtype=np.bool_)
    inner[np.array(stops) - 1] = False
    if np.any((symbols[inner] < 0) | (symbols[inner] >= end)):
        raise ValueError(f"symbols outside of 0..{end - 1}")
    symbols[~inner] = end
    return np.split(symbols, stops[:-1]), end


def _read_solution(content: str) -> NDArray[np.float64]:
    try:
        values = np.array(content.split(), dtype=np.float64)
    except ValueError:
        raise ValueError("something other than numbers") from None
    if len(values) < 2 or values[0] != len(values) - 1:
        raise ValueError("no number of probabilities in the first line, or another number of them")
    solution = values[1:]
    if not np.all(solution >= 0.0) or not 0.0 < solution.sum() < math.inf:
        raise ValueError("numbers that are no probabilities")
    solution /= solution.sum()
    return solution


def _read_automaton(content: str, alphabet: int) -> Automaton:
    """Return the automaton; the symbols that it never emits are not in the file."""
    sections: dict[str, dict[tuple[int, ...], float]] = {}
    entries: dict[tuple[int, ...], float] = {}
    for line in filter(None, map(str.strip, content.splitlines())):
        if line[:2] in ("I:", "F:", "S:", "T:"):
            entries = sections.setdefault(line[0], {})
            continue
        match = _ENTRY.fullmatch(line)
        if match is None:
            raise ValueError(f"line {line!r}; expected (numbers) and a probability")
        index = tuple(int(number) for number in match[1].split(","))
        if max(index) >= _LARGEST:
            raise ValueError(f"line {line!r}; expected smaller numbers")
        entries[index] = float(match[2])
    if set(sections) != set("IFST"):
        raise ValueError(f"sections {sorted(sections)}; expected I, F, S and T")
    for name, width in zip("IFST", (1, 1, 2, 3), strict=True):
        if any(len(index) != width for index in sections[name]):
            raise ValueError(f"section {name} with entries that are not of {width} numbers")
    states = {index[0] for section in sections.values() for index in section}
    states |= {index[2] for index in sections["T"]}
    n_states = max(states, default=-1) + 1
    if any(index[1] >= alphabet for name in "ST" for index in sections[name]):
        raise ValueError(f"symbols outside of 0..{alphabet - 1}")
    shapes = {"I": (n_states,), "F": (n_states,), "S": (n_states, alphabet)}
    shapes["T"] = (n_states, alphabet, n_states)
    tables: dict[str, NDArray[np.float64]] = {}
    for name, shape in shapes.items():
        tables[name] = np.zeros(shape)
        for index, probability in sections[name].items():
            tables[name][index] = probability
        if not np.all((tables[name] >= 0.0) & (tables[name] <= 1.0 + _TOLERANCE)):
            raise ValueError(f"section {name} with numbers that are no probabilities")
    final = np.minimum(tables["F"], 1.0)
    emission = _rows("S", tables["S"], final < 1.0)
    transition = _rows("T", tables["T"], emission > 0.0)
    return Automaton(_rows("I", tables["I"], np.bool_(True)), final, emission, transition)


def _rows(name: str, table: NDArray[np.float64], needed: Any) -> NDArray[np.float64]:
    """Return a table with the needed rows normalised and all other rows zero, or raise."""
    sums = table.sum(axis=-1)
    if np.any(needed & (np.abs(sums - 1.0) > _TOLERANCE)):
        raise ValueError(f"section {name} with rows that do not sum to one")
    divisors = np.where(needed, sums, 1.0)[..., np.newaxis]
    rows: NDArray[np.float64] = np.where(needed[..., np.newaxis], table / divisors, 0.0)
    return rows
