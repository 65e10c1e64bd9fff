"""`mdvpf filter`: predict the symbols of a live stream and raise alarms."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from mdvpf._support import validate
from mdvpf.checkpoint import FileLock, Generations
from mdvpf.cli import live, live_options, shared
from mdvpf.cli.lag import Lag
from mdvpf.cli.option_groups import EXPANDED, Given, Option, with_options
from mdvpf.cli.resume import STDIN, open_source
from mdvpf.cli.sink import FileSink, Sink, encode_line
from mdvpf.cli.stop import Stop
from mdvpf.detect import SurpriseDetector
from mdvpf.filter import ParticleFilter
from mdvpf.model import Gaussian, Poisson
from mdvpf.predictor import Predictor, Vocabulary
from mdvpf.streams.filter_run import FilterRun
from mdvpf.streams.formats import FORMATS, LineFormat, make_format
from mdvpf.streams.formats.lines import Lines
from mdvpf.streams.methods import (
    AUTO,
    BASE,
    SETTINGS,
    found_settings,
    make_number_filter,
    make_predictor,
    method_of,
    read_family,
    resolve_method,
)
from mdvpf.streams.monitor import Monitor
from mdvpf.streams.reading import format_of
from mdvpf.streams.report import REPORT_FORMATS, csv_header, report_writer

METHOD_OPTIONS = ("method", "algorithm")  # the second is the old name of the first
MONITOR_OPTIONS = ("max_keys", "key_ttl", "n_expected")
UNKNOWN = "OTHER"  # with --max-labels, unless --unknown is given


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
            emission=_read_emission(emission, prior),
            **_read_vocabulary(vocabulary, max_labels, unknown),
            **_read_method(method, algorithm),
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
            _warn_of_fields(file)
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
            return FilterRun(_new_monitor(given, lines, seed)), True
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
        _compare(found.monitor, given, lines)
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


# --- From options to a monitor


def _read_vocabulary(
    path: Path | None, max_labels: int | None, unknown: str | None
) -> dict[str, Any]:
    if path is None and max_labels is None:
        if unknown is not None:
            raise ValueError(
                f"unknown={unknown!r}: expected only with --vocabulary or --max-labels"
            )
        return {}
    labels: list[str] = []
    if path is not None:
        try:
            text = path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}: expected text in UTF-8 ({error.reason})") from error
        # Lines of the stream are split and stripped in the same way.
        labels = [line.strip() for line in text.split("\n") if line.strip()]
        if not labels and unknown is None and max_labels is None:
            raise ValueError(f"{path}: no labels; expected at least one line, or --unknown")
    if max_labels is None:
        return {"vocabulary": Vocabulary.from_data(labels, unknown)}
    unknown = UNKNOWN if unknown is None else unknown
    return {"vocabulary": Vocabulary.open(labels, max_labels=max_labels, unknown=unknown)}


def _read_emission(emission: str | None, prior: str | None) -> Gaussian | Poisson | None:
    if emission is not None:
        return read_family(emission, prior or "")
    if prior is not None:
        raise ValueError(f"prior={prior!r}: expected only with --emission")
    return None


def _read_method(method: str | None, algorithm: str | None) -> dict[str, str]:
    """Return the name of the method, keyed by the option that named it."""
    given = shared.given(method=method, algorithm=algorithm)
    if len(given) == 2:
        raise ValueError(f"algorithm={algorithm!r}: expected only --method, its new name")
    return {option: resolve_method(name, argument=option) for option, name in given.items()}


def _new_monitor(given: dict[str, Any], lines: dict[str, Any], seed: int | None) -> Monitor:
    if "emission" in given:
        return _monitor_of(_filter_of_numbers(given, seed), None, given, lines)
    vocabulary, background = given.get("vocabulary"), None
    if "background" in given:
        background = Monitor.load(given["background"]).predictor
        if vocabulary is None and "symbols" not in given:
            vocabulary = background.vocabulary
            if vocabulary is None:
                given = given | {"symbols": background.n_symbols}
    if (vocabulary is None) == ("symbols" not in given):
        raise ValueError(
            "expected one of --max-labels N (labels as they appear, up to N), --vocabulary FILE "
            "(its lines), --symbols N (integers below N) and --emission FAMILY (numbers)"
        )
    predictor = make_predictor(
        given.get("method") or given.get("algorithm") or AUTO,
        given["symbols"] if vocabulary is None else vocabulary.capacity,
        given.get("particles"),
        seed,
        **{name: given[name] for name in SETTINGS if name in given},
    )
    predictor.vocabulary = vocabulary
    return _monitor_of(predictor, background, given, lines)


def _filter_of_numbers(given: dict[str, Any], seed: int | None) -> ParticleFilter:
    for name in ("symbols", "vocabulary", "background"):
        if name in given:
            raise ValueError(f"{name}={given[name]!r}: expected not together with --emission")
    return make_number_filter(
        given["emission"],
        given.get("method") or given.get("algorithm") or BASE,
        given.get("particles"),
        seed,
        **{name: given[name] for name in SETTINGS if name in given},
    )


def _monitor_of(
    predictor: Predictor,
    background: Predictor | None,
    given: dict[str, Any],
    lines: dict[str, Any],
) -> Monitor:
    others = {name: given[name] for name in MONITOR_OPTIONS if name in given}
    alarms = _alarm_settings(given)
    detector = SurpriseDetector(predictor, background=background, **alarms)
    if set(lines) <= {"missing"}:
        monitor = Monitor(detector, missing=lines.get("missing"), **others)
    else:
        monitor = Monitor(detector, format=_make_format(lines), **others)
    half_life = given.get("half_life")
    if monitor.format.fields.time is None:
        if isinstance(half_life, timedelta):
            raise ValueError(
                f"half_life={str(half_life)!r}: a time span needs events with times; expected "
                "--time, or a number of symbols"
            )
        shared.require_times(alarms)
    return monitor


def _make_format(lines: dict[str, Any]) -> LineFormat:
    """Return the format that the options of the input describe, or raise."""
    options = {name: value for name, value in lines.items() if name != "format"}
    name = lines.get("format", Lines.name)
    if name == Lines.name:
        _require_no_fields(options)
    return make_format(name, options)


def _require_no_fields(options: dict[str, Any]) -> None:
    """Raise if options name fields, which plain lines do not have."""
    for name, value in options.items():
        if name not in Lines.takes:
            option = "column" if name == "symbol" else name
            formats = ", ".join(form for form in FORMATS if form != Lines.name)
            raise ValueError(f"{option}={value!r}: expected only with --format ({formats})")


def _warn_of_fields(file: Path) -> None:
    """Warn if the suffix of the file says that it has fields."""
    form = format_of(file)
    if form in FORMATS and form != Lines.name:
        shared.complain(
            f"warning: {file}: each line is read as one symbol, in spite of the suffix; expected "
            f"--format {form} and --column to read a field, or --format {Lines.name}"
        )


def _alarm_settings(given: dict[str, Any]) -> dict[str, Any]:
    """Return when the detector raises alarms; over numbers, by default at a fixed share."""
    if "emission" not in given or not {"false_incidents", "cooldown"}.isdisjoint(given):
        return shared.alarm_settings(given)
    return {name: given[name] for name in ("false_alarms", "smoothing") if name in given}


def _compare(monitor: Monitor, given: dict[str, Any], lines: dict[str, Any]) -> None:
    """Raise if an option contradicts the checkpoint: a run keeps its settings."""
    predictor = monitor.predictor
    found: dict[str, Any] = {
        "vocabulary": predictor.vocabulary,
        "symbols": predictor.n_symbols,
        "emission": predictor._family,
        **monitor.detector.settings,
        **dict.fromkeys(METHOD_OPTIONS, method_of(predictor)),
        **found_settings(predictor),
        **{name: getattr(monitor, name) for name in MONITOR_OPTIONS},
        "format": monitor.format.name,
        **monitor.format.options,
    }
    if monitor.detector.background is not None:
        # The checkpoint holds the background itself, and not the path of its file.
        found["background"] = given.get("background")
    if lines and monitor.format.name == lines.get("format", Lines.name):
        lines = {**lines, **_make_format(lines).options}
    for name, value in {**given, **lines}.items():
        if found.get(name) != value and not _has_grown(value, found.get(name)):
            own = _method_text(predictor) if name in METHOD_OPTIONS else repr(found.get(name))
            option = "column" if name == "symbol" else name
            raise ValueError(
                f"{option}={value!r}: the checkpoint has {own}; expected the same, or none"
            )


def _has_grown(first: Any, now: Any) -> bool:
    """Tell whether the second vocabulary is the first, open one with labels added."""
    if not (isinstance(first, Vocabulary) and isinstance(now, Vocabulary) and first.is_open):
        return False
    return (now.max_labels, now.unknown) == (first.max_labels, first.unknown) and now.labels[
        : len(first.labels)
    ] == first.labels


def _method_text(predictor: Predictor) -> str:
    if isinstance(predictor, ParticleFilter):
        return repr(predictor.algorithm)
    return repr(method_of(predictor))
