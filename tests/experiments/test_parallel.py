"""Independent tasks: the same results wherever they run, and no failure loses another task."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mdvpf.parallel import Executor, Failure, spawn


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_failing_task_is_reported_and_the_others_are_not_lost(jobs: int) -> None:
    results = Executor(jobs).map(int, ["1", "two", "3"])
    assert results[0] == 1
    assert results[2] == 3
    failure = results[1]
    assert isinstance(failure, Failure)
    assert failure.task == "'two'"
    assert failure.error.startswith("ValueError: invalid literal")
    assert "Traceback" in failure.details


def test_a_task_that_kills_its_process_is_found_and_the_others_are_not_lost() -> None:
    tasks = ["1 + 1", "__import__('os').kill(__import__('os').getpid(), 9)", "2 + 2", "3 + 3"]
    results = Executor(2).map(eval, tasks)
    assert [results[0], results[2], results[3]] == [2, 4, 6]
    failure = results[1]
    assert isinstance(failure, Failure)
    assert "os" in failure.task
    assert "died" in failure.error


def test_recalled_results_are_not_computed_again() -> None:
    done: dict[str, int] = {"7": 70}
    kept = {}
    results = Executor().map(
        int, ["7", "8", "x"], recall=done.get, keep=lambda task, result: kept.update({task: result})
    )
    assert results[:2] == [70, 8]
    assert kept == {"8": 8}


def test_a_task_may_return_nothing() -> None:
    assert Executor().map(nothing, [1, 2]) == [None, None]


def nothing(task: int) -> None:
    """Return None."""


def test_no_tasks_have_no_results() -> None:
    assert Executor(2).map(int, []) == []


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"jobs": 0}, ValueError, "jobs=0"),
        ({"jobs": 1.5}, TypeError, "jobs=1.5"),
        ({"backend": "cloud"}, ValueError, "backend='cloud'"),
        ({"backend": "dask"}, ValueError, "scheduler=None"),
        ({"scheduler": "tcp://x:1"}, ValueError, "scheduler='tcp://x:1'"),
    ],
)
def test_bad_arguments_are_refused(
    arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        Executor(**arguments)


def test_seeds_are_those_of_numpy_and_more_of_them_keep_the_first() -> None:
    data, filters = spawn(5, 3, 2)
    roots = np.random.SeedSequence(5).spawn(2)
    expected = [seed.generate_state(2).tolist() for seed in roots[0].spawn(3)]
    assert [seed.generate_state(2).tolist() for seed in data] == expected
    more, _ = spawn(5, 10, 2)
    assert [seed.spawn_key for seed in more[:3]] == [seed.spawn_key for seed in data]
    states = {tuple(seed.generate_state(4)) for seed in (*data, *filters)}
    assert len(states) == 5
