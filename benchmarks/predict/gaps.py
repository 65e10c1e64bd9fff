"""PAutomaC: learn all training strings of a problem in one pass, freeze, score the test strings.

The gap is the perplexity of the test strings above that of the automaton that made them.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.predict.methods import METHODS
from benchmarks.predict.runs import FOLDER, sources_digest
from benchmarks.predict.sets import Stream
from mdvpf import datasets
from mdvpf.experiments.pautomac import CHOOSING, PROBLEMS, REPORTING, geometric_mean


def gap(label: str, number: int) -> tuple[float, float]:
    """Return the gap of a method on a problem, and the seconds it learnt."""
    problem = datasets.pautomac(number)
    (make,) = METHODS[label].makes.values()
    predictor = make(problem.n_symbols)
    lengths = np.array([len(string) for string in problem.train])
    stream = Stream("", np.concatenate(problem.train), problem.n_symbols, lengths)
    start = time.process_time()
    for chunk in stream.chunks():
        predictor.run(**chunk)  # type: ignore[arg-type]
    predictor.new_sequence()
    seconds = time.process_time() - start
    sizes = np.array([len(string) for string in problem.test])
    found = predictor.freeze().run(np.concatenate(problem.test), sizes).log_predictive
    return problem.score(np.add.reduceat(found, np.cumsum(sizes) - sizes)).gap, seconds


def _path(label: str) -> Path:
    return FOLDER / "pautomac" / f"{label.replace(', ', '-').replace(' ', '-')}.json"


def kept(label: str) -> dict[str, tuple[float, float]]:
    """Return the kept gaps and seconds by number of the problem."""
    path = _path(label)
    if not path.exists():
        return {}
    content = json.loads(path.read_text(encoding="utf-8"))
    stale = METHODS[label].is_auto and content["sources"] != sources_digest()
    return {} if stale else content["gaps"]


def table(labels: Sequence[str], problems: Sequence[int] | None, *, fresh: bool = False) -> str:
    """Return the gaps of methods, problem by problem and their geometric means."""
    numbers = list(problems or PROBLEMS)
    head = ["gap", *map(str, numbers), "choosing", "reporting", "all"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for label in labels:
        path = _path(label)
        found = {} if fresh else kept(label)
        for number in numbers:
            if str(number) not in found:
                found[str(number)] = gap(label, number)
                value, seconds = found[str(number)]
                print(
                    f"{label}, problem {number}: gap {value:.4f}, {seconds:.0f} s",
                    file=sys.stderr,
                    flush=True,
                )
                path.parent.mkdir(parents=True, exist_ok=True)
                text = json.dumps({"sources": sources_digest(), "gaps": found})
                path.write_text(text, encoding="utf-8")
        cells = [f"{found[str(number)][0]:.3f}" for number in numbers]
        for part in (CHOOSING, REPORTING, PROBLEMS):
            values = [found[str(n)][0] for n in part if str(n) in found]
            cells.append(f"{geometric_mean(values):.3f}" if len(values) == len(part) else "")
        lines.append("| " + " | ".join([label, *cells]) + " |")
    return "\n".join(lines)
