"""Whole tables of events, partitioned by key, on processes or a Dask cluster.

Each key has a sequence and a detector of its own, copied from a template. Keys share nothing, so
any worker can process any key. The checksum of a key selects its partition. A folder keeps the
results of finished partitions: the rows, and the state of each key, from which the next batch can
continue.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mdvpf._support import validate
from mdvpf._support.extras import needed
from mdvpf.checkpoint import atomic_write
from mdvpf.checkpoint.saveable import encoded
from mdvpf.detect import Detection, SurpriseDetector
from mdvpf.detect.key_state import detector_from_bytes, detector_to_bytes
from mdvpf.parallel import Executor, Failure
from mdvpf.predictor import Label
from mdvpf.predictor.vocabulary import label_to_json
from mdvpf.streams.events import Event
from mdvpf.streams.label_texts import LabelTexts
from mdvpf.streams.reading import read_events

N_PARTITIONS = 16
TEMPLATE = "template.mdvpf"
_DESCRIPTION = "batch.json"
COLUMNS = (
    *("row", "key", "time", "symbol", "surprise", "level", "score", "threshold", "alarm"),
    *("change", "p_value", "side", "incident"),
)

Rows = dict[str, list[Any]]


class BatchError(RuntimeError):
    """Some partitions of a batch failed; the finished ones are kept."""


@dataclass(frozen=True, slots=True)
class Partition:
    """One task: the events of some keys.

    Attributes
    ----------
    number, n_partitions : int
        Number of this partition, from 0, and number of all partitions.
    template : SurpriseDetector
    paths : tuple of str
        Files that the worker reads the events from; empty for a frame.
    events : tuple of (int, Event)
        For a frame: the events of this partition with their row numbers.
    options : mapping
        Options of `read_events`.
    state : str or None
        Folder of the previous batch.
    """

    number: int
    n_partitions: int
    template: SurpriseDetector
    paths: tuple[str, ...] = ()
    events: tuple[tuple[int, Event], ...] = ()
    options: Mapping[str, Any] | None = None
    state: str | None = None

    def __repr__(self) -> str:
        return f"partition {self.number} of {self.n_partitions}"


def run_batch(
    source: Any,
    template: SurpriseDetector,
    *,
    symbol: str,
    key: str | Sequence[str],
    folder: str | os.PathLike[str] | None = None,
    state: str | os.PathLike[str] | None = None,
    n_partitions: int = N_PARTITIONS,
    executor: Executor | None = None,
    progress: bool = False,
    collect: bool = True,
    **options: Any,
) -> Any:
    """Judge all events of a table, each key on its own.

    Parameters
    ----------
    source : data frame, path, or sequence of paths
        A frame of pandas, polars or Arrow; or files in any format of `read_events`, such as
        Parquet, which every worker must be able to read. Events of a key are in order.
    template : SurpriseDetector
        Each key gets a copy. It must have no background. With a vocabulary the symbols are
        labels, without one they are integers.
    symbol, key : str
        The columns of the symbol and of the key. Several key columns make a tuple.
    folder : path, optional
        Where finished partitions are kept. The same call with the same folder does the remaining
        ones. Needs the extra `parquet`.
    state : path, optional
        The folder of an earlier batch: its keys continue from their saved states.
    n_partitions : int, default 16
        Number of tasks that the keys are spread over. The result does not depend on it.
    executor : Executor, optional
        Where the tasks run; by default in this process.
    progress : bool, default False
        Show a progress bar.
    collect : bool, default True
        Return the rows. If False, return None; the rows are in the folder.
    **options
        As for `read_events`: `time`, `time_unit`, `missing`, `end`, `format`.

    Returns
    -------
    data frame
        One row per event, in input order, with the fields of `Detection`. It has the type of the
        source; for files it is a table of Arrow.

    Raises
    ------
    BatchError
        If partitions failed.

    Examples
    --------
    >>> import mdvpf
    >>> import pandas as pd
    >>> from mdvpf.streams import run_batch
    >>> clicks = pd.DataFrame({"user": ["ann", "bob", "ann"], "page": [1, 0, 1]})
    >>> template = mdvpf.SurpriseDetector(mdvpf.Markov(2, order=0, beta=1.0))
    >>> found = run_batch(clicks, template, symbol="page", key="user")
    >>> found[["key", "surprise"]].round(2).values.tolist()
    [['ann', 0.69], ['bob', 0.69], ['ann', 0.41]]
    """
    _check_template(template)
    n = validate.integer("n_partitions", n_partitions, low=1, high=1_000_000)
    options = {"symbol": symbol, "key": key, **options}
    before = None if state is None else os.path.abspath(state)
    if before is not None and not (Path(before) / TEMPLATE).exists():
        raise ValueError(f"state={state!r}: expected the folder of a finished batch")
    paths = _paths(source)
    if paths:
        tasks = [
            Partition(i, n, template, paths=paths, options=options, state=before) for i in range(n)
        ]
    else:
        parts: list[list[tuple[int, Event]]] = [[] for _ in range(n)]
        for row, event in enumerate(read_events(source, **options)):
            parts[partition_of(event.key, n)].append((row, event))
        tasks = [
            Partition(i, n, template, events=tuple(part), state=before)
            for i, part in enumerate(parts)
        ]
    store = None if folder is None else _Store(Path(folder), tasks)
    kept: dict[str, Any] = {}
    if store is not None:
        kept = {"recall": store.recall, "keep": store.keep}
    found = (executor or Executor()).map(
        run_partition, tasks, progress=progress, label="partitions", **kept
    )
    failures = [each for each in found if isinstance(each, Failure)]
    if failures:
        raise BatchError(
            f"{len(failures)} of {n} partitions failed, the first ({failures[0].task}) with "
            f"{failures[0].error}"
        )
    if not collect:
        return None
    return _frame(_joined([each[0] for each in found if not isinstance(each, Failure)]), source)


def partition_of(key: Label | None, n: int) -> int:
    """Return the partition of a key, the same in every process.

    Examples
    --------
    >>> from mdvpf.streams.batch import partition_of
    >>> 0 <= partition_of("ann", 16) < 16
    True
    """
    return zlib.crc32(_key_text(key).encode()) % n


def run_partition(task: Partition) -> tuple[Rows, list[tuple[str, bytes]]]:
    """Run one task; return the rows, and the state of each key."""
    by_key: dict[Label | None, list[tuple[int, Event]]] = {}
    for row, event in _events_of(task):
        by_key.setdefault(event.key, []).append((row, event))
    before = _states_before(task)
    rows: Rows = {name: [] for name in COLUMNS}
    states = []
    for key, events in by_key.items():
        text = _key_text(key)
        saved = before.pop(text, None)
        detector = task.template.copy() if saved is None else detector_from_bytes(saved)
        for row, event, detection in _judged(detector, events):
            _add(rows, row, event, detection)
        states.append((text, detector_to_bytes(detector)))
    states += before.items()  # keys without events keep their states
    return rows, states


def _judged(
    detector: SurpriseDetector, events: list[tuple[int, Event]]
) -> Iterator[tuple[int, Event, Detection]]:
    """Yield the events of one key with their detections."""
    texts = LabelTexts(detector.predictor)
    for row, event in events:
        if not event.no_symbol:
            if event.time is not None:
                detector.tell_time(event.time)
            label = event.symbol
            code = None if label is None else texts.symbol(label, detector.predictor)
            yield row, event, detector.update(code)
        if event.ends or event.no_symbol:
            detector.new_sequence()


def _add(rows: Rows, row: int, event: Event, detection: Detection) -> None:
    values = {
        "row": row,
        "key": _shown(event.key),
        "time": event.time,
        "symbol": _shown(event.symbol),
        "incident": None if detection.incident is None else detection.incident.number,
    }
    for name in COLUMNS:
        rows[name].append(values[name] if name in values else getattr(detection, name))


def _events_of(task: Partition) -> Iterable[tuple[int, Event]]:
    if not task.paths:
        return task.events
    return _read(task)


def _read(task: Partition) -> Iterator[tuple[int, Event]]:
    row = 0
    for path in task.paths:
        for event in read_events(path, **(task.options or {})):
            if partition_of(event.key, task.n_partitions) == task.number:
                yield row, event
            row += 1


def _states_before(task: Partition) -> dict[str, bytes]:
    """Return the saved states of the task's keys, whatever partitions hold them."""
    if task.state is None:
        return {}
    pq = _parquet()
    found: dict[str, bytes] = {}
    for path in sorted(Path(task.state).glob("state-*.parquet")):
        table = pq.read_table(path).to_pydict()
        for text, content in zip(table["key"], table["state"], strict=True):
            if zlib.crc32(text.encode()) % task.n_partitions == task.number:
                found[text] = content
    return found


