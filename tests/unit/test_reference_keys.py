"""Keys in the reference: the key that `max_keys` ends, and the look-ahead of MD-VPA."""

from __future__ import annotations

import numpy as np
import pytest

import mdvpf
from mdvpf.reference import ReferenceFilter

MODEL = mdvpf.InfiniteHMM(3, beta=0.2)


def described(pf: ReferenceFilter) -> list[tuple[list[int], float, int]]:
    return [(particle.path, particle.weight, particle.state) for particle in pf.particles]


def test_max_keys_ends_the_key_that_was_updated_longest_ago() -> None:
    bounded = ReferenceFilter(MODEL, mdvpf.VPA(), 20, max_keys=2)
    ended = ReferenceFilter(MODEL, mdvpf.VPA(), 20)
    for symbol, key, gone in [
        (0, "a", None),
        (1, "b", None),
        (0, "a", None),
        (2, "c", "b"),  # not "a", which was used after it
        (1, "b", "a"),
    ]:
        if gone is not None:
            ended.new_sequence(gone)
        assert bounded.update(symbol, key) == ended.update(symbol, key)
        assert bounded.n_keys == ended.n_keys <= 2
    for key in ("a", "b", "c"):
        assert np.array_equal(bounded.predict_proba(key), ended.predict_proba(key))


def test_predictions_do_not_count_as_use_of_a_key_and_ended_keys_free_room() -> None:
    pf = ReferenceFilter(MODEL, mdvpf.VPA(), 20, max_keys=2)
    pf.update(0, "a")
    pf.update(1, "b")
    pf.predict_proba("a")
    pf.new_sequence("b")
    pf.update(2, "c")  # there was room
    assert pf.n_keys == 2
    pf.update(2, "b")  # "a" ends, although it was predicted last
    assert list(pf._keys) == ["c", "b"]


@pytest.mark.parametrize("selection", ["top", "optimal"])
def test_mdvpa_looks_ahead_within_a_key_only(selection: str) -> None:
    looking = ReferenceFilter(MODEL, mdvpf.MDVPA(discount=3.0, selection=selection), 4, rng=1)
    blind = ReferenceFilter(MODEL, mdvpf.MDVPA(discount=0.0, selection=selection), 4, rng=1)
    symbols = np.random.default_rng(2).integers(3, size=20).tolist()
    for i, symbol in enumerate(symbols):
        assert looking.update(symbol, i % 2) == blind.update(symbol, i % 2)
    assert described(looking) == described(blind)
    looking.update(0, 1)  # the key of the pending symbol
    blind.update(0, 1)
    assert described(looking) != described(blind)


def test_ending_any_key_completes_the_pending_step() -> None:
    pf = ReferenceFilter(MODEL, mdvpf.MDVPA(), 4)
    pf.update(0, "a")
    assert pf.n_steps == 0
    pf.new_sequence("never used")
    assert pf.n_steps == 1
    assert [particle.state for particle in pf.particles] == [0]  # "a" continues


def test_last_symbol_of_a_key_is_part_of_its_position() -> None:
    # In a Mealy machine, a 1 of another key in between does not change the row of "a".
    pf = ReferenceFilter(mdvpf.InfiniteHMM(2, machine="mealy"), mdvpf.VPA(), 50)
    for symbol, key in [(0, "a"), (1, "b"), (0, "a")]:
        pf.update(symbol, key)
    for particle in pf.particles:
        assert (particle.path[0], 0) in {row for row, _ in particle.transition}
        assert (particle.path[0], 1) not in {row for row, _ in particle.transition}


def test_max_keys_must_be_positive() -> None:
    with pytest.raises(ValueError, match="max_keys=0"):
        ReferenceFilter(MODEL, max_keys=0)
