"""The gate: compare the instructions of a step, counted by callgrind, with committed figures.

Unlike times, the number of instructions does not depend on the load of the machine. It depends on
the compiler: ``gate.json`` has figures for each compiler version, and the gate is skipped if it has
none for the current one. A count more than 5 % above the figure fails; one more than 5 % below asks
for a new figure (``make bench-gate UPDATE=1``).

Only the compiled step is counted (``--toggle-collect``), without Python and the set-up. Each
algorithm runs in one call of the core, after which callgrind writes its counts (``--dump-after``),
so one process measures all algorithms.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.figures import compiler
from benchmarks.gate_workload import ALGORITHMS
from mdvpf import _core

FIGURES = Path(__file__).with_name("gate.json")
WORKLOAD = "benchmarks.gate_workload"
ROOT = Path(__file__).resolve().parents[1]
NAMES = list(ALGORITHMS)
ALLOWED = 0.05


def compiled_names() -> list[str]:
    """Return the names of the functions of the compiled core."""
    listing = subprocess.run(["nm", _core.__file__], capture_output=True, text=True, check=True)
    return re.findall(r" [tT] (\S+)$", listing.stdout, re.MULTILINE)


def find_symbol(method: str) -> str:
    """Return the linker symbol of a method of the core's class."""
    pattern = rf"__pyx_pw_\w*ParticleSystem_\d+{method}"
    found = [name for name in compiled_names() if re.fullmatch(pattern, name)]
    if len(found) != 1:
        raise RuntimeError(f"{_core.__file__}: expected one symbol of `{method}`, found {found}")
    return found[0]


def symbols() -> tuple[str, str]:
    """Return the linker symbols of the step function and of the core's call for a chunk.

    They are the same if the compiler has inlined the step.
    """
    pattern = r"__pyx_f_\d+mdvpf_\d+_kernel_\d+step_step"
    step = [name for name in compiled_names() if re.fullmatch(pattern, name)]
    chunk = find_symbol("advance")
    return (step or [chunk])[0], chunk


def callgrind(folder: Path, names: list[str], *options: str) -> None:
    """Run algorithms of the workload under callgrind, which writes ``out`` to the folder."""
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", *options]
    command += [sys.executable, "-m", WORKLOAD, *names]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode:
        raise RuntimeError(f"the workload failed under callgrind:\n{done.stderr}")


def count(folder: Path) -> dict[str, int]:
    """Return the instructions of each algorithm."""
    step, chunk = symbols()
    callgrind(folder, NAMES, f"--toggle-collect={step}", f"--dump-after={chunk}")
    counts = {}
    for i, name in enumerate(NAMES, start=1):
        found = re.search(r"^totals: (\d+)$", (folder / f"out.{i}").read_text(), re.MULTILINE)
        if found is None or not int(found[1]):
            raise RuntimeError(f"callgrind counted no instructions of {name}")
        counts[name] = int(found[1])
    if (folder / f"out.{len(NAMES) + 1}").exists():
        raise RuntimeError("an algorithm took more than one call of the core")
    return counts


def compare(counts: dict[str, int], figures: dict[str, int]) -> tuple[list[str], bool]:
    """Return a line for each algorithm, and whether all are within the allowed change."""
    lines, passed = [], True
    for name, counted in counts.items():
        if name not in figures:
            lines.append(f"{name:<20}{counted:>14,}  no figure: run make bench-gate UPDATE=1")
            passed = False
            continue
        change = counted / figures[name] - 1
        verdict = "ok"
        if counted > (1 + ALLOWED) * figures[name]:
            verdict, passed = f"FAILED: more than {ALLOWED:.0%} above", False
        elif counted < (1 - ALLOWED) * figures[name]:
            verdict = "better: run make bench-gate UPDATE=1"
        lines.append(f"{name:<20}{counted:>14,}{figures[name]:>14,}{change:>+9.2%}  {verdict}")
    return lines, passed


def profile(folder: Path, name: str) -> str:
    """Return the functions of an algorithm by their share of the instructions.

    Each algorithm needs a separate run, because callgrind_annotate does not read several dumps.
    """
    callgrind(folder, [name], f"--toggle-collect={symbols()[0]}")
    annotated = subprocess.run(
        ["callgrind_annotate", "--auto=no", "--threshold=99", f"{folder}/out"],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = re.findall(r"^ *[\d,]+ +\(([ \d.]+)%\) +\S*?:(\S+)", annotated.stdout, re.MULTILINE)
    return "\n".join(
        f"{float(share):6.1f} %  {re.sub('__pyx_[a-z]+_5mdvpf_(7_kernel_)?[0-9]+', '', function)}"
        for share, function in lines
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gate", description="the gate")
    parser.add_argument("--update", action="store_true", help="write new figures")
    parser.add_argument("--profile", action="store_true", help="print functions by instructions")
    options = parser.parse_args(arguments)
    if shutil.which("valgrind") is None or shutil.which("nm") is None:
        print("gate skipped: valgrind or nm is not installed")
        return 0
    known = json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.exists() else {}
    if compiler() not in known and not (options.update or options.profile):
        print(f"gate skipped: gate.json has no figure for {compiler()}")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        if options.profile:
            for name in NAMES:
                print(f"\n{name}\n{profile(Path(folder), name)}")
            return 0
        counts = count(Path(folder))
    if options.update:
        known[compiler()] = counts
        FIGURES.write_text(json.dumps(known, indent=2) + "\n", encoding="utf-8")
        print(f"gate.json: {counts} for {compiler()}")
        return 0
    lines, passed = compare(counts, known[compiler()])
    print(f"instructions of the step, against the figures for {compiler()}")
    print("\n".join(lines))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