def _key_text(key: Label | None) -> str:
    return json.dumps(None if key is None else label_to_json(key))


def _shown(label: Label | None) -> Any:
    return label if label is None or isinstance(label, str) else json.dumps(label_to_json(label))


def _check_template(template: Any) -> None:
    if not isinstance(template, SurpriseDetector):
        raise TypeError(f"template={template!r}: expected a SurpriseDetector")
    if template.background is not None:
        raise TypeError("template: expected a detector without a background")
    predictor = template.predictor
    if predictor.is_open or (predictor.vocabulary is not None and predictor.vocabulary.is_open):
        raise TypeError("template: expected a predictor with a closed alphabet")


def _paths(source: Any) -> tuple[str, ...]:
    if isinstance(source, (str, os.PathLike)):
        source = [source]
    if not isinstance(source, (list, tuple)):
        return ()
    found = tuple(os.path.abspath(os.fspath(path)) for path in source)
    missing = [path for path in found if not os.path.exists(path)]
    if missing or not found:
        raise ValueError(f"source={missing[:1] or source!r}: expected files that exist")
    return found


# --- The folder


class _Store:
    """The folder of a batch: a description, the template, and two files for each partition."""

    def __init__(self, folder: Path, tasks: list[Partition]) -> None:
        self._folder = folder
        self._pq = _parquet()
        folder.mkdir(parents=True, exist_ok=True)
        description = _described(tasks)
        path = folder / _DESCRIPTION
        if path.exists():
            if json.loads(path.read_text(encoding="utf-8")) != description:
                raise ValueError(
                    f"folder={str(folder)!r}: it holds another batch (source, template or "
                    "partitions differ); expected an empty folder, or the one of this batch"
                )
            return
        atomic_write.replace(folder / TEMPLATE, encoded(tasks[0].template))
        atomic_write.replace(path, [json.dumps(description).encode()])

    def recall(self, task: Partition) -> tuple[Rows, list[tuple[str, bytes]]] | None:
        """Return the rows of a finished partition; their file is written last."""
        path = self._path("rows", task)
        if not path.exists():
            return None
        rows: Rows = self._pq.read_table(path).to_pydict()
        return rows, []

    def keep(self, task: Partition, found: tuple[Rows, list[tuple[str, bytes]]]) -> None:
        """Write the states and the rows of a partition."""
        rows, states = found
        columns: Rows = {"key": [key for key, _ in states], "state": [state for _, state in states]}
        self._write(self._path("state", task), columns, {"key": "string", "state": "binary"})
        self._write(self._path("rows", task), rows, _TYPES)

    def _path(self, kind: str, task: Partition) -> Path:
        return self._folder / f"{kind}-{task.number:06d}.parquet"

    def _write(self, path: Path, columns: Mapping[str, list[Any]], types: dict[str, str]) -> None:
        file = io.BytesIO()
        self._pq.write_table(_arrow(columns, types), file)
        atomic_write.replace(path, [file.getvalue()])


