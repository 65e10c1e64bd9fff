"""Run independent tasks in processes of this machine or on a Dask cluster.

An experiment is a list of tasks that share nothing and carry their own seeds, so their results
depend neither on the backend nor on the number of jobs. joblib runs them. A task that fails yields
a `Failure`, and the other tasks continue. The caller can store finished results (`keep`) and supply
them in a later run (`recall`).
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np

from mdvpf._support import validate
from mdvpf._support.extras import needed
from mdvpf._support.progress import progress_bar

T = TypeVar("T")
R = TypeVar("R")

Backend = Literal["processes", "dask"]
BACKENDS: tuple[Backend, ...] = ("processes", "dask")


@dataclass(frozen=True, slots=True)
class Failure:
    """The outcome of a task that raised an exception or whose process died.

    Attributes
    ----------
    task : str
        The ``repr`` of the task.
    error : str
        The exception, in one line.
    details : str
        The traceback.

    Examples
    --------
    >>> from mdvpf.parallel import Executor, Failure
    >>> [isinstance(result, Failure) for result in Executor().map(int, ["1", "two"])]
    [False, True]
    """

    task: str
    error: str
    details: str = ""


@dataclass(frozen=True, slots=True)
class Executor:
    """Run a list of tasks on a backend.

    Parameters
    ----------
    jobs : int, default 1
        Number of processes: 1 runs the tasks in the calling process, -1 uses all cores. A Dask
        cluster uses all its workers.
    backend : {"processes", "dask"}, default "processes"
        Processes of this machine, or a Dask cluster.
    scheduler : str, optional
        Address of the Dask scheduler, such as ``tcp://host:8786``.

    Examples
    --------
    >>> from mdvpf.parallel import Executor
    >>> Executor().map(abs, [-1, 2])
    [1, 2]
    """

    jobs: int = 1
    backend: Backend = "processes"
    scheduler: str | None = None

    def __post_init__(self) -> None:
        if self.jobs != -1:
            validate.integer("jobs", self.jobs, low=1, also=", or -1 for all cores")
        validate.choice("backend", self.backend, BACKENDS)
        if (self.backend == "dask") != (self.scheduler is not None):
            raise ValueError(
                f"backend={self.backend!r}, scheduler={self.scheduler!r}: expected the address of "
                "a scheduler with backend='dask', and only then"
            )

    def map(
        self,
        function: Callable[[T], R],
        tasks: Sequence[T],
        *,
        recall: Callable[[T], R | None] = lambda task: None,
        keep: Callable[[T, R], None] = lambda task, result: None,
        progress: bool = False,
        label: str = "runs",
    ) -> list[R | Failure]:
        """Return the result of each task, or its `Failure`.

        Parameters
        ----------
        function : callable
            Runs one task. Other processes must be able to import it.
        tasks : sequence
            The tasks.
        recall : callable, optional
            Returns the stored result of a task, or None if the task must run.
        keep : callable, optional
            Called in the calling process with every task and its result as soon as it is done.
        progress : bool, default False
            Show a progress bar, if the output is a terminal.
        label : str, default "runs"
            Label of the progress bar.

        Examples
        --------
        >>> from mdvpf.parallel import Executor
        >>> results = Executor().map(int, ["1", "two"])
        >>> results[0], results[1].error
        (1, "ValueError: invalid literal for int() with base 10: 'two'")
        """
        recalled = [recall(task) for task in tasks]
        results: dict[int, R | Failure] = {
            i: result for i, result in enumerate(recalled) if result is not None
        }
        to_do = [i for i in range(len(tasks)) if i not in results]
        with progress_bar(progress, len(tasks), label, "runs") as advance:
            advance(len(results))
            for i, result in self._results(function, [(i, tasks[i]) for i in to_do]):
                results[i] = result
                if not isinstance(result, Failure):
                    keep(tasks[i], result)
                advance(1)
        return [results[i] for i in range(len(tasks))]

    def _results(
        self, function: Callable[[T], R], numbered: list[tuple[int, T]]
    ) -> Iterator[tuple[int, R | Failure]]:
        if not numbered:
            return
        joblib = _joblib()
        from joblib.externals.loky.process_executor import TerminatedWorkerError

        done: set[int] = set()
        with self._backend(joblib) as jobs:
            try:
                for i, result in _unordered(joblib, jobs, function, numbered):
                    done.add(i)
                    yield i, result
            except TerminatedWorkerError:
                # One task killed its worker, and joblib stopped all others. Running each
                # unfinished task in a process of its own shows which task it was.
                for i, task in numbered:
                    if i not in done:
                        yield i, _run_isolated(joblib, function, task)

    @contextmanager
    def _backend(self, joblib: Any) -> Iterator[int]:
        """Select joblib's backend for the block; yield the number of jobs."""
        if self.backend == "processes":
            with joblib.parallel_config(backend="loky"):
                yield self.jobs
            return
        with needed("backend='dask'", "distributed", "dask"):
            from distributed import Client
        try:
            client = Client(self.scheduler, timeout="5s")  # type: ignore[no-untyped-call]
        except (OSError, TimeoutError, ValueError) as error:
            raise OSError(
                f"scheduler={self.scheduler!r}: expected the address of a running Dask scheduler"
            ) from error
        with client, joblib.parallel_config(backend="dask", client=client):
            yield -1


def spawn(entropy: int, *counts: int) -> tuple[list[np.random.SeedSequence], ...]:
    """Return independent lists of seeds, each of the given length.

    A longer list starts with the same seeds as a shorter one.

    Examples
    --------
    >>> from mdvpf.parallel import spawn
    >>> data, filters = spawn(0, 2, 3)
    >>> [seed.spawn_key for seed in filters]
    [(1, 0), (1, 1), (1, 2)]
    """
    roots = np.random.SeedSequence(entropy).spawn(len(counts))
    return tuple(root.spawn(count) for root, count in zip(roots, counts, strict=True))


def _joblib() -> Any:
    with needed("running experiments", "joblib", "experiments"):
        import joblib
    return joblib


def _unordered(
    joblib: Any, jobs: int, function: Callable[[T], R], numbered: list[tuple[int, T]]
) -> Iterable[tuple[int, R | Failure]]:
    parallel = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")
    results: Iterable[tuple[int, R | Failure]] = parallel(
        joblib.delayed(_run_guarded)(function, i, task) for i, task in numbered
    )
    return results


def _run_isolated(joblib: Any, function: Callable[[T], R], task: T) -> R | Failure:
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    try:
        # With n_jobs=1 joblib would run the task in the calling process.
        parallel = joblib.Parallel(n_jobs=2, backend="loky")
        [(_, result)] = parallel([joblib.delayed(_run_guarded)(function, 0, task)])
    except TerminatedWorkerError:
        return Failure(repr(task), "its process died (out of memory, perhaps)")
    answer: R | Failure = result
    return answer


def _run_guarded(function: Callable[[T], R], i: int, task: T) -> tuple[int, R | Failure]:
    try:
        return i, function(task)
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
        return i, Failure(repr(task), message, traceback.format_exc())
