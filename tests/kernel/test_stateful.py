"""The whole interface in any order, against the reference, with `verify` after each call.

Hypothesis chooses the calls: symbols, missing symbols, new sequences, predictions, saving and
loading, copies, inspections, and calls that must fail and change nothing.
"""

from __future__ import annotations

import copy
import io
import math
import pickle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import mdvpf
from mdvpf import reference
from tests.algorithms import EVERY_ALGORITHM
from tests.kernel.comparing import Pair
from tests.kernel.inspecting import assert_same, laid_open
from tests.kernel.sealing import saved

N_OPERATIONS = 100_000
N_IN_A_SAMPLE = 2_000
N_STEPS = 50  # operations of one machine

symbols = st.integers(0, 3)
BAD_SYMBOLS: list[Any] = [-1, 4, 2**40, 1.0, math.nan, True, "a", [0], np.array([1])]


class Machine(RuleBasedStateMachine):
    """A filter and its reference; files and copies replace `core`."""

    n_done = 0  # operations of all machines

    @initialize(
        algorithm=st.sampled_from(sorted(EVERY_ALGORITHM)),
        oracle=st.sampled_from(["unvisited", "any"]),
        max_states=st.sampled_from([None, None, 2, 4]),
        history=st.sampled_from(["full", 1, 3, None]),
        n_particles=st.integers(1, 6),
        seed=st.integers(0, 1000),
    )
    def start(
        self,
        algorithm: str,
        oracle: str,
        max_states: int | None,
        history: Any,
        n_particles: int,
        seed: int,
    ) -> None:
        model = mdvpf.InfiniteHMM(4, gamma=2.0, oracle=oracle, max_states=max_states)
        self.pair = Pair(model, EVERY_ALGORITHM[algorithm], n_particles, seed=seed, history=history)
        self.n_seen = 0
        self.has_parted = False
        self.folder = TemporaryDirectory()

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.folder.cleanup()

    @property
    def core(self) -> mdvpf.ParticleFilter:
        return self.pair.core

    def take_over(self, core: mdvpf.ParticleFilter) -> None:
        """Continue with another filter, which must have the same state."""
        assert_same(core, laid_open(self.core))
        self.pair.core = self.pair.keyed.pf = core
        self.pair.generators = core.rng, self.pair.generators[1]

    @invariant()
    def counted(self) -> None:
        Machine.n_done += 1

    @invariant()
    @precondition(lambda self: hasattr(self, "pair"))
    def verified(self) -> None:
        self.core._core.verify()

    # -- symbols

    def absorb(self, symbol: int | None) -> None:
        if self.has_parted:
            self.core.update(symbol)
        else:
            # The last bit may decide otherwise: after that the reference is no longer comparable.
            self.has_parted = self.pair.update(symbol) is not None
        self.n_seen += 1

    @rule(symbol=symbols)
    def update(self, symbol: int) -> None:
        self.absorb(symbol)

    @rule()
    def update_missing(self) -> None:
        self.absorb(None)

    @rule(chunk=st.lists(st.one_of(symbols, st.none()), min_size=1, max_size=5))
    def run_as_updates(self, chunk: list[int | None]) -> None:
        twin = self.core.copy()
        for symbol in chunk:
            self.absorb(symbol)
        twin.run(chunk)
        assert_same(twin, laid_open(self.core))

    @rule()
    def new_sequence(self) -> None:
        if self.has_parted:
            self.core.new_sequence()
        else:
            self.has_parted = self.pair.new_sequence() is not None

    # -- files and copies

    @rule()
    def save_and_load(self) -> None:
        path = Path(self.folder.name) / "filter"
        self.core.save(path)
        self.take_over(mdvpf.ParticleFilter.load(path))
        assert path.read_bytes() == saved(self.core)

    @rule(protocol=st.integers(0, pickle.HIGHEST_PROTOCOL))
    def go_through_pickle(self, protocol: int) -> None:
        self.take_over(pickle.loads(pickle.dumps(self.core, protocol)))

    @rule(deep=st.booleans())
    def copy(self, deep: bool) -> None:
        self.take_over(copy.deepcopy(self.core) if deep else self.core.copy())

    # -- inspections

    @rule(symbol=symbols)
    def predict(self, symbol: int) -> None:
        prediction = self.core.predict_proba()
        np.testing.assert_allclose(prediction.sum(), 1.0, rtol=0.0, atol=1e-12)
        if not self.has_parted:
            particles = self.pair.slow.particles
            expected = reference.log_predictive(self.core.model, particles, symbol)
            np.testing.assert_allclose(
                prediction[symbol], math.exp(expected), rtol=1e-9, atol=1e-12
            )

    @rule(chunk=st.lists(symbols, min_size=1, max_size=3))
    def score(self, chunk: list[int]) -> None:
        before = laid_open(self.core)
        scores = self.core.score(chunk)
        assert_same(self.core, before)
        twin = self.core.copy()
        assert scores.tolist() == [twin.update(symbol).log_predictive for symbol in chunk]

    @rule()
    def look_at_paths(self) -> None:
        history = self.core.history
        if history is None:
            with pytest.raises(ValueError, match="history=None"):
                self.core.path()
            return
        length = self.n_seen if history == "full" else min(self.n_seen, history)
        for k in range(len(self.core.weights)):
            assert len(self.core.path(k)) == length
        if not self.has_parted:
            self.pair.compare_tables()

    @rule()
    def look_at_memory(self) -> None:
        memory = self.core.memory()
        assert 0 < memory.live <= memory.allocated
        assert memory.rows >= memory.shared_rows >= 0

    # -- calls that must fail

    @rule(symbol=st.sampled_from(range(len(BAD_SYMBOLS))))
    def bad_symbol(self, symbol: int) -> None:
        before = laid_open(self.core)
        bad = BAD_SYMBOLS[symbol]
        for call in (
            lambda: self.core.update(bad),
            lambda: self.core.run([0, bad]),
            lambda: self.core.score([bad]),
            lambda: self.core.run([0, 1], lengths=[1]),
            lambda: self.core.path(len(self.core.weights)),
            lambda: self.core.counts(-1),
        ):
            with pytest.raises((TypeError, ValueError)):
                call()
        assert_same(self.core, before)

    @rule(place=st.integers(0, 10**6), bit=st.integers(0, 7))
    def bad_file(self, place: int, bit: int) -> None:
        content = bytearray(saved(self.core))
        content[place % len(content)] ^= 1 << bit
        with pytest.raises(mdvpf.CheckpointError):
            mdvpf.ParticleFilter.load(io.BytesIO(bytes(content)))

    @rule(n=st.integers(0, 40), symbol=st.one_of(symbols, st.none()))
    def run_out_of_memory(self, n: int, symbol: int | None) -> None:
        twin = self.core.copy()
        twin._core._fail_allocation_after(n)
        try:
            twin.update(symbol)
        except MemoryError:
            twin._core._fail_allocation_after(-1)
            twin._core.verify()
            self.take_over(twin)


@pytest.mark.torture
def test_any_calls_in_any_order(torture_scale: float, capsys: pytest.CaptureFixture[str]) -> None:
    n_operations = N_OPERATIONS if torture_scale == 1.0 else N_IN_A_SAMPLE
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=n_operations * 3 // (2 * N_STEPS),  # some machines stop early
            stateful_step_count=N_STEPS,
            derandomize=True,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    with capsys.disabled():
        print(f"\nany calls in any order: {Machine.n_done:,} operations")
    assert Machine.n_done >= n_operations