_TYPES = {
    "row": "int64",
    "key": "string",
    "time": "float64",
    "symbol": "string",
    **dict.fromkeys(("surprise", "level", "score", "threshold", "p_value"), "float64"),
    "alarm": "bool",
    "change": "int64",
    "side": "string",
    "incident": "int64",
}


def _described(tasks: list[Partition]) -> dict[str, Any]:
    """Return the description that identifies a batch."""
    first = tasks[0]
    digest = hashlib.blake2b(digest_size=16)
    for chunk in encoded(first.template):
        digest.update(chunk)
    for path in first.paths:
        found = os.stat(path)
        digest.update(f"{path} {found.st_size} {found.st_mtime_ns}\n".encode())
    for task in tasks:
        for row, event in task.events:
            digest.update(f"{row} {event!r}\n".encode())
    options = {name: str(value) for name, value in (first.options or {}).items()}
    return {
        "n_partitions": first.n_partitions,
        "options": options,
        "state": first.state,
        "digest": digest.hexdigest(),
    }


def _parquet() -> Any:
    with needed("the folder of a batch", "pyarrow", "parquet"):
        import pyarrow.parquet
    return pyarrow.parquet


def _arrow(columns: Mapping[str, list[Any]], types: Mapping[str, str]) -> Any:
    with needed("a batch of files", "pyarrow", "parquet"):
        import pyarrow as pa
    arrays = {
        name: pa.array(columns[name], pa.type_for_alias(kind)) for name, kind in types.items()
    }
    return pa.table(arrays)


def _joined(parts: list[Rows]) -> Rows:
    """Return all rows in input order."""
    rows = {name: [value for part in parts for value in part[name]] for name in COLUMNS}
    order = sorted(range(len(rows["row"])), key=rows["row"].__getitem__)
    return {name: [values[i] for i in order] for name, values in rows.items()}


def _frame(rows: Rows, source: Any) -> Any:
    """Return rows as a frame of the type of the source, of Arrow for files."""
    if isinstance(source, (str, os.PathLike, list, tuple)):
        return _arrow(rows, _TYPES)
    with needed("a batch of a frame", "narwhals", "frames"):
        import narwhals as nw
    kind = nw.from_native(source).implementation
    return nw.from_dict(rows, backend=kind).to_native()
