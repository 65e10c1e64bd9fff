"""Small problems in the format of PAutomaC, and probabilities of strings by enumeration."""

from __future__ import annotations

import gzip
import itertools
import math
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from mdvpf.experiments.pautomac import PROBLEMS

Table = dict[tuple[int, ...], float]


@dataclass
class Small:
    """An automaton as the sections of its file, which omit zeros."""

    alphabet: int
    initial: Table
    final: Table
    symbol: Table
    transition: Table
    states: range = field(init=False)

    def __post_init__(self) -> None:
        self.states = range(1 + max(index[0] for index in (*self.symbol, *self.final)))

    def probability(self, string: list[int]) -> float:
        """Probability of a string without its end symbol: the sum over all paths."""
        return sum(
            self.weight(path, string) * self.final.get((path[-1],), 0.0)
            for path in itertools.product(self.states, repeat=len(string) + 1)
        )

    def weight(self, path: tuple[int, ...], string: list[int]) -> float:
        """Probability of a path of states with the symbols of a string."""
        p = self.initial.get((path[0],), 0.0)
        for (q, following), symbol in zip(itertools.pairwise(path), string, strict=True):
            p *= 1.0 - self.final.get((q,), 0.0)
            p *= self.symbol.get((q, symbol), 0.0)
            p *= self.transition.get((q, symbol, following), 0.0)
        return p

    def prefix_probability(self, string: list[int]) -> float:
        """Probability that a string begins with this one."""
        state = [self.initial.get((q,), 0.0) for q in self.states]
        for symbol in string:
            moved = [0.0 for _ in self.states]
            for q, r in itertools.product(self.states, self.states):
                goes_on = 1.0 - self.final.get((q,), 0.0)
                step = self.symbol.get((q, symbol), 0.0) * self.transition.get((q, symbol, r), 0.0)
                moved[r] += state[q] * goes_on * step
            state = moved
        return sum(state)

    def sample(self, rng: np.random.Generator, most: int) -> list[int]:
        """Draw a string; one that grows longer than `most` is drawn again."""
        while True:
            string: list[int] = []
            (state,) = _draw({index: p for index, p in self.initial.items()}, rng)
            while len(string) <= most:
                if rng.random() < self.final.get((state,), 0.0):
                    return string
                _, symbol = _draw({i: p for i, p in self.symbol.items() if i[0] == state}, rng)
                rows = {i: p for i, p in self.transition.items() if i[:2] == (state, symbol)}
                _, _, state = _draw(rows, rng)
                string.append(symbol)


def _draw(entries: Table, rng: np.random.Generator) -> tuple[int, ...]:
    indices = list(entries)
    shares = np.array(list(entries.values()))
    return indices[int(rng.choice(len(indices), p=shares / shares.sum()))]


def two_states(alphabet: int, turn: float = 0.7) -> Small:
    """Two states: the first never stops and has few symbols, the second returns or stays."""
    last = alphabet - 1
    return Small(
        alphabet,
        {(0,): 0.75, (1,): 0.25},
        {(1,): 0.4},
        {(0, 0): turn, (0, 1): 1 - turn, (1, 0): 0.25, (1, last): 0.75},
        {
            (0, 0, 1): 1.0,
            (0, 1, 0): 0.5,
            (0, 1, 1): 0.5,
            (1, 0, 0): 1.0,
            (1, last, 1): 0.25,
            (1, last, 0): 0.75,
        },
    )


def write_problem(
    folder: Path,
    number: int,
    automaton: Small,
    train: list[list[int]],
    test: list[list[int]],
    packed: bool = False,
) -> None:
    """Write the four files of a problem, with the solution by enumeration."""
    true = [automaton.probability(string) for string in test]
    solution = [str(len(test)), *(repr(p / math.fsum(true)) for p in true)]
    contents = {
        ".train": strings_text(train, automaton.alphabet),
        ".test": strings_text(test, automaton.alphabet),
        "_solution.txt": "\n".join(solution) + "\n",
        "_model.txt": model_text(automaton),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for part, text in contents.items():
        file = folder / f"{number}.pautomac{part}"
        if packed:
            file.with_name(file.name + ".gz").write_bytes(gzip.compress(text.encode()))
        else:
            file.write_text(text)


def strings_text(strings: list[list[int]], alphabet: int) -> str:
    lines = [f"{len(strings)} {alphabet}"]
    lines += [" ".join(map(str, [len(string), *string])) for string in strings]
    return "\r\n".join(lines) + "\r\n"


def model_text(automaton: Small) -> str:
    sections = {
        "I: (state)": automaton.initial,
        "F: (state)": automaton.final,
        "S: (state,symbol) ": automaton.symbol,
        "T: (state,symbol,state) ": automaton.transition,
    }
    lines = []
    for title, table in sections.items():
        lines.append(title)
        lines += [f"\t({','.join(map(str, index))}) {p!r}" for index, p in table.items()]
    return "\r\n".join(lines) + "\r\n"


def write_problems(root: Path, n_train: int = 60) -> dict[int, Small]:
    """Write all problems of the experiment: only 3 and 9, and 6 and 28 have alphabets in common."""
    rng = np.random.default_rng(7)
    sizes = {3: 4, 9: 4, 6: 5, 28: 5}
    automata = {}
    for i, number in enumerate(PROBLEMS):
        automaton = two_states(sizes.get(number, 6 + i), turn=0.1 + 0.07 * i)
        train = [automaton.sample(rng, 12) for _ in range(n_train)]
        test = [list(each) for each in {tuple(automaton.sample(rng, 5)) for _ in range(8)}]
        write_problem(root / "pautomac", number, automaton, train, sorted(test))
        automata[number] = automaton
    return automata
