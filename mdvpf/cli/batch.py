"""`mdvpf batch`: tables of events, each key on its own, on processes or a Dask cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from mdvpf.checkpoint import CheckpointError
from mdvpf.cli import live_options, shared
from mdvpf.detect import SurpriseDetector
from mdvpf.parallel import BACKENDS, Executor
from mdvpf.predictor import Vocabulary
from mdvpf.streams.batch import N_PARTITIONS, TEMPLATE, BatchError, run_batch
from mdvpf.streams.methods import AUTO, make_predictor
from mdvpf.streams.reading import XES, format_of, read_events


def batch(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...", exists=True, dir_okay=False, help="Parquet, CSV or JSON lines."
        ),
    ],
    out: Annotated[
        Path, typer.Option(file_okay=False, help="Folder of the rows and of the states of keys.")
    ],
    column: Annotated[str, typer.Option(help="The column of the symbol.")],
    key: Annotated[
        list[str],
        typer.Option(help="The column of the key. Repeat for a key of several columns."),
    ],
    time: live_options.Time = None,
    time_unit: live_options.TimeUnit = None,
    end: live_options.End = None,
    missing: live_options.Missing = None,
    symbols: Annotated[
        int | None, typer.Option(help="The symbols are the numbers from 0 to one less than this.")
    ] = None,
    method: shared.Method = None,
    particles: shared.ParticlesInAll = None,
    beta: shared.Beta = None,
    seed: Annotated[int, typer.Option(help="Seed of the filters that draw.")] = 0,
    false_incidents: shared.FalseIncidents = None,
    cooldown: shared.Cooldown = None,
    false_alarms: shared.FalseAlarms = None,
    state: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            file_okay=False,
            help="--out of an earlier batch: its keys continue from their saved states.",
        ),
    ] = None,
    partitions: Annotated[int, typer.Option(help="Number of tasks.")] = N_PARTITIONS,
    jobs: Annotated[int, typer.Option(help="Number of processes; -1 takes all cores.")] = 1,
    backend: Annotated[
        str, typer.Option(help=f"Where tasks run: {', '.join(BACKENDS)}.")
    ] = BACKENDS[0],
    scheduler: Annotated[
        str | None, typer.Option(help="With --backend dask: the address of the scheduler.")
    ] = None,
) -> int:
    """Judge whole tables of events, each key on its own: Parquet in, Parquet out.

    Every key has a predictor and a detector of its own, so any worker can process it. Finished
    partitions stay in --out; the same command again does the remaining ones. rows-*.parquet has a
    row per event, with the number of the event in the input. state-*.parquet has the state of each
    key, from which --state continues with the next batch. Without --symbols or --state, an extra
    pass over the files collects the labels.

    For example:

    mdvpf batch monday.parquet --out monday --column page --key user --method MD-VPA -K 100

    mdvpf batch tuesday.parquet --out tuesday --state monday --column page --key user

    mdvpf batch *.parquet --out all --column page --key user --backend dask
    --scheduler tcp://HOST:8786
    """
    with shared.usage():
        executor = Executor(jobs=jobs, backend=backend, scheduler=scheduler)  # type: ignore[arg-type]
        options = shared.given(time=time, time_unit=time_unit, end=end or None, missing=missing)
        settings = shared.given(
            method=method,
            particles=particles,
            beta=beta,
            false_alarms=false_alarms,
            **shared.read_rate(false_incidents),
            cooldown=cooldown,
        )
        keys: str | list[str] = key[0] if len(key) == 1 else key
        if state is None:
            template = _template(
                files, symbols, seed, settings, options | {"symbol": column, "key": keys}
            )
        else:
            if settings or symbols is not None:
                name = shared.option(next(iter(settings), "symbols"))
                raise ValueError(f"--{name}: not allowed with --state, which keeps this setting")
            template = _saved_template(state)
    try:
        run_batch(
            files,
            template,
            symbol=column,
            key=keys,
            folder=out,
            state=state,
            n_partitions=partitions,
            executor=executor,
            progress=True,
            collect=False,
            **options,
        )
    except BatchError as error:
        shared.complain(str(error))
        return shared.SOME_RUNS_FAILED
    return shared.DONE


def _template(
    files: list[Path],
    symbols: int | None,
    seed: int,
    settings: dict[str, Any],
    options: dict[str, Any],
) -> SurpriseDetector:
    """Return the detector that the options describe, over the labels of the files."""
    if "time" not in options and not any(format_of(file) == XES for file in files):
        shared.require_times(settings)
    vocabulary = None
    if symbols is None:
        found = (event.symbol for file in files for event in read_events(file, **options))
        labels = sorted({label for label in found if label is not None}, key=str)
        if not labels:
            raise ValueError(f"{', '.join(map(str, files))}: no symbols; expected at least one")
        vocabulary = Vocabulary(labels)
    predictor = make_predictor(
        settings.pop("method", AUTO),
        vocabulary.n_symbols if vocabulary is not None else symbols or 0,
        settings.pop("particles", None),
        seed,
        **{name: settings.pop(name) for name in ("beta",) if name in settings},
    )
    predictor.vocabulary = vocabulary
    return SurpriseDetector(predictor, **shared.alarm_settings(settings))


def _saved_template(folder: Path) -> SurpriseDetector:
    try:
        return SurpriseDetector.load(folder / TEMPLATE)
    except (CheckpointError, FileNotFoundError) as error:
        raise ValueError(f"--state {folder}: expected the folder of a batch ({error})") from error
