"""`mdvpf filter`: a stream, as it arrives, through filters."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated, Any

import typer

from mdvpf._support import validate
from mdvpf.cli import live, shared
from mdvpf.detect import SurpriseDetector
from mdvpf.filter import ParticleFilter
from mdvpf.predictor import Predictor, Vocabulary
from mdvpf.streams.methods import (
    AUTO,
    SETTINGS,
    found_settings,
    make_predictor,
    method_of,
    resolve_method,
)
from mdvpf.streams.monitor import Monitor

METHOD_OPTIONS = ("method", "algorithm")  # the second is the old name of the first


def filter_stream(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", dir_okay=False, help="The input; - is standard input."),
    ] = live.STDIN,
    symbols: Annotated[
        int | None, typer.Option(help="The symbols are the numbers from 0 to one less than this.")
    ] = None,
    vocabulary: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="The symbols are the lines of this file, each as often as you like.",
        ),
    ] = None,
    unknown: Annotated[
        str | None,
        typer.Option(help="With --vocabulary: one more symbol, for whatever is not in it."),
    ] = None,
    missing: Annotated[
        str | None, typer.Option(help="How a line says that its symbol is missing.")
    ] = None,
    method: shared.Method = None,
    algorithm: Annotated[str | None, typer.Option(hidden=True)] = None,  # as --method, formerly
    particles: shared.ParticlesInAll = None,
    alpha: shared.Alpha = None,
    gamma: shared.Gamma = None,
    beta: shared.Beta = None,
    oracle: shared.Oracle = None,
    max_states: shared.MaxStates = None,
    machine: shared.Machine = None,
    kappa: shared.Kappa = None,
    forget: shared.Forget = None,
    half_life: shared.HalfLife = None,
    discount: shared.Discount = None,
    normalizer: shared.Normalizer = None,
    carry_weights: shared.CarryWeights = None,
    selection: shared.Selection = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the filters that draw.")] = None,
    false_alarms: shared.FalseAlarms = None,
    smoothing: Annotated[
        float | None,
        typer.Option(help="Judge the mean surprise of about so many symbols. \\[default: 1]"),
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(dir_okay=False, help="Where to keep the filter.")
    ] = None,
    every: Annotated[int, typer.Option(help="Lines between two checkpoints.")] = 1000,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on from the checkpoint, if there is one already."),
    ] = False,
    skip_malformed: Annotated[
        bool,
        typer.Option("--skip-malformed", help="Report malformed lines and go on after them."),
    ] = False,
) -> int:
    """Filter a stream: one symbol a line in, one JSON object a line out, as they arrive.

    An empty line ends a sequence. Each object has the number of the line, the symbol, its log
    predictive, its surprise, whether that is an alarm, the mean number of states, and the three
    symbols that were likeliest in its place, as seen before it came.

    By default the symbols go through auto, the mixture of many filters, chains and trees for which
    nothing has to be chosen; it takes some milliseconds a symbol. --method names a single
    filter, which takes the hyper-parameters and the options of its algorithm, or a chain or a
    tree, which take --beta.

    SIGTERM and Ctrl-C end after the current symbol, with a checkpoint. --resume needs nothing
    else than what began the run: a FILE goes on after the last line that the checkpoint has seen,
    a pipe with the next line that comes. A run that was killed repeats what it wrote after its
    last checkpoint.

    For example:

    tail -f commands.log | mdvpf filter --vocabulary commands.txt --unknown OTHER

    mdvpf filter clicks.txt --symbols 17 --checkpoint clicks.mdvpf --resume

    mdvpf filter clicks.txt --symbols 17 --method MD-VPA --beta 0.03
    """
    with shared.usage():
        validate.integer("every", every, low=1)
        if file != live.STDIN and not file.exists():
            raise ValueError(f"{file}: there is no such file")
        if checkpoint is None and resume:
            raise ValueError("--resume: expected only with --checkpoint")
        given = shared.given(
            symbols=symbols,
            vocabulary=_read_vocabulary(vocabulary, unknown),
            **_read_method(method, algorithm),
            particles=particles,
            alpha=alpha,
            gamma=gamma,
            beta=beta,
            oracle=oracle,
            max_states=max_states,
            machine=machine,
            kappa=kappa,
            forget=forget,
            half_life=half_life,
            discount=discount,
            normalizer=normalizer,
            carry_weights=carry_weights,
            selection=selection,
            false_alarms=false_alarms,
            smoothing=smoothing,
            missing=missing,
        )
        if checkpoint is None or not checkpoint.exists():
            monitor = _new_monitor(given, seed)
        elif not resume:
            raise ValueError(f"{checkpoint}: checkpoint exists; pass --resume or another path")
        else:
            monitor = None
    if monitor is not None:
        if checkpoint is not None:
            monitor.save(checkpoint)  # if it cannot be written at all, better now than later
    else:
        assert checkpoint is not None
        monitor = Monitor.load(checkpoint)
        with shared.usage():
            _compare(monitor, given)
    return _follow(monitor, file, checkpoint, every, skip_malformed)


def _follow(
    monitor: Monitor, file: Path, checkpoint: Path | None, every: int, skip_malformed: bool
) -> int:
    stop = live.Stop()
    with live.opened(file, monitor.n_lines) as lines, stop.listening():
        try:
            for line in stop.lines(lines):
                _read(monitor, line, skip_malformed)
                if checkpoint is not None and monitor.n_lines % every == 0:
                    _keep(monitor, checkpoint)
        except BrokenPipeError:  # whoever read the output has seen enough
            live.abandon_output()
        finally:
            if checkpoint is not None:
                monitor.save(checkpoint)
    return shared.INTERRUPTED if stop.signal == signal.SIGINT else shared.DONE


def _read(monitor: Monitor, line: bytes, skip_malformed: bool) -> None:
    try:
        if live.is_too_long(line):
            raise ValueError(
                f"line {monitor.n_lines + 1}: expected at most {live.LONGEST_LINE} bytes"
            )
        report = monitor.read(line)
    except ValueError as error:
        if not skip_malformed:
            raise
        shared.complain(f"{error}; skipped")
        monitor.skip()
        return
    if report is not None:
        print(report.to_json(), flush=True)


def _keep(monitor: Monitor, checkpoint: Path) -> None:
    """Write a checkpoint on the way. A full disk is no reason to stop: there is a next time."""
    try:
        monitor.save(checkpoint)
    except OSError as error:
        shared.complain(
            f"line {monitor.n_lines}: no checkpoint was written, the last one stays: {error}"
        )


# --- What the options describe


def _read_vocabulary(path: Path | None, unknown: str | None) -> Vocabulary | None:
    if path is None:
        if unknown is not None:
            raise ValueError(f"unknown={unknown!r}: expected only with --vocabulary")
        return None
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")  # as those of the stream are
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: expected text in UTF-8 ({error.reason})") from error
    return Vocabulary.from_data((line.strip() for line in lines if line.strip()), unknown)


def _read_method(method: str | None, algorithm: str | None) -> dict[str, str]:
    """Return the name of the method, under that of the option which was used."""
    given = shared.given(method=method, algorithm=algorithm)
    if len(given) == 2:
        raise ValueError(f"algorithm={algorithm!r}: expected only --method, its new name")
    return {option: resolve_method(name, argument=option) for option, name in given.items()}


def _new_monitor(given: dict[str, Any], seed: int | None) -> Monitor:
    vocabulary = given.get("vocabulary")
    if (vocabulary is None) == ("symbols" not in given):
        raise ValueError("expected --symbols or --vocabulary, one of them")
    predictor = make_predictor(
        given.get("method") or given.get("algorithm") or AUTO,
        given["symbols"] if vocabulary is None else vocabulary.n_symbols,
        given.get("particles"),
        seed,
        **{name: given[name] for name in SETTINGS if name in given},
    )
    predictor.vocabulary = vocabulary
    settings = {name: given[name] for name in ("false_alarms", "smoothing") if name in given}
    return Monitor(SurpriseDetector(predictor, **settings), missing=given.get("missing"))


def _compare(monitor: Monitor, given: dict[str, Any]) -> None:
    """Raise if an option contradicts the checkpoint: a filter cannot change on the way."""
    predictor = monitor.predictor
    found: dict[str, Any] = {
        "vocabulary": predictor.vocabulary,
        "symbols": predictor.n_symbols,
        "missing": monitor.missing,
        **monitor.detector.settings,
        **dict.fromkeys(METHOD_OPTIONS, method_of(predictor)),
        **found_settings(predictor),
    }
    for name, value in given.items():
        if found.get(name) != value:
            shown = _shown_method(predictor) if name in METHOD_OPTIONS else repr(found.get(name))
            raise ValueError(
                f"{name}={value!r}: the checkpoint has {shown}; expected the same, or none"
            )


def _shown_method(predictor: Predictor) -> str:
    if isinstance(predictor, ParticleFilter):
        return repr(predictor.algorithm)
    return repr(method_of(predictor))
