"""Settings and fixtures that every test shares.

Environment variables:

MDVPF_DATA
    Folder of the real data. Tests that need it are skipped without.
MDVPF_REQUIRE_DATA=1
    Fail such tests instead of skipping them.
MDVPF_TORTURE=sample|full
    How much the tests marked `torture` do.
HYPOTHESIS_PROFILE=explore
    Draw new examples in every run, and more of them.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import settings

# The same examples in every run: a failure is found again, and passing does not depend on luck.
settings.register_profile("default", derandomize=True, deadline=None)
settings.register_profile("explore", derandomize=False, deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# A shell starts background jobs with SIGINT ignored, but some tests send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

TORTURE_SCALES = {"sample": 0.03, "full": 1.0}

# Tests of pages, layers and benchmarks. All others also run where only the package is installed.
ABOUT_THE_SOURCE_TREE = (
    "test_benchmarks.py",
    "test_core_layers.py",
    "test_house.py",
    "test_readme.py",
    "test_service_recipes.py",
)
SOURCE_TREE = Path(__file__).resolve().parents[1]


class WithoutSourceTree(pytest.File):
    """A file whose tests are skipped, without importing it."""

    def collect(self) -> Iterable[pytest.Item]:
        pytest.skip(f"needs the source tree, and {SOURCE_TREE} is none", allow_module_level=True)


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path, parent: pytest.Collector
) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    collectors = yield
    if file_path.name in ABOUT_THE_SOURCE_TREE and not (SOURCE_TREE / "setup.py").exists():
        return [WithoutSourceTree.from_parent(parent, path=file_path)]
    return collectors


class Combinations:
    """Numbers of combinations of parameters, for `one_in`.

    The number of a combination is the sum of its positions along the axes. So if one in n numbers
    is used, every value of every axis is tested, and meets many values of the other axes.
    """

    def __init__(self) -> None:
        self._positions: dict[tuple[object, object], dict[str, int]] = {}

    def number(self, item: pytest.Function) -> int:
        total = 0
        for mark in item.iter_markers("parametrize"):
            axis = mark.args[0]
            names = axis.split(",") if isinstance(axis, str) else axis
            value = repr([item.callspec.params[name.strip()] for name in names])
            known = self._positions.setdefault((item.function, str(axis)), {})
            total += known.setdefault(value, len(known))
        return total


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of tests marked `one_in(n)`, leave all but one in n combinations to the full torture run."""
    is_full = os.environ.get("MDVPF_TORTURE") == "full"
    left_out = []
    combinations = Combinations()
    for item in items:
        mark = item.get_closest_marker("one_in")
        if mark is None or combinations.number(item) % mark.args[0] == 0:
            continue
        left_out.append(item)
        item.add_marker(pytest.mark.torture)
    if left_out and not is_full:
        excluded = set(left_out)
        items[:] = [item for item in items if item not in excluded]
        config.hook.pytest_deselected(items=left_out)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder of the real data that MDVPF_DATA names; skips the test if there is none."""
    name = os.environ.get("MDVPF_DATA")
    if name and Path(name).is_dir():
        return Path(name)
    without_data(f"MDVPF_DATA={name!r} is not a folder" if name else "MDVPF_DATA is not set")


@pytest.fixture(scope="session")
def pautomac_dir(data_dir: Path) -> Path:
    """The folder that has the problems of PAutomaC in `pautomac`; skips the test without them."""
    if not (data_dir / "pautomac").is_dir():
        without_data(f"{data_dir} has no folder pautomac")
    return data_dir


def without_data(reason: str) -> NoReturn:
    """Skip a test for want of real data, or fail it if data is required."""
    if os.environ.get("MDVPF_REQUIRE_DATA", "0") != "0":
        pytest.fail(f"real data is required (MDVPF_REQUIRE_DATA), but {reason}", pytrace=False)
    pytest.skip(f"needs real data, but {reason}")


@pytest.fixture(scope="session")
def torture_scale() -> float:
    """Share of the full work of a torture test: multiply the number of runs by it."""
    name = os.environ.get("MDVPF_TORTURE", "sample")
    if name not in TORTURE_SCALES:
        pytest.fail(f"MDVPF_TORTURE={name!r}: expected 'sample' or 'full'", pytrace=False)
    return TORTURE_SCALES[name]


@pytest.fixture
def full_torture(torture_scale: float) -> None:
    """Skip a test that cannot be shortened, unless the torture tests run in full."""
    if torture_scale < 1.0:
        pytest.skip("takes minutes: only with MDVPF_TORTURE=full")
