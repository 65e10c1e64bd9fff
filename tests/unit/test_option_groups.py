"""Groups of options: a command has the options in place of a parameter, which gets a dict."""

from __future__ import annotations

import inspect
from typing import Annotated

import typer

from mdvpf.cli.option_groups import EXPANDED, Given, Option, with_options

GROUP = {
    "alpha": Option(Annotated[float | None, typer.Option(help="A number.")]),
    "sort": Option(Annotated[bool, typer.Option("--sort")], default=False),
}


@with_options(settings=GROUP)
def command(file: str, settings: Given = EXPANDED, seed: int | None = None) -> int:
    """Print what is given."""
    print(file, dict(settings), seed)
    return 0


def test_the_options_stand_where_the_parameter_stood() -> None:
    parameters = inspect.signature(command).parameters
    assert list(parameters) == ["file", "alpha", "sort", "seed"]
    assert parameters["sort"].default is False and parameters["alpha"].default is None
    assert command.__doc__ == "Print what is given."


def test_a_command_gets_all_options_of_a_group(capsys) -> None:
    app = typer.Typer()
    app.command()(command)
    app(["x", "--alpha", "0.5", "--seed", "3"], standalone_mode=False)
    app(["x", "--sort"], standalone_mode=False)
    assert capsys.readouterr().out.splitlines() == [
        "x {'alpha': 0.5, 'sort': False} 3",
        "x {'alpha': None, 'sort': True} None",
    ]
