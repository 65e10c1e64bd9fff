"""Tables made of kept runs: nats a symbol, leads, distance to the best member, regret by visit.

Standard errors are over streams. A set with a single stream is cut into ten consecutive parts.
Leads are differences part by part, so that what makes a stream hard does not count.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.predict.methods import METHODS, NAMES, PPMD
from benchmarks.predict.runs import Run, kept, streams_of
from benchmarks.predict.sets import SETS, DataSet

N_PARTS = 10
MEMBER_SYMBOLS = 10_000
AUTO = "auto, default"


@dataclass(frozen=True, eq=False)
class Score:
    """A method on a set: its best setting, and its mean log predictive in each part."""

    setting: str
    parts: NDArray[np.float64]
    rate: float
    milliseconds: float
    runs: list[Run]

    @property
    def error(self) -> float:
        """Standard error of the mean."""
        return _error(self.parts)


def _error(values: NDArray[np.float64]) -> float:
    return float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan


def _parts(runs: list[Run]) -> NDArray[np.float64]:
    if len(runs) == 1 and len(runs[0].log_predictive) >= N_PARTS:
        return np.array([part.mean() for part in np.array_split(runs[0].log_predictive, N_PARTS)])
    return np.array([run.rate for run in runs])


def score(data: DataSet, split: str, label: str) -> Score | None:
    """Return how a method did on a set, with the best of its settings; None if it was not run."""
    found = kept(data, split, label)
    if not found:
        return None
    rates = {setting: float(np.mean([run.rate for run in runs])) for setting, runs in found.items()}
    best = max(rates, key=lambda setting: rates[setting])
    runs = found[best]
    n = sum(run.n_symbols_seen for run in runs)
    milliseconds = 1e3 * sum(run.seconds for run in runs) / n
    return Score(best, _parts(runs), rates[best], milliseconds, runs)


def scores(split: str, data: DataSet) -> dict[str, Score]:
    """Return the scores of all methods that were run on a set."""
    found = {label: score(data, split, label) for label in NAMES}
    return {label: each for label, each in found.items() if each is not None}


def best_peer(found: dict[str, Score]) -> str | None:
    """Return the peer with the largest mean."""
    peers = [label for label in found if label != PPMD and METHODS[label].is_peer]
    return max(peers, key=lambda label: found[label].rate) if peers else None


def lead(one: Score, other: Score) -> tuple[float, float]:
    """Return how far one is ahead of the other, and the standard error."""
    difference = one.parts - other.parts
    return one.rate - other.rate, _error(difference)


def member_distance(found: Score, at: int = MEMBER_SYMBOLS) -> tuple[float, int] | None:
    """Return how far a mixture is behind its best member after so many symbols, and which it is.

    That is nats a symbol, at the first chunk that ends there or later; None if streams are shorter,
    or if the mixture does not report its members.
    """
    distances, best = [], 0
    for run in found.runs:
        reached = np.flatnonzero(run.member_points >= at)
        if not len(reached) or run.member_sums.shape[1] < 2:
            return None
        i = int(reached[0])
        n = int(run.member_points[i])
        best = int(run.member_sums[i].argmax())
        own = math.fsum(run.log_predictive[:n])
        distances.append((float(run.member_sums[i][best]) - own) / n)
    return float(np.mean(distances)), best


def regret_by_visit(data: DataSet, split: str, label: str) -> NDArray[np.float64] | None:
    """Return the regret in nats against the active generator: a row a stream, a column a visit.

    An entry is the mean over the sources that take turns.
    """
    found = score(data, split, label)
    if found is None:
        return None
    rows = []
    for run, stream in zip(found.runs, streams_of(data.name, split), strict=True):
        assert stream.generator is not None
        n_sources = len({id(hmm) for hmm in stream.generator.hmms})
        known = stream.generator.copy().run(stream.symbols).log_predictive
        segments = np.split(known - run.log_predictive, stream.change_points)
        regret = np.array([segment.sum() for segment in segments])
        rows.append(regret.reshape(-1, n_sources).mean(axis=1))
    return np.array(rows)


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def sets_table(split: str, names: list[str]) -> str:
    """Return the table of nats a symbol, with the leads of `auto` under it."""
    found = {name: scores(split, SETS[name]) for name in names}
    labels = [label for label in NAMES if any(label in each for each in found.values())]
    head = [f"{split}, nats a symbol", *(SETS[name].title for name in names)]
    lines = [_row(head), _row(["---"] * len(head))]
    for label in labels:
        cells = [label]
        for name in names:
            each = found[name].get(label)
            if each is None:
                cells.append("")
                continue
            note = f" ({each.setting})" if each.setting else ""
            cells.append(f"{each.rate:.4f} ± {each.error:.4f}{note}")
        lines.append(_row(cells))
    lines += _leads(found, names)
    return "\n".join(lines)


def _leads(found: dict[str, dict[str, Score]], names: list[str]) -> list[str]:
    lines = []
    cells = []
    for name in names:
        peer = best_peer(found[name])
        cells.append("" if peer is None else f"{peer}, {found[name][peer].rate:.4f}")
    lines.append(_row(["best peer", *cells]))
    for label in METHODS:
        if not METHODS[label].is_auto or not any(label in found[name] for name in names):
            continue
        ahead, cells = [], []
        for name in names:
            peer = best_peer(found[name])
            if peer is None or label not in found[name]:
                cells.append("")
                continue
            gain, error = lead(found[name][label], found[name][peer])
            if not SETS[name].long_only:
                ahead.append(gain)
            cells.append(f"{gain:+.4f} ± {error:.4f}")
        mean = f"{np.mean(ahead):+.4f}" if ahead else ""
        lines.append(_row([f"{label}: ahead by (mean of sets {mean})", *cells]))
        cells = []
        for name in names:
            each = found[name].get(label)
            behind = None if each is None else member_distance(each)
            cells.append("" if behind is None else f"{behind[0]:.4f} (member {behind[1]})")
        lines.append(_row([f"{label}: behind its best member at 10,000", *cells]))
    return lines


def times_table(split: str, names: list[str]) -> str:
    """Return the processor time of a symbol in milliseconds; noisy on a busy machine."""
    head = [f"{split}, ms a symbol", *(SETS[name].title for name in names)]
    lines = [_row(head), _row(["---"] * len(head))]
    for label in NAMES:
        found = [score(SETS[name], split, label) for name in names]
        if any(found):
            cells = ["" if each is None else f"{each.milliseconds:.4f}" for each in found]
            lines.append(_row([label, *cells]))
    return "\n".join(lines)


def turns_table(split: str) -> str:
    """Return the regret at every visit of automata that take turns."""
    lines: list[str] = []
    for label in NAMES:
        found = None if label == PPMD else regret_by_visit(SETS["turns"], split, label)
        if found is None:
            continue
        if not lines:
            visits = ["first visit", *(f"return {i}" for i in range(1, found.shape[1]))]
            head = [f"{split}, regret in nats", *visits, "return 10 / return 1"]
            lines = [_row(head), _row(["---"] * len(head))]
        means = found.mean(axis=0)
        ratio = found[:, 10] / found[:, 1]
        cells = [f"{mean:.1f}" for mean in means]
        cells.append(f"{means[10] / means[1]:.2f} ± {_error(ratio):.2f}")
        lines.append(_row([label, *cells]))
    return "\n".join(lines)


def as_json(split: str, names: list[str]) -> dict[str, dict[str, dict[str, object]]]:
    """Return the scores in a form that JSON knows."""
    return {
        name: {
            label: {
                "nats": each.rate,
                "error": each.error,
                "setting": each.setting,
                "milliseconds": each.milliseconds,
                "parts": each.parts.tolist(),
            }
            for label, each in scores(split, SETS[name]).items()
        }
        for name in names
    }
