"""`mdvpf filter`: predict the symbols of a live stream and raise alarms."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from mdvpf._support import validate
from mdvpf.checkpoint import FileLock, Generations
from mdvpf.cli import live, live_options, shared
from mdvpf.cli.filter_options import (
    UNKNOWN,
    check_unchanged,
    new_monitor,
    read_emission,
    read_method,
    read_vocabulary,
    warn_of_fields,
)
from mdvpf.cli.lag import Lag
from mdvpf.cli.option_groups import EXPANDED, Given, Option, with_options
from mdvpf.cli.resume import STDIN, open_source
from mdvpf.cli.sink import FileSink, Sink, encode_line
from mdvpf.cli.stop import Stop
from mdvpf.detect import SurpriseDetector
from mdvpf.predictor import Predictor
from mdvpf.streams.filter_run import FilterRun
from mdvpf.streams.monitor import Monitor
from mdvpf.streams.report import REPORT_FORMATS, csv_header, report_writer


@with_options(settings={**shared.SETTINGS, "half_life": Option(live_options.HalfLife)})
def filter_stream(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", dir_okay=False, help="Input file; - is standard input."),
    ] = STDIN,
    symbols: Annotated[
        int | None,
        typer.Option(help="Number N of symbols, which are the integers from 0 to N - 1."),
    ] = None,
    vocabulary: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="The symbols are the distinct lines of this file.",
        ),
    ] = None,
    emission: Annotated[
        str | None,
        typer.Option(
            help="The lines are numbers instead of symbols: gaussian (measurements) or poisson "
            "(counts). The predictor is a single filter, by default MD-VPA. Alarms have a fixed "
            "share unless --false-incidents is given."
        ),
    ] = None,
    prior: Annotated[
        str | None,
        typer.Option(
            help="With --emission: parameters of the family, such as mean=5,mean_strength=0.01 or "
            "shape=2,rate=0.5."
        ),
    ] = None,
    max_labels: live_options.MaxLabels = None,
    unknown: Annotated[
        str | None,
        typer.Option(
            help="With --vocabulary or --max-labels: an extra symbol for all other labels. "
            f"\\[default: {UNKNOWN} with --max-labels, none with --vocabulary]"
        ),
    ] = None,
    line_format: live_options.Format = None,
    column: live_options.Column = None,
    key: live_options.Key = None,
    time: live_options.Time = None,
    time_unit: live_options.TimeUnit = None,
    end: live_options.End = None,
    missing: live_options.Missing = None,
    delimiter: live_options.Delimiter = None,
    pattern: live_options.Pattern = None,
    pass_fields: live_options.Pass = None,
    max_keys: live_options.MaxKeys = None,
    key_ttl: live_options.KeyTtl = None,
    method: shared.Method = None,
    algorithm: Annotated[str | None, typer.Option(hidden=True)] = None,  # old name of --method
    particles: shared.ParticlesInAll = None,
    settings: Given = EXPANDED,
    seed: Annotated[int | None, typer.Option(help="Seed of the random filters.")] = None,
    background: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="Checkpoint of a predictor of usual behaviour, over the same symbols. The score "
            "is then how much better the background predicts the stream than the method does. "
            "Without --symbols and --vocabulary the background defines the symbols.",
        ),
    ] = None,
    false_incidents: shared.FalseIncidents = None,
    cooldown: shared.Cooldown = None,
    false_alarms: shared.FalseAlarms = None,
    smoothing: Annotated[
        float | None,
        typer.Option(
            help="With --false-alarms: judge the mean surprise of about this many symbols. "
            "\\[default: 1]"
        ),
    ] = None,
    report: live_options.ReportFormat = REPORT_FORMATS[0],
    alarms_only: live_options.AlarmsOnly = False,
    expected: live_options.Expected = None,
    output: live_options.Output = None,
    checkpoint: Annotated[
        Path | None, typer.Option(dir_okay=False, help="File that the state is saved to.")
    ] = None,
    every: Annotated[int, typer.Option(help="Number of lines between two checkpoints.")] = 1000,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Continue from the checkpoint, if it exists."),
    ] = False,
    from_start: live_options.FromStart = False,
    take_unfinished: live_options.TakeUnfinished = False,
    lag_every: live_options.LagEvery = 10.0,
    skip_malformed: Annotated[
        bool,
        typer.Option("--skip-malformed", help="Skip malformed lines, with a message for each."),
    ] = False,
) -> int:
    """Filter a live stream: read one symbol a line, write one JSON report a line.

    An empty line ends a sequence. Formats other than plain lines have fields for the symbol, the
    key of its sequence and its time. A report has the number of the line, the symbol, its log
    predictive, its surprise, whether that is an alarm and why, the mean number of states, and the
    three symbols that were predicted to be likeliest.

    The default method is auto, a mixture of trees, chains, learners of automata and filters
    without settings to choose. --method names a single method: a filter takes the hyper-parameters
    and the options of its algorithm; a chain or a tree takes --beta.

    After SIGTERM, SIGHUP or Ctrl-C the command absorbs the lines that it has read, writes a
    checkpoint and exits. To continue, add --resume to the same command. A FILE continues after the
    last line of the checkpoint, even if it was rotated in between; a pipe continues with the next
    line that arrives. After a kill, reports since the last checkpoint are written again; with
    --output no report appears twice.

    For example:

    tail -f commands.log | mdvpf filter --vocabulary commands.txt --unknown OTHER

    mdvpf filter clicks.txt --symbols 17 --checkpoint clicks.mdvpf --resume

    journalctl -f -o json | mdvpf filter --format journal --max-labels 500 --alarms-only

    mdvpf filter clicks.txt --symbols 17 --method MD-VPA --beta 0.03

    mdvpf filter load.txt --emission gaussian --prior mean=5,mean_strength=0.01 --kappa 10
    """
    with shared.usage():
        validate.integer("every", every, low=1)
        validate.choice("report", report, REPORT_FORMATS)
        if file != STDIN and not file.exists() and not resume:
            raise ValueError(f"{file}: no such file")
        if checkpoint is None and (resume or take_unfinished):
            option = "--resume" if resume else "--take-unfinished"
            raise ValueError(f"{option}: expected only with --checkpoint")
        if from_start and not resume:
            raise ValueError("--from-start: expected only with --resume")
        given = shared.given(
            symbols=symbols,
            emission=read_emission(emission, prior),
            **read_vocabulary(vocabulary, max_labels, unknown),
            **read_method(method, algorithm),
            particles=particles,
            **{
                **settings,
                "half_life": live_options.read_half_life(settings["half_life"]),
            },
            background=background,
            false_alarms=false_alarms,
            smoothing=smoothing,
            **shared.read_rate(false_incidents),
            cooldown=cooldown,
            max_keys=max_keys,
            key_ttl=key_ttl,
            n_expected=expected,
        )
        lines = shared.given(
            format=line_format,
            symbol=column,
            key=key or None,
            time=time,
            time_unit=time_unit,
            end=end or None,
            missing=missing,
            delimiter=delimiter,
            pattern=pattern,
            pass_fields=pass_fields or None,
        )
    with ExitStack() as cleanup:
        generations = None
        if checkpoint is not None:
            lock = FileLock(checkpoint)
            cleanup.callback(lock.release)
            if not lock.acquire().is_held:
                shared.complain(
                    f"{checkpoint}: the file system has no locks; make sure that no other process "
                    "uses this checkpoint"
                )
            generations = Generations(checkpoint)
        run, is_new = _open_run(generations, resume, given, lines, seed)
        if is_new and line_format is None:
            warn_of_fields(file)
        stop = Stop()
        source = open_source(
            file,
            run,
            from_start=from_start,
            is_resumable=checkpoint is not None,
            note=shared.complain,
        )
        cleanup.callback(source.close)
        sink = _open_sink(output, stop, run)
        cleanup.callback(sink.close)
        fields = run.monitor.format.options.get("pass_fields", ())
        if report == "csv" and (sink.is_empty if isinstance(sink, FileSink) else is_new):
            header = csv_header(fields)
            # After a kill the header may be among the reports that are still to be written.
            if not run.outbox.lines.startswith(encode_line(header)):
                sink.put(header)
        sink.put_back(run.outbox)
        follower = live.Follower(
            monitor=run.monitor,
            source=source,
            sink=sink,
            stop=stop,
            write=report_writer(report, fields),
            generations=generations,
            every=every,
            skip_malformed=skip_malformed,
            alarms_only=alarms_only,
            take_unfinished=take_unfinished,
            lag=Lag(lag_every, shared.complain),
        )
        if generations is not None and (is_new or source.is_pipe):
            _save_first(generations, follower, is_new)
        with stop.listening():
            return live.run_to_the_end(follower)


def _open_run(
    generations: Generations | None,
    resume: bool,
    given: dict[str, Any],
    lines: dict[str, Any],
    seed: int | None,
) -> tuple[FilterRun, bool]:
    """Load the run from the checkpoint, or make it from the options; tell whether it is new."""
    if generations is None or not generations.exists:
        with shared.usage():
            return FilterRun(new_monitor(given, lines, seed)), True
    if not resume:
        with shared.usage():
            raise ValueError(
                f"{generations.path}: checkpoint exists; pass --resume or another path"
            )
    found = generations.load((FilterRun, Monitor, SurpriseDetector, Predictor), shared.complain)
    if not isinstance(found, FilterRun):
        found = FilterRun(found if isinstance(found, Monitor) else Monitor(found))
    if generations.fell_back:
        found.has_ended = False  # lines were read after this checkpoint; a pipe cannot repeat them
    with shared.usage():
        check_unchanged(found.monitor, given, lines)
    return found, False


def _save_first(generations: Generations, follower: live.Follower, is_new: bool) -> None:
    """Write a checkpoint before anything is read.

    If the run is killed before its next checkpoint, the lines that it read from a pipe are lost.
    The next run can report this only if the checkpoint says that its run has not ended. A new run
    fails at once if its checkpoint cannot be written. A resumed run continues, as it does when the
    disk fills up later.
    """
    try:
        generations.save(follower.snapshot())
    except OSError as error:
        if is_new:
            raise
        shared.complain(f"no checkpoint was written, the previous one remains: {error}")


def _open_sink(output: Path | None, stop: Stop, run: FilterRun) -> Sink:
    if output is None:
        return Sink.standard_output(stop)
    return FileSink(stop, output, run.output)
