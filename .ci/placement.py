"""Can the functions be found by the names of the files? Twelve of them, drawn with a fixed seed.

Prints the tree of the package and twelve functions whose names have no leading underscore, each of
another file, with the first line of its docstring.
Give that to somebody who has not seen the code, and ask for the file of each; `--answers` prints
where they are. At least ten should be right: what is not found is in the wrong place, or has the
wrong name. Usage: placement.py [--seed N] [--answers]
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
    """Yield signature and first line of the docstring of the functions and methods of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    owners = [("", tree), *((f"{n.name}.", n) for n in tree.body if isinstance(n, ast.ClassDef))]
    for prefix, owner in owners:
        for node in owner.body:
            text = ast.get_docstring(node) if isinstance(node, ast.FunctionDef) else None
            if text and not node.name.startswith("_"):
                arguments = ", ".join(argument.arg for argument in node.args.args)
                yield f"{prefix}{node.name}({arguments})", text.splitlines()[0]


def functions() -> dict[str, list[tuple[str, str]]]:
    """Return signature and first line of every documented function, by file."""
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
    """Print the tree and the questions, or the answers."""
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
