"""What the commands share: options, exit codes, and the console."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from mdvpf.model import MACHINES, ORACLES
from mdvpf.model.algorithms import NAMED_DISCOUNTS, NORMALIZERS, SELECTIONS
from mdvpf.streams.methods import AUTO, METHODS

DONE, FAILED, WRONG_USAGE, SOME_RUNS_FAILED, INTERRUPTED = 0, 1, 2, 3, 130  # exit codes
WIDTH_OF_FILES = 180  # characters, where the output is not a terminal


def _choices(names: Sequence[str]) -> str:
    """Return the values of an option for its help; the first is the default."""
    return f"{', '.join(names)}. \\[default: {names[0]}]"


File = Annotated[
    Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="The file, in UTF-8.")
]
# What predicts. `mdvpf.streams.methods` says which method has which of the settings.
Method = Annotated[
    str | None,
    typer.Option(
        "--method", help=f"What predicts, one of: {', '.join(METHODS)}. \\[default: {AUTO}]"
    ),
]
ParticlesInAll = Annotated[
    int | None,
    typer.Option(
        "--particles",
        "-K",
        help="Number of particles: of auto in all its filters together, 84 or more, by default "
        "8,400; of a single filter 1,000.",
    ),
]
Alpha = Annotated[float | None, typer.Option(help="Weight of the oracle in a transition.")]
Gamma = Annotated[float | None, typer.Option(help="Weight of a new state in the oracle.")]
Beta = Annotated[
    float | None,
    typer.Option(
        help="Weight of each symbol in an emission. \\[default: of filters 1 / number of symbols; "
        "of chains 0.3, of trees 0.5]"
    ),
]
Oracle = Annotated[
    str | None,
    typer.Option(
        help=f"States that the oracle offers, rows by how many states lead there: "
        f"{_choices(ORACLES)}"
    ),
]
MaxStates = Annotated[
    int | None, typer.Option(help="The most states of a particle. \\[default: no limit]")
]
Machine = Annotated[
    str | None,
    typer.Option(
        help="What the next state depends on: the state (moore), or its symbol too (mealy): "
        f"{_choices(MACHINES)}"
    ),
]
Kappa = Annotated[
    float | None, typer.Option(help="Weight of staying in the same state. \\[default: 0]")
]
Forget = Annotated[
    float | None,
    typer.Option(
        help="Counts fade by this power of the time: at step n, step i counts (i / n)**FORGET. "
        "\\[default: 0]"
    ),
]
HalfLife = Annotated[
    float | None,
    typer.Option(
        help="Counts fade to half of them in so many symbols; not together with --forget. "
        "\\[default: never]"
    ),
]
Discount = Annotated[
    str | None,
    typer.Option(
        help="MD-VPA: weight of the look-ahead in step n: "
        f"{', '.join(NAMED_DISCOUNTS)} or a number. \\[default: {NAMED_DISCOUNTS[0]}]"
    ),
]
Normalizer = Annotated[
    str | None,
    typer.Option(help=f"MD-VPA: what the look-ahead is compared with: {_choices(NORMALIZERS)}"),
]
CarryWeights = Annotated[
    bool | None,
    typer.Option(
        "--carry-weights/--no-carry-weights",
        help="MD-VPA, VPA: scores include the weight of the parent. \\[default: they do]",
    ),
]
Selection = Annotated[
    str | None, typer.Option(help=f"MD-VPA: how survivors are chosen: {_choices(SELECTIONS)}")
]
FalseAlarms = Annotated[
    float | None,
    typer.Option(help="The wanted share of alarms among judgements. \\[default: 0.01]"),
]
Seed = Annotated[int | None, typer.Option(help="The seed that all others come from.")]


def given(**options: Any) -> dict[str, Any]:
    """Return the options that were given; a discount is a number if it looks like one."""
    found = {name: value for name, value in options.items() if value is not None}
    if "discount" in found:
        found["discount"] = _read_discount(found["discount"])
    return found


def _read_discount(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        name = "".join(text.split()).lower()
    if name not in NAMED_DISCOUNTS:
        raise ValueError(
            f"discount={text!r}: expected {', '.join(NAMED_DISCOUNTS)}, or a number that is not "
            "negative"
        )
    return name


def complain(message: str) -> None:
    """Print a line for whoever runs the command, beside its output."""
    if sys.stderr is None:
        return
    with suppress(OSError):  # a terminal that is gone: there is nobody to tell
        print(f"mdvpf: {message}", file=sys.stderr, flush=True)


@contextmanager
def usage() -> Iterator[None]:
    """Turn what is wrong with a value of an option into an error of the command line."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise typer.BadParameter(str(error)) from error


def console() -> Console:
    """Return the console: as wide as the terminal, or wide enough for tables in a file."""
    found = Console()
    return found if found.is_terminal else Console(width=WIDTH_OF_FILES)
