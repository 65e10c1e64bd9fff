"""A filter beside its reference: everything is compared after every step.

The two may only part where the last bit decides (`edges`). Every other difference fails.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mdvpf
from mdvpf import reference
from mdvpf.model.algorithms import Algorithm
from mdvpf.reference import ReferenceFilter, standing
from tests.kernel.edges import (
    DRAWS_OR_NOT,
    NEAR,
    NEAR_ROUNDED,
    edge_of_completion,
    edge_of_learning,
    edge_of_optimal,
    edge_of_smc,
    edge_of_top,
)
from tests.kernel.inspecting import Event, Shown, Symbol, generator_state, n_absorbed, shown
from tests.kernel.keyed import End, KeyedFilter, Use

Edge = tuple[str, str]  # where a last bit decides, and the algorithm


@dataclass(frozen=True)
class Keep:
    """An event: from the next symbol on, at most n particles are kept."""

    n: int


@dataclass(frozen=True)
class Tolerance:
    """How far core and reference may be apart."""

    log_predictive: float  # absolute
    weights: float  # absolute and relative; of all fields of `Step`, and of predictions
    total: float  # of a prediction: how far it may be from 1
    counts: float  # relative
    slack: float  # of scores, in excess of the rounding of doubles
    near: float  # of cumulative sums, relatively


EXACT = Tolerance(1e-10, 1e-9, 1e-10, counts=0.0, slack=0.0, near=NEAR)

# Sums of rounded counts are not the rounded sums, so predictions do not sum to one exactly.
ROUNDED = Tolerance(1e-7, 1e-7, 1e-5, counts=1e-6, slack=NEAR_ROUNDED, near=NEAR_ROUNDED)

NEGLIGIBLE = 2.0**-30  # an emission count that the core need not keep


class Pair:
    """The compiled filter and its reference, with the same symbols and the same seed.

    If the core holds counts in 32 bits, the reference rounds in the same way. `update` and
    `new_sequence` compare everything afterwards. They return None while the two agree, and the edge
    at which they parted if the last bit decided. After that nothing is compared.

    If the last bit only decides whether a uniform is drawn, the generators are synchronised, and
    the comparison goes on.
    """

    def __init__(
        self,
        model: mdvpf.InfiniteHMM,
        algorithm: Algorithm,
        n_particles: int,
        *,
        seed: int = 0,
        history: int | str | None = "full",
        verify: bool = True,
    ) -> None:
        self.verify = verify  # after every step: it takes long for thousands of particles
        self.generators = np.random.default_rng(seed), np.random.default_rng(seed)
        self.core = mdvpf.ParticleFilter(
            model, algorithm, n_particles, rng=self.generators[0], history=history
        )
        self.core._core._settle_every(1 + seed % 3)  # by itself it does so after hundreds of steps
        rounding = model.has_real_counts
        self.tolerance = ROUNDED if rounding else EXACT
        self.slow = ReferenceFilter(
            model, algorithm, n_particles, rng=self.generators[1], rounding=rounding
        )
        self.pending: list[Use] = []  # the symbol that MD-VPA holds back, if there is one
        self.pending_kept = n_particles  # how many survive its step
        self.keyed = KeyedFilter(self.core)
        self.edge: Edge | None = None  # at which they parted
        self.n_synchronised = 0  # steps in which one of them drew a uniform and the other did not

    def keep(self, n: int) -> None:
        """Let both keep at most n particles from the next symbol on."""
        self.core._keep(n)
        self.slow._keep(n)

    def follow(
        self, events: Iterable[Event | Use | End | Keep], *, predictions: int = 3, tables: int = 1
    ) -> Edge | None:
        """Feed events until the two part; compare predictions and tables at intervals."""
        for number, event in enumerate(events):
            if isinstance(event, Keep):
                self.keep(event.n)
                continue
            if isinstance(event, str):
                edge = self.new_sequence()
            elif isinstance(event, End):
                edge = self.new_sequence(event.key)
            else:
                use = event if isinstance(event, Use) else Use(event)
                edge = self.update(
                    use.symbol,
                    use.key,
                    compare_predictions=number % predictions == 0,
                    compare_tables=number % tables == 0,
                )
            if edge is not None:
                return edge
        self.core._core.verify()
        self.compare_prediction()
        self.compare_tables()
        return None

    def update(
        self,
        symbol: Symbol,
        key: Any = None,
        *,
        compare_predictions: bool = True,
        compare_tables: bool = True,
    ) -> Edge | None:
        edges = self._edges(symbol, key, ends=False)
        found = (
            self.core.update(symbol) if self._has_one_key(key) else self.keyed.update(symbol, key)
        )
        expected = self.slow.update(symbol, key)
        if self.verify:
            self.core._core.verify()
        # The prediction is fixed before the symbol is used, so it does not depend on the selection.
        np.testing.assert_allclose(
            found.log_predictive,
            expected.log_predictive,
            rtol=0.0,
            atol=self.tolerance.log_predictive,
        )
        edge = self._edge_between(edges)
        if edge is not None:
            return edge
        for name in ("mean_states", "ess", "discarded"):
            np.testing.assert_allclose(
                getattr(found, name),
                getattr(expected, name),
                rtol=self.tolerance.weights,
                atol=self.tolerance.weights,
                err_msg=name,
            )
        assert found.n_particles == expected.n_particles
        self._compare_rest(compare_predictions, compare_tables)
        return None

    def new_sequence(self, key: Any = None) -> Edge | None:
        edges = self._edges(None, key, ends=True)
        if self._has_one_key(key):
            self.core.new_sequence()
        else:
            self.keyed.new_sequence(key)
        self.slow.new_sequence(key)
        self.core._core.verify()
        edge = self._edge_between(edges)
        if edge is not None:
            return edge
        if self.slow.particles[0].key == key:
            assert np.all(self.core.states == reference.START)
        self._compare_rest(True, True)
        return None

    def _has_one_key(self, key: Any) -> bool:
        """Whether no key was ever named, so that the filter is called without keys."""
        return key is None and not self.keyed.numbers

    def _compare_rest(self, predictions: bool, tables: bool) -> None:
        if predictions:
            for key in (None, *list(self.keyed.numbers)[-2:]):
                self.compare_prediction(key)
        if tables:
            self.compare_tables()
        np.testing.assert_allclose(
            self.core.log_evidence,
            self.slow.log_evidence,
            rtol=1e-12,
            atol=10 * self.tolerance.log_predictive,
        )
        assert generator_state(self.generators[0]) == generator_state(self.generators[1])
        assert self.core._core.n_steps == self.slow.n_steps

    def _same_survivors(self) -> bool:
        """Whether both show the same particles, with the same weights."""
        found = shown(self.core)
        expected = self.slow.particles
        same = (
            found.states.tolist() == [particle.state for particle in expected]
            and found.n_states.tolist() == [particle.n_states for particle in expected]
            and (
                n_absorbed(self.core) == 0
                or found.parents.tolist() == [particle.parent for particle in expected]
            )
        )
        weights = [particle.weight for particle in expected]
        most = self.tolerance.weights
        return same and bool(np.allclose(found.weights, weights, rtol=most, atol=most))

    def compare_prediction(self, key: Any = None) -> None:
        """Compare the predictions for a key; of a large alphabet, for some symbols only.

        The prediction is divided by its sum, which differs from one because counts are rounded.
        """
        found = self.keyed.predict_proba(key)
        if self._has_one_key(key):
            assert np.array_equal(found, self.core.predict_proba())
        np.testing.assert_allclose(found.sum(), 1.0, rtol=0.0, atol=self.tolerance.total)
        n = self.core.n_symbols + self.core.is_open
        assert len(found) == n
        symbols = range(n) if n <= 12 else sorted({0, 1, n // 3, n // 2, n - 2, n - 1})
        logs = [
            reference.log_predictive(
                self.core.model,
                [standing(particle, key) for particle in self.slow.particles],
                symbol,
            )
            for symbol in symbols
        ]
        expected = np.exp(logs)
        most = self.tolerance.weights
        if self.core.model.fades:
            if len(symbols) == n:
                expected /= expected.sum()
            else:
                most = 1e-6
        np.testing.assert_allclose(found[list(symbols)], expected, rtol=most, atol=1e-10)

    def compare_tables(self) -> None:
        """Compare the counts and the path of every particle."""
        for k, particle in enumerate(self.slow.particles):
            expected = particle.counts(self.core.n_symbols)
            for found, table in zip(self.core.counts(k), expected, strict=True):
                if self.tolerance.counts == 0.0:
                    assert np.array_equal(found, table)
                else:
                    self.compare_table(found, table)
            if self.core.history == "full":
                assert self.core.path(k).tolist() == particle.path
            elif self.core.history is not None:
                assert self.core.path(k).tolist() == particle.path[-self.core.history :]

    def compare_table(self, found: NDArray[Any], expected: NDArray[Any]) -> None:
        """Compare counts that were rounded; those that do not fade are integers."""
        assert found.shape == expected.shape
        if expected.dtype == np.float64:
            assert found.dtype == np.float64
            np.testing.assert_allclose(found, expected, rtol=self.tolerance.counts, atol=NEGLIGIBLE)
        else:
            assert np.array_equal(found, expected)

    # -- where they may part

    def _edge_between(self, edges: list[Callable[[Shown], str | None]]) -> Edge | None:
        """Return None if both are the same, and otherwise the edge at which they parted."""
        same_survivors = self._same_survivors()
        if same_survivors and self._draws_apart() == 0:
            return None
        self.edge = self._explained(edges)
        if self.edge[0] == DRAWS_OR_NOT and same_survivors and self._draws_apart() == 1:
            core, slow = self.generators
            slow.bit_generator.state = core.bit_generator.state
            self.n_synchronised += 1
            self.edge = None
        return self.edge

    def _draws_apart(self) -> int | None:
        """How many uniforms one has drawn more than the other: 0, 1, or None for more."""
        states = [generator_state(generator) for generator in self.generators]
        if states[0] == states[1]:
            return 0
        copies = copy.deepcopy(self.generators)
        for generator in copies:
            generator.random()
        ahead = [generator_state(generator) for generator in copies]
        return 1 if ahead[0] == states[1] or ahead[1] == states[0] else None

    def _explained(self, edges: list[Callable[[Shown], str | None]]) -> Edge:
        found = shown(self.core)
        for edge in edges:
            reason = edge(found)
            if reason is not None:
                return reason, type(self.core.algorithm).__name__
        raise AssertionError(
            f"core and reference differ after {n_absorbed(self.core)} symbols, "
            f"and no last bit explains it: {self.core!r}"
        )

    def _edges(
        self, symbol: Symbol, key: Any, *, ends: bool
    ) -> list[Callable[[Shown], str | None]]:
        """Return functions that find the edges at which the coming step may part them."""
        model, k = self.core.model, self.core._kept
        slack, near = self.tolerance.slack, self.tolerance.near
        committed = self.slow.committed
        before = [standing(particle, key) for particle in committed]
        uniforms = copy.deepcopy(self.generators[1])
        algorithm = self.core.algorithm
        if isinstance(algorithm, mdvpf.VPA):
            return (
                []
                if ends
                else [
                    lambda found: edge_of_top(
                        model,
                        before,
                        symbol,
                        k,
                        found,
                        self.slow.particles,
                        carry_weights=algorithm.carry_weights,
                        slack=slack,
                    )
                ]
            )
        if isinstance(algorithm, mdvpf.SMC):
            return (
                []
                if ends
                else [lambda _: edge_of_smc(model, before, symbol, algorithm, uniforms, near)]
            )
        if isinstance(algorithm, mdvpf.ParticleLearning):
            return (
                [] if ends else [lambda _: edge_of_learning(model, before, symbol, uniforms, near)]
            )
        if isinstance(algorithm, mdvpf.OptimalResampling):
            scores = [c.log_score for c in reference.expand(model, before, symbol)]
            return [] if ends else [lambda _: edge_of_optimal(scores, k, uniforms.random, near)]
        if not isinstance(algorithm, mdvpf.MDVPA):  # one that has nothing to explain yet
            return []
        waiting, self.pending = self.pending, [] if ends else [Use(symbol, key)]
        waiting_kept, self.pending_kept = self.pending_kept, k
        n = self.slow.n_steps + 1

        def completed(_: Shown) -> str | None:
            if not waiting:
                return None
            lookahead = None if ends or key != waiting[0].key else symbol
            return edge_of_completion(
                model,
                committed,
                waiting[0].symbol,
                lookahead,
                self.core.n_particles,
                algorithm,
                n,
                uniforms,
                n_kept=waiting_kept,
                slack=slack,
                near=near,
            )

        def provisional(found: Shown) -> str | None:
            if ends:
                return None
            return edge_of_top(
                model,
                self.slow.committed,
                symbol,
                k,
                found,
                self.slow.particles,
                carry_weights=algorithm.carry_weights,
                slack=slack,
            )

        return [completed, provisional]
