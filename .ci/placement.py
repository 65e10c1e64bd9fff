"""A quiz on whether the names of files tell where functions are.

Prints the files of the package and twelve functions without a leading underscore, from different
files, with the first line of their docstrings. They are drawn with a fixed seed. Ask somebody who
has not seen the code for the file of each function; `--answers` prints the solution. At least ten
answers should be right: a function that is not found is in the wrong file or has the wrong name.
Usage: placement.py [--seed N] [--answers]
"""

from __future__ import annotations

import argparse
import ast
import random
import re
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "mdvpf"
SEED = 20
N = 12

CYTHON = re.compile(
    r'^cdef [^\n=]*?\b(\w+)(\((?:[^()]|\([^()]*\))*\))[^\n]*:\n\s+"""(.*?)(?:"""|\n)',
    re.MULTILINE,
)
ARGUMENT = re.compile(r"(\w+)(?=\s*[,)])")


def python_functions(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the signature and the first docstring line of each public function of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    owners = [("", tree), *((f"{n.name}.", n) for n in tree.body if isinstance(n, ast.ClassDef))]
    for prefix, owner in owners:
        for node in owner.body:
            text = ast.get_docstring(node) if isinstance(node, ast.FunctionDef) else None
            if text and not node.name.startswith("_"):
                arguments = ", ".join(argument.arg for argument in node.args.args)
                yield f"{prefix}{node.name}({arguments})", text.splitlines()[0]


def functions() -> dict[str, list[tuple[str, str]]]:
    """Return the signature and the first docstring line of every public function, by file."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        found[path.relative_to(PACKAGE).as_posix()] = list(python_functions(path))
    for path in sorted(PACKAGE.rglob("*.pxd")):
        matches = CYTHON.findall(path.read_text(encoding="utf-8"))
        found[path.relative_to(PACKAGE).as_posix()] = [
            (f"{name}({', '.join(ARGUMENT.findall(arguments))})", text)
            for name, arguments, text in matches
        ]
    return found


def main() -> None:
    """Print the files and the questions, or the answers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--answers", action="store_true")
    options = parser.parse_args()
    by_file = functions()
    rng = random.Random(options.seed)
    files = rng.sample([file for file, found in by_file.items() if found], N)
    drawn = [(*rng.choice(by_file[file]), file) for file in files]
    if not options.answers:
        print("The files:", *by_file, sep="\n  ")
        print("\nIn which file is each of these?")
    for i, (name, text, file) in enumerate(drawn, 1):
        kind = "Python" if file.endswith(".py") else "core"
        print(f"{i:2}. [{kind}] {name}: {file if options.answers else text}")


if __name__ == "__main__":
    main()
