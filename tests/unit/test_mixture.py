"""Mixtures: what they compute, against plain sums; what they promise, on any data."""

from __future__ import annotations

import gc
import math
import signal
import weakref
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

import mdvpf
from mdvpf.baselines.base import Baseline
from mdvpf.predictor import MISSING

SYMBOLS = [0, 1, 2, 1, 0, 0, None, 2, 1, 1, 0, 2, 2, 2, 2, 1, 0, 1, 2, 0] * 3


class Scripted(Baseline):
    """Predicts from a table, a row a symbol; starts again from the first row when copied."""

    def __init__(self, table: NDArray[np.float64]) -> None:
        super().__init__(table.shape[1])
        self.table = table
        self.row = 0

    def _size(self) -> int:
        return 1

    def new_sequence(self) -> None:
        pass

    def predict_proba(self) -> NDArray[np.float64]:
        return self.table[self.row]

    def _advance(self, symbol: int, number: int) -> float:
        row = self.table[self.row]
        self.row += 1
        if symbol == MISSING:
            return 0.0
        return math.log(row[symbol]) if row[symbol] > 0 else -math.inf


def some_members(n_symbols: int = 3) -> list[mdvpf.Predictor]:
    model = mdvpf.InfiniteHMM(n_symbols, beta=0.1)
    return [
        mdvpf.ParticleFilter(model, mdvpf.MDVPA(), 20),
        mdvpf.ParticleFilter(model, mdvpf.SMC(), 20, rng=3),
        mdvpf.Markov(n_symbols, order=1),
        mdvpf.ContextTree(n_symbols),
    ]


def plain_fixed_share(
    tables: list[NDArray[np.float64]], symbols: list[int], share: float | str
) -> tuple[list[float], list[list[float]]]:
    """Predictives and weights of fixed share, with plain numbers instead of logs."""
    weights = [1 / len(tables)] * len(tables)
    predictives, used = [], []
    for t, symbol in enumerate(symbols):
        used.append(weights)
        joint = [w * table[t][symbol] for w, table in zip(weights, tables, strict=True)]
        predictives.append(sum(joint))
        a = 1 / (t + 2) if isinstance(share, str) else share
        weights = [(1 - a) * j / sum(joint) + a / len(tables) for j in joint]
    return predictives, used


tables = st.integers(0, 2**32 - 1).map(np.random.default_rng)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, "1/n"])
def test_it_is_fixed_share(share: float | str) -> None:
    rng = np.random.default_rng(0)
    scripts = [rng.dirichlet(np.ones(3), size=40) for _ in range(4)]
    symbols = rng.integers(3, size=40).tolist()
    predictives, weights = plain_fixed_share(scripts, symbols, share)
    result = mdvpf.Mixture([Scripted(s) for s in scripts], share=share).run(symbols)
    assert isinstance(result, mdvpf.MixtureResult)
    assert_allclose(result.log_predictive, np.log(predictives), rtol=1e-12)
    assert_allclose(result.weights, weights, rtol=1e-11)
    own = [[math.log(s[t][y]) for s in scripts] for t, y in enumerate(symbols)]
    assert_array_equal(result.member_log_predictive, own)
    assert result.log_evidence == pytest.approx(sum(np.log(predictives)), rel=1e-12)


