"""`main`, the entry point of `mdvpf`: it reports missing packages before it imports the rest."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from mdvpf.cli.standard_streams import open_closed_streams

WRONG_USAGE = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit code.

    Examples
    --------
    >>> from mdvpf.cli import main
    >>> main(["--version"])  # doctest: +ELLIPSIS
    mdvpf 0...
    0
    """
    if arguments is None:
        open_closed_streams()
    try:
        from mdvpf.cli.app import run
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("typer", "rich"):
            raise
        print(
            "mdvpf: the commands need the packages typer and rich: install them, or mdvpf[cli]",
            file=sys.stderr,
        )
        return WRONG_USAGE
    return run(sys.argv[1:] if arguments is None else list(arguments))
