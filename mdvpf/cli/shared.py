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
    typer.Option(
        help="A fixed share of alarms among judgements, instead of incidents at a wanted rate."
    ),
]
FalseIncidents = Annotated[
    str | None,
    typer.Option(
        help="The wanted number of false incidents per 10,000 symbols, or per day as in 2/day of "
        "the events' times. \\[default: 1]"
    ),
]
Cooldown = Annotated[
    int | None,
    typer.Option(
        help="Alarms at most so many symbols apart are one incident. \\[default: 8 blocks]"
    ),
]
Seed = Annotated[int | None, typer.Option(help="The seed that all others come from.")]


def given(**options: Any) -> dict[str, Any]:
    """Return the options that were given; a discount is a number if it looks like one."""
    found = {name: value for name, value in options.items() if value is not None}
    if "discount" in found:
        found["discount"] = _read_discount(found["discount"])
    return found


def read_rate(text: str | None) -> dict[str, Any]:
    """Return the settings of a detector that --false-incidents stands for, or raise."""
    if text is None:
        return {}
    number, slash, unit = text.partition("/")
    wrong = ValueError(
        f"false_incidents={text!r}: expected a number per 10,000 symbols, or one per day such as "
        "2/day"
    )
    if slash and unit.strip() != "day":
        raise wrong
    try:
        return {"false_incidents": float(number), "per": "day" if slash else "symbols"}
    except ValueError:
        raise wrong from None


def alarm_settings(options: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a detector that say when it raises alarms, or raise.

    Incidents at a wanted rate are the default; --false-alarms and --smoothing ask for a share.
    """
    rate: dict[str, Any] = {
        name: options[name] for name in ("false_incidents", "per", "cooldown") if name in options
    }
    share: dict[str, Any] = {
        name: options[name] for name in ("false_alarms", "smoothing") if name in options
    }
    if share and rate:
        name, value = next(iter(rate.items()))
        raise ValueError(
            f"{name}={value!r}: expected not together with --{_option(next(iter(share)))}"
        )
    if share:
        return share
    rate.setdefault("false_incidents", 1.0)
    return rate


def _option(name: str) -> str:
    return name.replace("_", "-")


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
