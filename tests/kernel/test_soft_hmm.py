"""The compiled `SoftHMM` against its plain twin, and its hazards of memory, chunks and range."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mdvpf
from tests.kernel.inspecting import BREAK, Event, feed
from tests.kernel.sealing import loaded, saved
from tests.soft_hmm_twin import SoftTwin

every_machine = pytest.mark.parametrize("machine", ["mealy", "moore"])


def events_of(n: int, n_symbols: int, seed: int, missing: float = 0.1) -> list[Event]:
    """Symbols of an HMM, some of them missing, with ends of sequences between them."""
    rng = np.random.default_rng(seed)
    hmm = mdvpf.datasets.random_hmm(3, n_symbols, transition=0.3, emission=0.3, rng=rng)
    symbols = mdvpf.datasets.sample_hmms([hmm], [max(n, 1)], rng).symbols.tolist()[:n]
    found: list[Event] = []
    for symbol in symbols:
        if rng.random() < 0.1:
            found.append(BREAK)
        found.append(None if rng.random() < missing else symbol)
    return found


def twin_of(learner: mdvpf.SoftHMM) -> SoftTwin:
    return SoftTwin(**learner._options(), key=int(learner._keys[0]))


# --- Against the twin


@every_machine
@pytest.mark.parametrize("lag", [0, 1, 2, 3])
@pytest.mark.parametrize("forget", [0.0, 2.5])
def test_it_equals_the_twin_symbol_by_symbol(machine: str, lag: int, forget: float) -> None:
    learner = mdvpf.SoftHMM(4, 5, machine, forget, lag, alpha=0.7, gamma=3.0, beta=0.2, rng=lag + 1)
    twin = twin_of(learner)
    # Past the first refresh of the base and the first soft counts, at 1,000.
    for i, event in enumerate(events_of(1500, 4, seed=3)):
        if isinstance(event, str):
            learner.new_sequence()
            twin.new_sequence()
        else:
            found = learner.update(event).log_predictive
            assert found == pytest.approx(twin.update(event), rel=0.0, abs=1e-9)
        if i % 50 == 0:
            np.testing.assert_allclose(
                learner.predict_proba(), twin.predict_proba(), rtol=0.0, atol=1e-9
            )


@pytest.mark.parametrize("n_states", [1, 3, 4, 7])
def test_it_equals_the_twin_whatever_the_padding(n_states: int) -> None:
    learner = mdvpf.SoftHMM(3, n_states, rng=8)
    twin = twin_of(learner)
    events = [event for event in events_of(1300, 3, seed=4) if event != BREAK]
    for event in events:
        assert not isinstance(event, str)
        found = learner.update(event).log_predictive
        assert found == pytest.approx(twin.update(event), rel=0.0, abs=1e-9)


def test_large_powers_of_forgetting_are_rescaled_and_equal_the_twin() -> None:
    learner = mdvpf.SoftHMM(3, 4, forget=40.0, rng=8)
    twin = twin_of(learner)
    for event in events_of(1300, 3, seed=5):
        if isinstance(event, str):
            learner.new_sequence()
            twin.new_sequence()
            continue
        found = learner.update(event).log_predictive
        assert found == pytest.approx(twin.update(event), rel=0.0, abs=1e-9)
    assert learner._tables.shift > 100


def test_seeds_are_mixed_by_their_evidence() -> None:
    learner = mdvpf.SoftHMM(3, 4, rng=2, n_seeds=3)
    twins = []
    for key in learner._keys.tolist():
        twins.append(SoftTwin(**learner._options(), key=key))
    evidence = np.zeros(3)
    for event in events_of(1200, 3, seed=6):
        if isinstance(event, str):
            feed(learner, [event])
            for twin in twins:
                twin.new_sequence()
            continue
        weights = np.exp(evidence - evidence.max())
        weights /= weights.sum()
        np.testing.assert_allclose(learner.weights, weights, rtol=0.0, atol=1e-9)
        log_predictives = np.array([twin.update(event) for twin in twins])
        step = learner.update(event)
        expected = np.log(weights @ np.exp(log_predictives))
        assert step.log_predictive == pytest.approx(expected, rel=0.0, abs=1e-9)
        evidence += log_predictives


# --- Chunks, copies, memory


@every_machine
@pytest.mark.parametrize("n_seeds", [1, 3])
def test_chunks_and_single_symbols_give_the_same_bits(machine: str, n_seeds: int) -> None:
    stream = np.random.default_rng(1).integers(5, size=2500)
    symbols = np.ma.masked_array(stream, stream == 4)
    whole, parts, single = (mdvpf.SoftHMM(4, 6, machine, rng=5, n_seeds=n_seeds) for _ in range(3))
    result = whole.run(symbols)
    parts.run(symbols[:7])
    parts.run(symbols[7:1003])
    parts.run(symbols[1003:])
    steps = [single.update(symbol) for symbol in symbols.tolist()]
    assert [step.log_predictive for step in steps] == result.log_predictive.tolist()
    assert [step.mean_states for step in steps] == result.mean_states.tolist()
    assert saved(whole) == saved(parts) == saved(single)


@every_machine
@pytest.mark.parametrize("lag", [0, 2])
def test_a_copy_shares_nothing(machine: str, lag: int) -> None:
    learner = mdvpf.SoftHMM(4, 5, machine, lag=lag, rng=5, n_seeds=2)
    feed(learner, events_of(300, 4, seed=1))
    before = saved(learner)
    other = learner.copy()
    assert saved(other) == before
    feed(other, events_of(300, 4, seed=2))
    assert saved(learner) == before
    del other
    twin = loaded(before)
    feed(learner, events_of(300, 4, seed=3))
    feed(twin, events_of(300, 4, seed=3))
    assert saved(twin) == saved(learner)


@every_machine
@pytest.mark.parametrize("n_before", [0, 1, 5, 60, 1100])
@pytest.mark.parametrize("event", [0, 6, None, BREAK])
def test_a_failed_allocation_changes_nothing(machine: str, n_before: int, event: Event) -> None:
    start = mdvpf.SoftHMM(7, 5, machine, rng=5, n_seeds=2)
    feed(start, events_of(n_before, 6, seed=1))
    before = saved(start)
    after = start.copy()
    feed(after, [event])
    for n in range(100):
        learner = start.copy()
        learner._tables._fail_allocation_after(n)
        try:
            feed(learner, [event])
        except MemoryError:
            learner._tables._fail_allocation_after(-1)
            assert saved(learner) == before
            feed(learner, [event])
            assert saved(learner) == saved(after)
        else:
            assert saved(learner) == saved(after)
            assert n > 0 or event != 6  # the table has to grow for a symbol not seen before
            return
    raise AssertionError("the step allocates without end")


def test_a_failed_allocation_in_a_run_leaves_it_between_two_symbols() -> None:
    symbols = np.arange(60) % 20
    learner = mdvpf.SoftHMM(20, 5, rng=5)
    learner._tables._fail_allocation_after(10)
    with pytest.raises(MemoryError):
        learner.run(symbols)
    learner._tables._fail_allocation_after(-1)
    n = learner._tables.n_steps
    assert 0 < n < 60
    twin = mdvpf.SoftHMM(20, 5, rng=5)
    twin.run(symbols[:n])
    assert saved(twin) == saved(learner)


def test_a_large_alphabet_takes_memory_only_where_it_is_used() -> None:
    learner = mdvpf.SoftHMM(2**31 - 2, 40, beta=1e-9, rng=0)
    learner.run([2**31 - 3, 5, 2**31 - 3, 5, 7] * 300)
    n_rows, n_columns, _ = learner._tables.sizes
    assert n_columns == 3
    assert n_rows <= 1 + 3 * 40
    assert all(np.isfinite(learner.update(y).log_predictive) for y in (5, 6, 7, None))


def test_many_symbols_are_all_found_again() -> None:
    rng = np.random.default_rng(3)
    symbols = rng.permutation(3000)[:2000]
    learner = mdvpf.SoftHMM(3000, 3, machine="moore", rng=0, forget=0.0)
    learner.run(symbols)
    assert learner._tables.sizes[1] == 2000
    emission = learner.to_hmm().emission
    unseen = np.setdiff1d(np.arange(3000), symbols[:-2])
    # Symbols that wait for their lag are not counted.
    assert emission[:, unseen].max() < emission[:, symbols[:-2]].sum(axis=0).min()


# --- Range


@pytest.mark.parametrize("forget", [0.0, 4.0, 100.0])
def test_numbers_stay_finite_after_a_million_symbols(forget: float) -> None:
    rng = np.random.default_rng(0)
    learner = mdvpf.SoftHMM(4, 4, forget=forget, rng=0)
    symbols = rng.integers(2, size=10**6)
    symbols[::1000] = 3
    result = learner.run(symbols)
    assert np.all(np.isfinite(result.log_predictive))
    assert np.all(np.isfinite(learner.predict_proba()))
    assert learner.predict_proba().sum() == pytest.approx(1.0, rel=0.0, abs=1e-9)
    assert all(np.all(np.isfinite(array)) for array in learner._exported().values())
    assert result.log_predictive[-10_000:].mean() > -1.0
    loaded(saved(learner))


@every_machine
@pytest.mark.parametrize("alpha", [1e-60, 1e60])
@pytest.mark.parametrize("gamma", [1e-60, 1e60])
@pytest.mark.parametrize("beta", [1e-60, 1e60])
@pytest.mark.parametrize("forget", [0.0, 100.0])
def test_extreme_parameters_give_finite_numbers(
    machine: str, alpha: float, gamma: float, beta: float, forget: float
) -> None:
    learner = mdvpf.SoftHMM(5, 6, machine, forget, 3, alpha, gamma, beta, rng=0, n_seeds=2)
    for event in [*events_of(2100, 4, seed=2), 4, 4, None, 4, BREAK, 4]:
        if isinstance(event, str):
            learner.new_sequence()
        else:
            assert np.isfinite(learner.update(event).log_predictive)
    for predictor in (learner, learner.freeze()):
        assert predictor.predict_proba().sum() == pytest.approx(1.0, rel=0.0, abs=1e-9)
    loaded(saved(learner))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros(2, np.int32), np.full(1, -1, np.int32), np.zeros((2, 6))), "same length"),
        ((np.zeros(2, np.int32), np.full(2, -1, np.int32), np.zeros((2, 5))), "same length"),
        ((np.full(1, 9, np.int32), np.full(1, -1, np.int32), np.zeros((1, 6))), "alphabet"),
        ((np.full(1, -2, np.int32), np.full(1, -1, np.int32), np.zeros((1, 6))), "alphabet"),
    ],
)
def test_the_boundary_checks_its_arguments(arguments: tuple[Any, ...], message: str) -> None:
    tables = mdvpf.SoftHMM(3, 2)._tables
    with pytest.raises(ValueError, match=message):
        tables.advance(*arguments)
    with pytest.raises(ValueError, match="out"):
        tables.predict(np.empty(2))
