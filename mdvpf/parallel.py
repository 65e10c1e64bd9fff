"""Independent tasks, on the processes of this machine or on a Dask cluster.

An experiment is a list of tasks that share nothing and carry their own seeds, so that what they
return depends neither on the backend nor on the number of jobs. joblib carries them out. A task
that fails becomes a `Failure` in its place and the others go on; what is finished can be kept
(`keep`) and need not be done again (`recall`).
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
    """What became of a task that raised an exception, or that ended its process.

    Attributes
    ----------
    task : str
        The task: its configuration.
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
    """Where tasks are carried out.

    Parameters
    ----------
    jobs : int, default 1
        Number of processes; 1 stays in this one, -1 takes all cores. A Dask cluster uses all its
        workers.
    backend : {"processes", "dask"}, default "processes"
        Processes of this machine, or a Dask cluster.
    scheduler : str, optional
        Address of the scheduler of the cluster, such as ``tcp://host:8786``.

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
            Carries out one task. Other processes must be able to import it.
        tasks : sequence
            The tasks.
        recall : callable, optional
            Returns the result of a task that was done before, else None.
        keep : callable, optional
            Called, here, with every task and its result as soon as it is there.
        progress : bool, default False
            Show a progress bar, if the output is a terminal.
        label : str, default "runs"
            What the bar says.

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
                # One of the unfinished tasks ended its process, and the others with it. Alone in
                # a process, each shows whether it was the one.
                for i, task in numbered:
                    if i not in done:
                        yield i, _alone(joblib, function, task)

    @contextmanager
    def _backend(self, joblib: Any) -> Iterator[int]:
        """Yield the number of jobs, while joblib's backend is the wanted one."""
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

    A longer list begins with the shorter one: more seeds leave the first ones as they were.

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
        joblib.delayed(_guarded)(function, i, task) for i, task in numbered
    )
    return results


def _alone(joblib: Any, function: Callable[[T], R], task: T) -> R | Failure:
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    try:
        # With one job joblib would stay in this process.
        parallel = joblib.Parallel(n_jobs=2, backend="loky")
        [(_, result)] = parallel([joblib.delayed(_guarded)(function, 0, task)])
    except TerminatedWorkerError:
        return Failure(repr(task), "its process died (out of memory, perhaps)")
    answer: R | Failure = result
    return answer


def _guarded(function: Callable[[T], R], i: int, task: T) -> tuple[int, R | Failure]:
    try:
        return i, function(task)
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
        return i, Failure(repr(task), message, traceback.format_exc())
