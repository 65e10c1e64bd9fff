"""What `auto` is to reach, and what was measured last."""

from __future__ import annotations

import math

import numpy as np

from benchmarks.figures import Figure
from benchmarks.predict import costs, gaps
from benchmarks.predict.report import (
    AUTO,
    Score,
    best_peer,
    lead,
    member_distance,
    regret_by_visit,
    scores,
)
from benchmarks.predict.sets import SETS
from mdvpf.experiments.pautomac import PROBLEMS, geometric_mean

FAST = "auto, fast"


def targets(split: str) -> list[Figure]:
    """Return the figures with their targets, those of which everything was run."""
    found = {name: scores(split, data) for name, data in SETS.items()}
    done = {name: each for name, each in found.items() if AUTO in each}
    return [*_leads(done), *_members(done), *_texts(done), *_turns(split), *_costs(done)]


def _leads(found: dict[str, dict[str, Score]]) -> list[Figure]:
    gains = {}
    for name, each in found.items():
        peer = best_peer(each)
        if peer is not None and not SETS[name].long_only:
            gains[name] = lead(each[AUTO], each[peer])[0]
    if not gains:
        return []
    least = min(gains, key=lambda name: gains[name])
    return [
        Figure("ahead of the best peer, least of sets", gains[least], "nats", at_least=0.0,
               note=least),
        Figure("ahead of the best peer, mean of sets", float(np.mean(list(gains.values()))),
               "nats", at_least=0.03, note=f"{len(gains)} sets"),
    ]  # fmt: skip


def _members(found: dict[str, dict[str, Score]]) -> list[Figure]:
    behind = {}
    for name, each in found.items():
        distance = member_distance(each[AUTO])
        if distance is not None:
            behind[name] = distance[0]
    if not behind:
        return []
    worst = max(behind, key=lambda name: behind[name])
    what = "behind its best member at 10,000 symbols, most of sets"
    return [Figure(what, behind[worst], "nats", at_most=0.01, note=worst)]


def _texts(found: dict[str, dict[str, Score]]) -> list[Figure]:
    figures = []
    if "books" in found:
        nats = -found["books"][AUTO].rate
        figures.append(Figure("book windows, nats a character", nats, "", at_most=2.28))
    if "book" in found:
        each = found["book"]
        for peer in ("PPMd", "PitmanYorTree"):
            if peer in each:
                ratio = each[AUTO].rate / each[peer].rate
                note = ", ".join(f"{label}: {_bits(each[label]):,.0f}" for label in (AUTO, peer))
                what = f"100,000 characters, bits against {peer}"
                figures.append(Figure(what, ratio, at_most=1.0, note=note))
    return figures


def _bits(score: Score) -> float:
    return -sum(math.fsum(run.log_predictive) for run in score.runs) / math.log(2.0)


def _turns(split: str) -> list[Figure]:
    regret = regret_by_visit(SETS["turns"], split, AUTO)
    if regret is None:
        return []
    means = regret.mean(axis=0)
    what = "automata in turns, regret at return 10 against return 1"
    return [Figure(what, float(means[10] / means[1]), at_most=0.5)]


def _costs(found: dict[str, dict[str, Score]]) -> list[Figure]:
    figures = []
    times = costs.kept("time")
    for label, most in ((AUTO, 4.0), (FAST, 0.5)):
        if label in times:
            what = f"time of {label}, units of {costs.UNIT}"
            figures.append(Figure(what, times[label], at_most=most))
    behind = {
        name: each[AUTO].rate - each[FAST].rate
        for name, each in found.items()
        if FAST in each and not SETS[name].long_only
    }
    if behind:
        worst = max(behind, key=lambda name: behind[name])
        what = "fast behind default, most of sets"
        figures.append(Figure(what, behind[worst], "nats", at_most=0.05, note=worst))
    for row in costs.kept("memory").get(AUTO, [])[-1:]:
        after = f"after {row['symbols']:,} symbols"
        for name in ("resident", "allocated", "checkpoint"):
            figures.append(Figure(f"memory {after}, {name}", row[name] / 1e6, "MB", at_most=200.0))
    kept = gaps.kept(AUTO)
    if all(str(number) in kept for number in PROBLEMS):
        gap = geometric_mean([kept[str(number)][0] for number in PROBLEMS])
        figures.append(Figure("PAutomaC, gap on 12 problems", gap, "", at_most=0.12))
    return figures
