"""The application: its commands. Errors become messages and exit codes here and nowhere else."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from mdvpf.cli import shared, standard_streams
from mdvpf.cli.batch import batch
from mdvpf.cli.coding import compress, decompress
from mdvpf.cli.compare import compare
from mdvpf.cli.detect import detect
from mdvpf.cli.evaluate import evaluate
from mdvpf.cli.filter import filter_stream
from mdvpf.cli.inspect import inspect
from mdvpf.cli.reproduce import reproduce
from mdvpf.cli.serve import serve
from mdvpf.cli.verify import verify

# The base class of usage errors, which typer does not export.
_USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]

app = typer.Typer(
    name="mdvpf",
    add_completion=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("filter")(filter_stream)
app.command()(detect)
app.command()(evaluate)
app.command()(compare)
app.command()(inspect)
app.command()(verify)
app.command()(batch)
app.command()(serve)
app.command()(compress)
app.command()(decompress)
app.command()(reproduce)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"mdvpf {version('mdvpf')}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def top(
    context: typer.Context,
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version and exit.", callback=_show_version, is_eager=True
        ),
    ] = False,
    debug: Annotated[
        bool,
        typer.Option(
            "--debug", help="Show the traceback of an error. Also accepted after a command."
        ),
    ] = False,
) -> None:
    """Predict the next event of a stream, and find what is strange in it.

    mdvpf COMMAND --help shows the options of a command, with examples.

    Exit codes: 0 success, 1 error, 2 wrong usage, 3 some runs failed, 130 interrupted.
    """
    if context.invoked_subcommand is None:
        print(context.get_help())


def run(arguments: list[str]) -> int:
    """Run the application; return its exit code."""
    code = _run(arguments)
    error = standard_streams.flush_output()
    if error is None or code:  # an error was already reported
        return code
    if not isinstance(error, BrokenPipeError):  # a reader such as `head` may close the pipe
        shared.complain(f"standard output: {error}")
    return shared.FAILED


def _run(arguments: list[str]) -> int:
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    try:
        code = app(args=arguments, prog_name="mdvpf", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        code = shared.INTERRUPTED
    except _USAGE_ERROR as error:
        shared.complain(_one_line(error.format_message()))  # type: ignore[attr-defined]
        return shared.WRONG_USAGE
    except Exception as error:
        if debug:
            raise
        shared.complain(_one_line(str(error) or type(error).__name__))
        return shared.FAILED
    if code == shared.INTERRUPTED:  # typer returns this code after Ctrl-C, too
        shared.complain("interrupted" + _resume_hint(arguments))
    return code or shared.DONE


def _resume_hint(arguments: list[str]) -> str:
    can_resume = arguments[:1] in (["reproduce"], ["compare"])
    can_resume |= any(argument.startswith("--checkpoint") for argument in arguments)
    return "; pass --resume to continue" if can_resume else ""


def _one_line(message: str) -> str:
    return " ".join(message.split())
