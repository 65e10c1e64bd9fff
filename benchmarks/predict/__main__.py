"""Compare predictors of the next symbol.

    python -m benchmarks.predict                          # everything, reporting split
    python -m benchmarks.predict sets --split choosing --methods "auto, default" PitmanYorTree
    python -m benchmarks.predict turns                    # automata that take turns, with regret
    python -m benchmarks.predict time                     # in units of VPA with K = 1,000
    python -m benchmarks.predict memory --symbols 100000
    python -m benchmarks.predict pautomac --problems 24 39
    python -m benchmarks.predict show                     # tables of what was run before

What was run is kept in benchmarks/results/predict and not run again; `--fresh` runs it anew. Needs
MDVPF_DATA.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

from benchmarks.figures import table
from benchmarks.predict import costs, gaps, report
from benchmarks.predict.methods import METHODS, NAMES, PPMD
from benchmarks.predict.runs import FOLDER, carry_out
from benchmarks.predict.sets import SETS, SPLITS
from benchmarks.predict.targets import targets

PARTS = ("sets", "turns", "time", "memory", "pautomac", "show")


def run_sets(names: list[str], split: str, methods: list[str], fresh: bool) -> None:
    """Run methods on sets, the quick ones first; what is missing is named."""
    for label in methods:
        for name in names:
            start = time.perf_counter()
            found = carry_out(SETS[name], split, label, fresh=fresh)
            if found is None:
                why = "pyppmd is missing, or a symbol needs more than a byte"
                print(f"{label} on {name}: none, {why}", file=sys.stderr)
            seconds = time.perf_counter() - start
            if seconds > 1.0:
                print(f"{label} on {name}, {split}: {seconds:.0f} s", file=sys.stderr, flush=True)


def show(names: list[str], split: str) -> None:
    """Print the tables and keep them as JSON."""
    print(report.sets_table(split, names), end="\n\n")
    print(report.times_table(split, names), end="\n\n")
    if "turns" in names:
        print(report.turns_table(split), end="\n\n")
    FOLDER.mkdir(parents=True, exist_ok=True)
    text = json.dumps(report.as_json(split, list(SETS)), indent=1)
    (FOLDER / f"{split}.json").write_text(text, encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Run the parts that are named."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.predict",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("part", nargs="?", choices=[*PARTS, "all"], default="all")
    parser.add_argument("--split", choices=SPLITS, default="reporting")
    parser.add_argument("--methods", nargs="+", metavar="METHOD", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--problems", nargs="+", type=int, help="of PAutomaC")
    parser.add_argument("--symbols", type=int, default=1_000_000, help="of the memory run")
    parser.add_argument("--fresh", action="store_true", help="run again what was kept")
    options = parser.parse_args(arguments)
    methods = options.methods or list(NAMES)
    unknown = [label for label in methods if label not in NAMES]
    if unknown:
        parser.error(f"--methods {', '.join(unknown)}: expected some of {', '.join(NAMES)}")
    part = options.part
    names = ["turns"] if part == "turns" else options.sets
    if part in ("sets", "turns", "all"):
        run_sets(names, options.split, methods, options.fresh)
    if part in ("sets", "turns", "show", "all"):
        show(names, options.split)
    predictors = [label for label in methods if label != PPMD]
    autos = [label for label in predictors if METHODS[label].is_auto]
    if part in ("time", "all"):
        print(costs.times(predictors), end="\n\n")
    if part in ("memory", "all"):
        print(costs.memory(options.methods or autos, options.symbols), end="\n\n")
    if part in ("pautomac", "all"):
        print(gaps.table(options.methods or autos, options.problems, fresh=options.fresh))
    if part in ("show", "all"):
        print(table(targets(options.split)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