@settings(max_examples=60, deadline=None)
@given(
    rng=tables,
    n=st.integers(1, 60),
    n_members=st.integers(1, 5),
    share=st.sampled_from([0.0, 0.001, 0.01, 0.2, "1/n"]),
    sharpness=st.sampled_from([0.02, 0.3, 1.0]),
    missing=st.sampled_from([0.0, 0.3]),
)
def test_never_worse_than_the_best_member_by_more_than_the_bound(
    rng: np.random.Generator,
    n: int,
    n_members: int,
    share: float | str,
    sharpness: float,
    missing: float,
) -> None:
    scripts = [rng.dirichlet(np.full(3, sharpness), size=n) for _ in range(n_members)]
    symbols = [None if rng.random() < missing else int(rng.integers(3)) for _ in range(n)]
    mixture = mdvpf.Mixture([Scripted(s) for s in scripts], share=share)
    result = mixture.run(symbols)
    scores = result.member_log_predictive
    reached = result.log_predictive.cumsum()
    for stop in (1, n // 2 + 1, n):
        bound = mixture.regret_bound(stop)
        assert reached[stop - 1] >= scores[:stop].sum(axis=0).max() - bound - 1e-9
    m = int(rng.integers(n))
    cuts = [0, *sorted(rng.choice(np.arange(1, n), size=m, replace=False).tolist()), n]
    best = sum(scores[a:b].sum(axis=0).max() for a, b in pairwise(cuts))
    assert reached[-1] >= best - mixture.regret_bound(n, n_switches=m) - 1e-9


@settings(max_examples=40, deadline=None)
@given(
    rng=tables,
    every=st.integers(1, 5),
    share=st.sampled_from([0.01, "1/n"]),
    mass=st.sampled_from([0.02, "1/n"]),
    levels=st.sampled_from([None, 1, 3]),
)
def test_on_every_life_nearly_as_good_as_the_member_that_started_there(
    rng: np.random.Generator, every: int, share: float | str, mass: float | str, levels: int | None
) -> None:
    n = 50
    chains = [mdvpf.Markov(2, order=order, beta=0.05) for order in (0, 1)]
    symbols = (rng.random(n) < np.repeat(rng.random(10), 5)).astype(int)
    restart = mdvpf.Restart(every, mass=mass, levels=levels)
    mixture = mdvpf.Mixture(chains, share=share, restart=restart)
    result = mixture.run(symbols)
    checked = 0
    for start in range(0, n, every):
        level = restart.level_at(start)
        if start and not level:
            continue
        death = restart.next_birth(start, level) if start else n
        for stop in {min(start + 1, n), min((start + death) // 2 + 1, n), min(death, n)}:
            reached = result.log_predictive[start:stop].sum()
            bound = mixture.regret_bound(stop, start)
            for chain in chains:  # as they were before the run: a mixture copies
                assert reached >= chain.score(symbols[start:stop]).sum() - bound - 1e-9
            checked += 1
    assert checked > 3


def cover(restart: mdvpf.Restart, start: int, stop: int) -> list[tuple[int, int]]:
    """Lives that cover an interval one after another, each begun in it, as few as possible."""
    found = []
    while start < stop:
        death = restart.next_birth(start, restart.level_at(start))
        births = [b for b in range(start + restart.every, death + 1, restart.every)]
        best = max(births, key=lambda b: restart.next_birth(b, restart.level_at(b)))
        found.append((start, min(best, stop)))
        start = best
    return found


@pytest.mark.parametrize("n_switches", [1, 8])
def test_restarts_follow_a_source_that_switches(n_switches: int) -> None:
    rng = np.random.default_rng(5)
    length = 800 // (n_switches + 1) // 16 * 16
    cycles = [np.resize(rng.permutation(6), length) for _ in range(n_switches + 1)]
    clean = np.concatenate(cycles)
    symbols = np.where(rng.random(len(clean)) < 0.1, rng.integers(6, size=len(clean)), clean)
    model = mdvpf.InfiniteHMM(6, beta=0.1)
    plain = mdvpf.ParticleFilter(model, mdvpf.VPA(), 20)
    restart = mdvpf.Restart(16, mass="1/n")
    mixture = mdvpf.Mixture([plain], share="1/n", restart=restart)
    result = mixture.run(symbols)
    assert result.log_predictive.sum() > plain.score(symbols).sum() + 5 * n_switches
    for i in range(1, n_switches + 1):
        lives = cover(restart, i * length, (i + 1) * length)
        assert len(lives) <= 2 + math.log2(length / 16)
        for start, stop in lives:
            reached = result.log_predictive[start:stop].sum()
            alone = plain.score(symbols[start:stop]).sum()
            assert reached >= alone - mixture.regret_bound(stop, start) - 1e-9


def test_on_any_interval_some_copy_is_young_but_not_too_young() -> None:
    restart = mdvpf.Restart(every=1)
    born: dict[int, int] = {}
    for now in range(1, 300):
        born[restart.level_at(now)] = now
        assert len(born) == restart.n_levels(now)
        for change in range(1, now + 1):
            ages = [now - birth for birth in born.values() if birth >= change]
            assert max(ages) >= (now - change) // 4


def test_about_log_n_copies_live_and_the_dead_are_released() -> None:
    mixture = mdvpf.Mixture(
        [mdvpf.ParticleFilter(mdvpf.InfiniteHMM(2), n_particles=5)], restart=mdvpf.Restart(4)
    )
    dead = []
    for n in range(1, 200):
        before = mixture.living
        mixture.update(n % 2)
        now = mixture.living
        assert len(now) == 1 + (n // 4).bit_length()
        dead += [weakref.ref(m) for m in before if not any(m is other for other in now)]
        del before, now
    gc.collect()
    assert len(dead) > 40
    assert not [ref for ref in dead if ref() is not None]
    in_run = mdvpf.Mixture(
        [mdvpf.ParticleFilter(mdvpf.InfiniteHMM(2), n_particles=5)], restart=mdvpf.Restart(4)
    )
    in_run.run([n % 2 for n in range(1, 200)])
    assert len(in_run.living) == len(mixture.living)
    assert_array_equal(in_run.predict_proba(), mixture.predict_proba())


def test_memory_is_that_of_the_living() -> None:
    inner = mdvpf.Mixture.grid(3, alpha=[1], gamma=[1], n_particles=10, restart=8)
    mixture = mdvpf.Mixture([inner, mdvpf.Markov(3)])
    mixture.run([0, 1, 2] * 20)
    inner, chain = mixture.members
    assert len(inner.living) == 3 * 4
    for field in ("live", "allocated", "rows"):
        total = sum(getattr(each.memory(), field) for each in (*inner.living, chain))
        assert getattr(mixture.memory(), field) == total > 0


def test_a_cap_on_the_levels_holds_for_ever() -> None:
    restart = mdvpf.Restart(2, levels=3)
    mixture = mdvpf.Mixture([mdvpf.Markov(2)], restart=restart)
    result = mixture.run([0, 1] * 200)
    assert len(mixture.living) == 4
    assert result.n_particles.max() == 4


@pytest.mark.parametrize("restart", [None, mdvpf.Restart(8)])
def test_a_run_is_its_updates(restart: mdvpf.Restart | None) -> None:
    mixture = mdvpf.Mixture(some_members(), restart=restart)
    twin = mixture.copy()
    result = mixture.run(SYMBOLS)
    for i, symbol in enumerate(SYMBOLS):
        proba = twin.predict_proba()
        assert proba.sum() == pytest.approx(1, abs=1e-12)
        step = twin.update(symbol)
        assert step.log_predictive == result.log_predictive[i]
        if symbol is None:
            assert step.log_predictive == 0.0
        else:
            assert step.log_predictive == pytest.approx(math.log(proba[symbol]), abs=1e-10)
        assert step.n_particles == result.n_particles[i]
        for name in ("mean_states", "ess", "discarded"):
            assert getattr(step, name) == getattr(result, name)[i]
    assert_array_equal(mixture.predict_proba(), twin.predict_proba())
    assert_array_equal(mixture.weights, twin.weights)


@pytest.mark.parametrize("restart", [None, 16])
def test_threads_and_chunks_change_nothing(
    restart: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    symbols = rng.integers(3, size=300)
    lengths = [100, 130, 70]
    results = []
    for n_threads, chunk in [(1, 256), (2, 256), (5, 7), (1, 1)]:
        monkeypatch.setattr("mdvpf.mixture.mixture._CHUNK", chunk)
        mixture = mdvpf.Mixture(some_members(), restart=restart, n_threads=n_threads)
        results.append((mixture.run(symbols, lengths), mixture.predict_proba()))
    first, proba = results[0]
    for other, other_proba in results[1:]:
        assert_array_equal(other_proba, proba)
        for name in ("log_predictive", "ess", "weights", "member_log_predictive"):
            assert_array_equal(getattr(other, name), getattr(first, name))


def test_threads_that_start_copies_of_one_member_do_not_meet() -> None:
    model = mdvpf.InfiniteHMM(3)
    members = [mdvpf.ParticleFilter(model, mdvpf.VPA(), 3) for _ in range(2)]
    symbols = np.random.default_rng(1).integers(3, size=2000)
    alone = mdvpf.Mixture(members, restart=1).run(symbols)
    result = mdvpf.Mixture(members, restart=1, n_threads=8).run(symbols)
    assert_array_equal(result.log_predictive, alone.log_predictive)


def test_sequences_break_for_all_members() -> None:
    mixture = mdvpf.Mixture(some_members(), restart=8)
    twin = mixture.copy()
    result = mixture.run([0, 1, 2] * 10, lengths=[11, 19])
    scores = []
    for i in range(30):
        if i in (0, 11):
            twin.new_sequence()
        scores.append(twin.update(i % 3).log_predictive)
    assert_array_equal(result.log_predictive, scores)


def test_members_are_independent_of_what_was_passed_and_of_copies() -> None:
    members = some_members()
    mixture = mdvpf.Mixture(members, restart=4)
    before = mixture.predict_proba()
    for member in members:
        member.run([0] * 20)
    assert_array_equal(mixture.predict_proba(), before)
    twin = mixture.copy()
    twin.run([1] * 20)
    assert_array_equal(mixture.predict_proba(), before)
    assert_array_equal(mixture.score([1] * 20), mixture.run([1] * 20).log_predictive)
    assert_array_equal(mixture.predict_proba(), twin.predict_proba())


def test_missing_symbols_leave_the_weights() -> None:
    mixture = mdvpf.Mixture([mdvpf.Markov(2, order=0), mdvpf.Markov(2, order=1)], share="1/n")
    mixture.run([0, 1] * 10)
    weights = mixture.weights
    result = mixture.run([None] * 50)
    assert_array_equal(result.log_predictive, np.zeros(50))
    assert_array_equal(mixture.weights, weights)
    other = mdvpf.Mixture([mdvpf.Markov(2, order=0), mdvpf.Markov(2, order=1)], share="1/n")
    other.run([0, 1] * 10)
    assert mixture.weights[0] == other.weights[0]


def test_copies_that_draw_have_their_own_numbers() -> None:
    model = mdvpf.InfiniteHMM(4, beta=0.1)
    flat = mdvpf.ParticleFilter(model, mdvpf.SMC(), 10, rng=0)
    mixture = mdvpf.Mixture([flat], restart=mdvpf.Restart(1))
    mixture.run([0, 1, 2])
    _, at_3, at_2 = mixture.living
    generators = [member.rng.random(4).tolist() for member in (at_3, at_2, flat.copy())]
    assert generators[0] != generators[1] != generators[2] != generators[0]
    again = mdvpf.Mixture([flat], restart=mdvpf.Restart(1))
    again.run([0, 1, 2])
    assert [member.rng.random(4).tolist() for member in again.living[1:]] == generators[:2]


def test_what_all_hold_impossible_changes_no_weight() -> None:
    certain = Scripted(np.tile([1.0, 0.0], (9, 1)))
    other = Scripted(np.tile([0.5, 0.5], (9, 1)))
    mixture = mdvpf.Mixture([certain, certain], share=0)
    result = mixture.run([0, 1, 0])
    assert result.log_predictive.tolist() == [0, -math.inf, 0]
    mixture = mdvpf.Mixture([certain, other], share=0.0, restart=2)
    result = mixture.run([0, 1, 1, 0, 0, 1, 0])
    assert np.isfinite(result.log_predictive).all()
    assert not np.isnan(result.member_log_predictive).any()


def test_mixtures_of_mixtures() -> None:
    inner = mdvpf.Mixture([mdvpf.Markov(2, order=0), mdvpf.Markov(2, order=1)], restart=4)
    outer = mdvpf.Mixture([inner, mdvpf.ContextTree(2)])
    result = outer.run([0, 1, 1] * 10)
    assert_array_equal(result.member_log_predictive[:, 0], inner.run([0, 1, 1] * 10).log_predictive)


def test_the_grid_has_every_combination() -> None:
    mixture = mdvpf.Mixture.grid(
        5,
        alpha=[1, 2],
        gamma=[3],
        beta=(0.1, 0.2, 0.3),
        algorithm=[mdvpf.VPA(), mdvpf.SMC()],
        n_particles=7,
        rng=1,
    )
    seen = [
        (type(m.algorithm), m.model.alpha, m.model.gamma, m.model.beta) for m in mixture.members
    ]
    assert len(seen) == len(set(seen)) == 12
    assert {m.n_particles for m in mixture.members} == {7}
    assert len({m.rng.random() for m in mixture.members}) == 12


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"members": []}, ValueError, "members"),
        ({"members": mdvpf.Markov(2)}, TypeError, r"members=Markov.*expected a sequence of pred"),
        ({"members": [3]}, TypeError, r"members\[0\]=3"),
        ({"members": [mdvpf.Markov(2), mdvpf.Markov(3)]}, ValueError, r"members\[1\]"),
        ({"share": 1.0}, ValueError, "share=1.0"),
        ({"share": -0.1}, ValueError, "share=-0.1"),
        ({"share": float("nan")}, ValueError, "share=nan"),
        ({"share": "1/sqrt(n)"}, ValueError, "share='1/sqrt"),
        ({"share": True}, TypeError, "share=True"),
        ({"restart": 0}, ValueError, "restart=0"),
        ({"restart": "often"}, TypeError, "restart='often'"),
        ({"n_threads": 0}, ValueError, "n_threads=0"),
    ],
)
def test_bad_arguments_are_refused(
    arguments: dict[str, object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        mdvpf.Mixture(**{"members": [mdvpf.Markov(2)], **arguments})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [({"every": 0}, "every=0"), ({"mass": 0}, "mass=0"), ({"levels": 0}, "levels=0")],
)
def test_bad_restarts_are_refused(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        mdvpf.Restart(**arguments)


def test_bad_bounds_and_grids_are_refused() -> None:
    mixture = mdvpf.Mixture([mdvpf.Markov(2)], restart=4, share=0)
    for start in (2, 9, 10):
        with pytest.raises(ValueError, match="start="):
            mixture.regret_bound(10, start)
    with pytest.raises(ValueError, match="stop=0"):
        mixture.regret_bound(0)
    assert mixture.regret_bound(10, n_switches=1) == math.inf
    with pytest.raises(ValueError, match="start=4"):
        mdvpf.Mixture([mdvpf.Markov(2)]).regret_bound(10, 4)
    with pytest.raises(ValueError, match="alpha: got none"):
        mdvpf.Mixture.grid(3, alpha=[])
    with pytest.raises(TypeError, match=r"beta=0\.1: expected a sequence of numbers"):
        mdvpf.Mixture.grid(3, beta=0.1)
    with pytest.raises(TypeError, match=r"algorithm=VPA.*: expected a sequence of algorithms"):
        mdvpf.Mixture.grid(3, algorithm=mdvpf.VPA())


def test_bad_symbols_change_nothing() -> None:
    ends = mdvpf.ParticleFilter(
        mdvpf.InfiniteHMM(2), mdvpf.MDVPA(discount=[0.5] * 5), n_particles=4
    )
    mixture = mdvpf.Mixture([mdvpf.Markov(2), ends], restart=2)
    mixture.run([0, 1, 0, 1, 0])
    twin = mixture.copy()
    for bad in ([0, 1], [2], [-1], [0.5]):
        with pytest.raises((ValueError, TypeError)):
            mixture.run([0, *bad])
    mixture.update(1)
    twin.update(1)
    with pytest.raises(ValueError, match="discount"):
        mixture.update(0)
    with pytest.raises(ValueError, match="symbol=2"):
        mixture.update(2)
    assert_array_equal(mixture.predict_proba(), twin.predict_proba())
    assert_array_equal(mixture.weights, twin.weights)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_an_interrupt_leaves_all_members_at_the_same_symbol(n_threads: int) -> None:
    class Interrupting(Scripted):
        def _advance(self, symbol: int, number: int) -> float:
            if self.row == 5:
                signal.raise_signal(signal.SIGINT)
            return super()._advance(symbol, number)

    table = np.tile([0.5, 0.5], (600, 1))
    inner = mdvpf.Mixture([mdvpf.Markov(2), Interrupting(table)])
    mixture = mdvpf.Mixture([mdvpf.ContextTree(2), inner], n_threads=n_threads)
    with pytest.raises(KeyboardInterrupt):
        mixture.run([0, 1] * 300)
    twin = mdvpf.Mixture([mdvpf.ContextTree(2), mdvpf.Mixture([mdvpf.Markov(2), Scripted(table)])])
    twin.run([0, 1] * 128)  # to the end of the chunk
    assert_array_equal(mixture.predict_proba(), twin.predict_proba())
    assert_array_equal(mixture.run([0, 1]).weights, twin.run([0, 1]).weights)


def test_a_member_that_fails_on_the_way_stops_the_mixture() -> None:
    short = Scripted(np.tile([0.5, 0.5], (3, 1)))
    mixture = mdvpf.Mixture([mdvpf.Markov(2), short])
    with pytest.raises(IndexError):
        mixture.run([0, 1, 0, 1, 0])
    for call in (
        mixture.predict_proba, mixture.new_sequence, mixture.copy,
        lambda: mixture.update(0), lambda: mixture.run([0]), lambda: mixture.score([0]),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match="failed"):
            call()
