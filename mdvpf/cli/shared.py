"""Options, exit codes and output that several commands share."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from mdvpf.cli.option_groups import Option
from mdvpf.model import MACHINES, ORACLES
from mdvpf.model.algorithms import NAMED_DISCOUNTS, NORMALIZERS, SELECTIONS
from mdvpf.streams import rates
from mdvpf.streams.methods import AUTO, METHODS

DONE, FAILED, WRONG_USAGE, SOME_RUNS_FAILED, INTERRUPTED = 0, 1, 2, 3, 130  # exit codes
WIDTH_OF_FILES = 180  # characters a line if the output is not a terminal


def _choices(names: Sequence[str]) -> str:
    """Return the values of an option for its help; the first is the default."""
    return f"{', '.join(names)}. \\[default: {names[0]}]"


File = Annotated[
    Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="The file, in UTF-8.")
]
# The predictor. `mdvpf.streams.methods` defines which method accepts which of these settings.
Method = Annotated[
    str | None,
    typer.Option(
        "--method", help=f"The predictor, one of: {', '.join(METHODS)}. \\[default: {AUTO}]"
    ),
]
ParticlesInAll = Annotated[
    int | None,
    typer.Option(
        "--particles",
        "-K",
        help="Number of particles. auto divides them among its filters and needs 4 or more. "
        "\\[default: 440 for auto, 1,000 for a single filter]",
    ),
]
Alpha = Annotated[
    float | None,
    typer.Option(
        help="Weight of the oracle in a transition: the next state repeats a transition seen from "
        "the current state, or the oracle proposes it. \\[default: 1]"
    ),
]
Gamma = Annotated[
    float | None, typer.Option(help="Weight of a new state in the oracle. \\[default: 1]")
]
Beta = Annotated[
    float | None,
    typer.Option(
        help="Pseudocount of each symbol in the emissions. \\[default: filters 1 / number of "
        "symbols, chains 0.3, trees 0.5]"
    ),
]
Oracle = Annotated[
    str | None,
    typer.Option(
        help="States that the oracle proposes: unvisited (those never reached from the current "
        "state), any, or rows (any, weighted by the number of states that have led there). "
        f"\\[default: {ORACLES[0]}]"
    ),
]
MaxStates = Annotated[
    int | None, typer.Option(help="Largest number of states of a particle. \\[default: no limit]")
]
Machine = Annotated[
    str | None,
    typer.Option(
        help="What the next state depends on: the state (moore), or the state and its symbol "
        f"(mealy). \\[default: {MACHINES[0]}]"
    ),
]
Kappa = Annotated[
    float | None, typer.Option(help="Weight of staying in the same state. \\[default: 0]")
]
Forget = Annotated[
    float | None,
    typer.Option(
        help="Decay of counts as a power: at step n, step i counts (i / n)**FORGET. \\[default: 0]"
    ),
]
HalfLife = Annotated[
    float | None,
    typer.Option(
        help="Counts decay by half in this many symbols. Not with --forget. \\[default: no decay]"
    ),
]
Discount = Annotated[
    str | None,
    typer.Option(
        help="MD-VPA: weight of the look-ahead in step n: "
        f"{', '.join(NAMED_DISCOUNTS)}, or a number. \\[default: {NAMED_DISCOUNTS[0]}]"
    ),
]
Normalizer = Annotated[
    str | None,
    typer.Option(help=f"MD-VPA: normalizer of the look-ahead: {_choices(NORMALIZERS)}"),
]
CarryWeights = Annotated[
    bool | None,
    typer.Option(
        "--carry-weights/--no-carry-weights",
        help="MD-VPA, VPA: include the weight of the parent in scores. \\[default: include it]",
    ),
]
Selection = Annotated[
    str | None, typer.Option(help=f"MD-VPA: how survivors are chosen: {_choices(SELECTIONS)}")
]
# Settings of the predictor, by the names of `mdvpf.streams.methods.make_predictor`.
SETTINGS: Mapping[str, Option] = {
    "alpha": Option(Alpha),
    "gamma": Option(Gamma),
    "beta": Option(Beta),
    "oracle": Option(Oracle),
    "max_states": Option(MaxStates),
    "machine": Option(Machine),
    "kappa": Option(Kappa),
    "forget": Option(Forget),
    "half_life": Option(HalfLife),
    "discount": Option(Discount),
    "normalizer": Option(Normalizer),
    "carry_weights": Option(CarryWeights),
    "selection": Option(Selection),
}
FalseAlarms = Annotated[
    float | None,
    typer.Option(
        help="Raise alarms at this false-alarm rate, instead of incidents at a target rate."
    ),
]
FalseIncidents = Annotated[
    str | None,
    typer.Option(
        help="Target number of false incidents per 10,000 symbols, or per day of the events' "
        "times, as in 2/day. \\[default: 1]"
    ),
]
Cooldown = Annotated[
    int | None,
    typer.Option(
        help="Alarms at most this many symbols apart form one incident. \\[default: 8 blocks]"
    ),
]
Seed = Annotated[int | None, typer.Option(help="Seed of all random numbers.")]


def given(**options: Any) -> dict[str, Any]:
    """Return the options that are not None; a numeric discount becomes a float."""
    found = {name: value for name, value in options.items() if value is not None}
    if "discount" in found:
        found["discount"] = _read_discount(found["discount"])
    return found


def read_rate(text: str | None) -> dict[str, Any]:
    """Parse --false-incidents into settings of a detector; without it there are none."""
    return {} if text is None else rates.read_rate(text)


def alarm_settings(options: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a detector's alarms, or raise if they conflict.

    The default is incidents at a target rate; --false-alarms and --smoothing select a fixed share
    of alarms.
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
            f"{name}={value!r}: expected not together with --{option(next(iter(share)))}"
        )
    if share:
        return share
    rate.setdefault("false_incidents", 1.0)
    return rate


def require_times(alarms: Mapping[str, Any]) -> None:
    """Raise if the settings of a detector count false incidents per day; used without times."""
    if alarms.get("per") == "day":
        rate = f"{alarms['false_incidents']:g}/day"
        raise ValueError(f"false_incidents={rate!r}: expected --time, for the days")


def option(name: str) -> str:
    """Return the option of an argument, without its dashes."""
    return name.replace("_", "-")


def _read_discount(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        name = "".join(text.split()).lower()
    if name not in NAMED_DISCOUNTS:
        raise ValueError(
            f"discount={text!r}: expected {', '.join(NAMED_DISCOUNTS)}, or a non-negative number"
        )
    return name


def complain(message: str) -> None:
    """Print a message to standard error."""
    if sys.stderr is None:
        return
    with suppress(OSError):  # the terminal may be closed
        print(f"mdvpf: {message}", file=sys.stderr, flush=True)


@contextmanager
def usage() -> Iterator[None]:
    """Turn errors of option values into usage errors."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise typer.BadParameter(str(error)) from error


def console() -> Console:
    """Return a console as wide as the terminal, or `WIDTH_OF_FILES` if there is none."""
    found = Console()
    return found if found.is_terminal else Console(width=WIDTH_OF_FILES)
