"""Real counts, Mealy rows, the oracle of rows and stickiness: filters as objects.

Like all filters, these continue with the same bits after a file or a copy, do not depend on chunks,
threads or settling, and stay unchanged after a failed allocation. In addition, faded counts take no
memory.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import mdvpf
from tests.algorithms import EVERY_ALGORITHM
from tests.extended_models import EXTENSIONS
from tests.kernel import test_allocation_failure, test_threads
from tests.kernel.inspecting import BREAK, Event, assert_same, feed, laid_open
from tests.kernel.sealing import loaded, saved

V = 5

FIVE = ("MD-VPA", "VPA", "SMC", "ParticleLearning", "OptimalResampling")

every_algorithm = pytest.mark.parametrize("algorithm", EVERY_ALGORITHM)
every_extension = pytest.mark.parametrize("extension", EXTENSIONS)


def make_filter(extension: str, algorithm: str, **options: Any) -> mdvpf.ParticleFilter:
    model = mdvpf.InfiniteHMM(V, beta=0.1, gamma=3.0, **EXTENSIONS[extension])
    options = {"n_particles": 8, "rng": 5, "history": "full", **options}
    return mdvpf.ParticleFilter(model, EVERY_ALGORITHM[algorithm], **options)


def mixed_events(n: int, *, breaks: bool = True) -> list[Event]:
    """Symbols that count upwards with jumps; some are missing, some start a sequence."""
    rng = np.random.default_rng(3)
    jumps = np.where(rng.random(n) < 0.4, rng.integers(V, size=n), 1)
    events: list[Event] = []
    for symbol in (np.cumsum(jumps) % V).tolist():
        if breaks and rng.random() < 0.06:
            events.append(BREAK)
        events.append(None if rng.random() < 0.1 else symbol)
    return events


# --- Files and copies


@pytest.mark.one_in(3)
@every_algorithm
@every_extension
def test_files_and_copies_continue_bit_for_bit(extension: str, algorithm: str) -> None:
    pf = make_filter(extension, algorithm)
    twins: list[mdvpf.ParticleFilter] = []
    for n, event in enumerate(mixed_events(100)):
        # At the start, while the population grows, and before and after rows are recounted.
        if n in (0, 2, 30, 61, 62, 63, 64, 65, 66, 67, 68):
            new = [loaded(saved(pf)), pf.copy()]
            for twin in new:
                twin._core.verify()
                assert_same(twin, laid_open(pf))
            twins += new
        feed(pf, [event])
        prediction = pf.predict_proba().tobytes()
        for twin in twins:
            feed(twin, [event])
            assert twin.predict_proba().tobytes() == prediction
            assert twin.log_evidence == pf.log_evidence
    expected = laid_open(pf)
    for twin in twins:
        twin._core.verify()
        assert_same(twin, expected)


@every_extension
def test_a_file_without_histories_and_with_a_large_alphabet_continues_bit_for_bit(
    extension: str,
) -> None:
    model = mdvpf.InfiniteHMM(300, beta=0.05, **EXTENSIONS[extension])
    for algorithm in ("MD-VPA", "SMC", "OptimalResampling"):
        pf = mdvpf.ParticleFilter(model, EVERY_ALGORITHM[algorithm], 30, rng=1)
        events = [e if not isinstance(e, int) else e * 61 for e in mixed_events(90)]
        feed(pf, events[:66])
        twin = loaded(saved(pf))
        feed(pf, events[66:])
        feed(twin, events[66:])
        assert_same(twin, laid_open(pf))


# --- Chunks and threads

FIELDS = ("log_predictive", "mean_states", "ess", "n_particles", "discarded")


@every_algorithm
@every_extension
def test_one_by_one_is_the_same_as_in_chunks(extension: str, algorithm: str) -> None:
    symbols: Any = mixed_events(140, breaks=False)
    lengths = [50, 1, 30, 59]
    starts = {0, 50, 51, 81}
    alone, chunked = (make_filter(extension, algorithm) for _ in range(2))
    steps = []
    for n, symbol in enumerate(symbols):
        if n in starts:
            alone.new_sequence()
        steps.append(alone.update(symbol))
    result = chunked.run(symbols, lengths)
    for name in FIELDS:
        one_by_one = np.array([getattr(step, name) for step in steps])
        assert np.array_equal(getattr(result, name), one_by_one), name
    assert_same(chunked, laid_open(alone))


@pytest.mark.parametrize("size", [1, 7, 64])
@every_extension
def test_the_size_of_chunks_does_not_matter(extension: str, size: int) -> None:
    symbols: Any = mixed_events(140, breaks=False)
    for algorithm in FIVE:
        whole, chunked = (make_filter(extension, algorithm) for _ in range(2))
        expected = whole.run(symbols).log_predictive
        parts = [
            chunked.run(symbols[start : start + size]).log_predictive
            for start in range(0, len(symbols), size)
        ]
        assert np.concatenate(parts).tobytes() == expected.tobytes()
        assert_same(chunked, laid_open(whole))


RICHEST = "mealy, rows, sticky, half-life 4"


@pytest.mark.parametrize(
    ("extension", "algorithm"),
    [
        *((RICHEST, algorithm) for algorithm in test_threads.ALGORITHMS),
        *((extension, mdvpf.VPA()) for extension in EXTENSIONS if extension != RICHEST),
        *((extension, mdvpf.MDVPA()) for extension in EXTENSIONS if extension != RICHEST),
    ],
)
def test_results_have_the_same_bits_for_any_number_of_threads(
    extension: str, algorithm: Any
) -> None:
    model = mdvpf.InfiniteHMM(6, beta=0.1, **EXTENSIONS[extension])
    symbols = [
        None if n % 11 == 7 else int(symbol)
        for n, symbol in enumerate(test_threads.stream(40, 6, seed=1))
    ]
    alone = test_threads.outcome(algorithm, symbols, 1, model)
    for n_threads in (2, 3):
        assert test_threads.outcome(algorithm, symbols, n_threads, model) == alone, n_threads


# --- Failed allocations

STREAM: list[Event] = list(test_allocation_failure.STREAM)
MOMENTS: dict[str, tuple[list[Event], Event]] = {
    "first symbol": ([], 0),
    "growing population": ([0, 0], 1),
    "steady state": (STREAM, 1),
    "first missing symbol": (STREAM, None),
    "after a missing symbol": ([*STREAM, None], 2),
    "first symbol of a sequence": ([*STREAM, BREAK], 2),
    "rows are counted afresh after it": ([*STREAM * 3, 2, 1], 3),  # MD-VPA completes step 62
    "rows were counted afresh": ([*STREAM * 3, 2, 1, 3], 3),
    "rows were counted afresh, with a look-ahead": ([*STREAM * 3, 2, 1, 3, 0], 3),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("algorithm", FIVE)
@every_extension
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_failed_update_changes_nothing(moment: str, extension: str, algorithm: str) -> None:
    before, symbol = MOMENTS[moment]
    make = test_allocation_failure.fed(algorithm, "full", before, **EXTENSIONS[extension])
    call = partial(test_allocation_failure.updated, symbol=symbol)
    n_fresh = test_allocation_failure.assert_survives_failures(make().copy, call)
    assert n_fresh > 10  # a copy has no work space yet
    n_grown = test_allocation_failure.assert_survives_failures(make, call)
    assert n_grown <= n_fresh


@pytest.mark.parametrize("algorithm", FIVE)
@every_extension
def test_a_filter_that_fails_over_and_over_is_the_same_filter(
    extension: str, algorithm: str
) -> None:
    # In place, over a step before which rows are recounted, and with states released.
    options = {"alpha": 10.0, **EXTENSIONS[extension]}
    pf, twin = (test_allocation_failure.make_filter(algorithm, 3, **options) for _ in range(2))
    test_allocation_failure.check_failures(
        pf, twin, [*STREAM, None, *STREAM[::-1], None, *STREAM, *STREAM[:6]]
    )


@every_extension
def test_failed_calls_of_every_kind_change_nothing(extension: str) -> None:
    every = ("MD-VPA", "MD-VPA optimal", "VPA", "SMC", "OptimalResampling")
    for algorithm in every if extension == RICHEST else ("MD-VPA optimal", "SMC"):
        make = test_allocation_failure.fed(algorithm, "full", STREAM, **EXTENSIONS[extension])
        for call in (
            lambda pf: pf.new_sequence(),
            lambda pf: pf.copy(),
            lambda pf: pf.predict_proba(),
            lambda pf: pf.score([1, None, 2], [2, 1]),
        ):
            test_allocation_failure.assert_survives_failures(make().copy, call)


# --- Settling


@pytest.mark.one_in(3)
@every_algorithm
@every_extension
@pytest.mark.parametrize("history", ["full", 3])
def test_settling_after_every_step_changes_no_bit(
    history: int | str | None, extension: str, algorithm: str
) -> None:
    twin = make_filter(extension, algorithm, history=history)
    pf = make_filter(extension, algorithm, history=history)
    pf._core._settle_every(1)
    for n, event in enumerate(mixed_events(90)):
        feed(twin, [event])
        feed(pf, [event])
        pf._core.verify()
        if n % 8 == 0:
            assert_same(pf, laid_open(twin))
        else:
            assert pf.predict_proba().tobytes() == twin.predict_proba().tobytes()
    assert_same(pf, laid_open(twin))


# --- Faded counts take no memory


def drifting_symbols(n: int, n_symbols: int) -> list[int]:
    """Three neighbouring symbols at a time; after every 40 the first of them is dropped."""
    rng = np.random.default_rng(0)
    return ((np.arange(n) // 40 + rng.integers(3, size=n)) % n_symbols).tolist()


@pytest.mark.parametrize("algorithm", FIVE)
@pytest.mark.parametrize(
    "extension",
    [
        {"oracle": "rows"},
        {"oracle": "rows", "machine": "mealy"},
        {"oracle": "any", "kappa": 0.5},
    ],
    ids=str,
)
def test_released_states_are_freed(extension: dict[str, Any], algorithm: str) -> None:
    # A new state is likely, and a known state is unlikely to emit a symbol new to it.
    model = mdvpf.InfiniteHMM(60, alpha=3.0, gamma=100.0, beta=0.002, half_life=20.0, **extension)
    pf = mdvpf.ParticleFilter(model, EVERY_ALGORITHM[algorithm], 50, rng=1, history=5)
    live: dict[int, list[int]] = {2000: [], 5000: []}
    allocated: dict[int, list[int]] = {2000: [], 5000: []}
    for n, symbol in enumerate(drifting_symbols(5000, 60), 1):
        step = pf.update(symbol)
        for end in live:
            if end - 400 < n <= end and n % 20 == 0:
                live[end].append(pf.memory().live)
                allocated[end].append(pf.memory().allocated)
        if n % 250 == 0:
            pf._core.verify()
    assert pf.n_states.min() > 2 * step.mean_states  # few of all states ever made remain
    assert np.mean(live[5000]) < 1.5 * np.mean(live[2000])
    assert np.mean(allocated[5000]) < 1.5 * np.mean(allocated[2000])


@pytest.mark.parametrize("algorithm", ["MD-VPA", "VPA", "SMC"])
def test_released_states_are_in_no_file(algorithm: str) -> None:
    model = mdvpf.InfiniteHMM(60, alpha=3.0, gamma=100.0, beta=0.002, half_life=20.0, oracle="rows")
    pf = mdvpf.ParticleFilter(model, EVERY_ALGORITHM[algorithm], 50, rng=1)
    symbols = drifting_symbols(5000, 60)
    sizes = []
    for start in range(0, 5000, 200):
        pf.run(symbols[start : start + 200])
        sizes.append(len(saved(pf)))
    assert np.mean(sizes[-5:]) < 1.5 * np.mean(sizes[5:10])
    twin = loaded(saved(pf))
    twin._core.verify()
    assert twin.run(symbols[:200]).log_predictive.tobytes() == (
        pf.run(symbols[:200]).log_predictive.tobytes()
    )


@pytest.mark.parametrize("half_life", [3.0, 5.0])
@pytest.mark.parametrize("seed", range(4))
def test_no_bit_depends_on_when_records_are_settled_and_states_released(
    seed: int, half_life: float
) -> None:
    # Transitions fade and are made again all the time: only their order in a row differs.
    symbols = np.random.default_rng(seed).integers(0, 4, 1500).tolist()
    model = mdvpf.InfiniteHMM(4, alpha=3.0, beta=0.3, half_life=half_life, oracle="any")
    found = set()
    for interval in (256, 1, 10**9):
        pf = mdvpf.ParticleFilter(model, mdvpf.VPA(), 12)
        pf._core._settle_every(interval)
        pf._core._release_every(interval)
        found.add(pf.run(symbols).log_predictive.tobytes())
    assert len(found) == 1


def test_equal_columns_of_released_particles_are_saved_and_loaded() -> None:
    # Whole weights make groups of columns equal, in the tree of a large alphabet.
    rng = np.random.default_rng(61)
    m = int(rng.integers(8, 30))
    symbols = np.concatenate([4 * rng.integers(0, 10, m), np.full(int(1024 * m * 0.8), 299)])
    alpha, gamma = float(rng.choice([1, 5, 20])), float(rng.choice([1.0, 5.0]))
    beta = float(rng.choice([0.003, 0.3, 3.0]))
    model = mdvpf.InfiniteHMM(300, alpha=alpha, gamma=gamma, beta=beta, forget=1.0)
    pf = mdvpf.ParticleFilter(model, mdvpf.VPA(), n_particles=3)
    pf._core._release_every(16)
    pf.run(symbols)
    twin = loaded(saved(pf))
    assert twin.predict_proba().tobytes() == pf.predict_proba().tobytes()
