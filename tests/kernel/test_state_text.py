"""`state_text` shows the contents of the system: weights, counts, and which particles share."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import mdvpf
from tests.algorithms import EVERY_ALGORITHM
from tests.kernel.inspecting import shown

SYMBOLS = [0, 0, 1, 0, 2, 1, None, 0, 2, 2]


def make_filter(
    algorithm: mdvpf.algorithms.Algorithm, n_symbols: int = 3, history: int | str | None = None
) -> mdvpf.ParticleFilter:
    model = mdvpf.InfiniteHMM(n_symbols, beta=0.1, gamma=3.0)
    pf = mdvpf.ParticleFilter(model, algorithm, 12, rng=1, history=history)
    pf.run(SYMBOLS)
    return pf


def particles(text: str) -> list[str]:
    """Return the text of each particle, from its line to that of the next one."""
    text = text.split("\nprovisional set")[0]
    return re.split(r"^particle \d+: ", text, flags=re.MULTILINE)[1:]


def counts_in(particle: str, n_states: int, n_symbols: int) -> mdvpf.result.Counts:
    """Return the tables of a particle, read from its text."""
    found = mdvpf.result.Counts(
        np.zeros(n_states, dtype=np.int64),
        np.zeros((n_states, n_states), dtype=np.int64),
        np.zeros((n_states, n_symbols), dtype=np.int64),
    )
    for name, pairs in re.findall(r"(start|missing|(?:state|symbol) \d+) = ([\d: ]+)", particle):
        kind, _, number = name.partition(" ")
        for pair in pairs.split():
            state, count = map(int, pair.split(":"))
            if kind == "start":
                found.start[state] = count
            elif kind == "state":
                found.transition[int(number), state] = count
            elif kind == "symbol":
                found.emission[state, int(number)] = count
    return found


@pytest.mark.parametrize("n_symbols", [3, 5000])  # with one level of columns, and with several
def test_weights_states_and_counts_are_those_of_the_filter(n_symbols: int) -> None:
    pf = make_filter(mdvpf.VPA(), n_symbols)
    found = particles(pf._core.state_text())
    expected = shown(pf)
    assert len(found) == len(expected.weights) == 12
    for k, particle in enumerate(found):
        facts = re.match(r"weight (\S+), (\d+) states?, in state (\d+), slot \d+$", particle, re.M)
        assert facts is not None
        assert float(facts[1]) == pytest.approx(expected.weights[k], rel=1e-8)
        assert (int(facts[2]), int(facts[3])) == (expected.n_states[k], expected.states[k])
        for table, other in zip(
            counts_in(particle, int(facts[2]), n_symbols), pf.counts(k), strict=True
        ):
            assert np.array_equal(table, other)


def test_a_record_has_as_many_references_as_holders_are_listed() -> None:
    text = make_filter(mdvpf.VPA())._core.state_text()
    records = re.findall(r"record (\d+), (\d+) refs?", text)
    held = [number for number, _ in records]
    assert all(held.count(number) == int(refs) for number, refs in records)
    assert any(int(refs) > 1 for _, refs in records)


def test_the_text_marks_particles_that_share_a_block() -> None:
    pf = make_filter(mdvpf.SMC())
    found = particles(pf._core.state_text())
    slots = [re.findall(r"slot (\d+)", particle)[0] for particle in found]
    assert len(set(slots)) < len(slots)
    for k, particle in enumerate(found):
        sharing = re.findall(r"block shared by particles (\d+) to (\d+)", particle)
        first, last = map(int, sharing[0]) if sharing else (k, k)
        assert [i for i, slot in enumerate(slots) if slot == slots[k]] == [*range(first, last + 1)]
        assert ("transitions" in particle) == (k == first)


@pytest.mark.parametrize("name", EVERY_ALGORITHM)
def test_header_and_history(name: str) -> None:
    pf = make_filter(EVERY_ALGORITHM[name], history="full")
    header, *rest = pf._core.state_text().splitlines()
    assert header.startswith(name.split(maxsplit=1)[0].rstrip(",") + ", budget 12, ")
    assert f", {pf._core.n_steps} steps, " in header
    assert header.endswith("symbol 2 pending" if pf._core.pending else "nothing pending")
    assert any(f"history: full, {pf.memory().history_nodes} nodes" in line for line in rest)
    assert any(line.startswith("provisional set: 12 candidates") for line in rest) == (
        pf._core.pending
    )
    pf._core.verify()


def test_only_as_many_particles_as_asked_for_are_shown() -> None:
    pf = make_filter(mdvpf.MDVPA())
    assert len(particles(pf._core.state_text(most=2))) == 2
    assert "and 10 more particles" in pf._core.state_text(most=2)
    assert not particles(pf._core.state_text(most=0))
    with pytest.raises(ValueError, match="most=-1: expected at least 0"):
        pf._core.state_text(most=-1)


def test_a_system_that_has_seen_nothing_has_a_text() -> None:
    pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(3), mdvpf.SMC(), 3)
    assert "particle 0: weight 0.333333333, 0 states, in start, slot 0" in pf._core.state_text()


# --- Real counts


def real_counts_in(particle: str, n_states: int, n_symbols: int) -> dict[str, NDArray[np.float64]]:
    """Return the tables of a particle with real counts, read from its text."""
    start = np.zeros(n_states)
    transition = np.zeros((n_states, n_symbols + 1, n_states))
    emission = np.zeros((n_states, n_symbols + 1))
    rows = re.findall(
        r"((?:start|state \d+)?(?:, )?(?:symbol \d+|missing)?) = ([\d:. e+-]+)", particle
    )
    for name, pairs in rows:
        state, symbol = re.search(r"state (\d+)", name), re.search(r"symbol (\d+)", name)
        column = int(symbol[1]) if symbol else n_symbols
        for pair in pairs.split():
            to, count = int(pair.split(":")[0]), float(pair.split(":")[1])
            if name == "start":
                start[to] = count
            elif state:
                transition[int(state[1]), column, to] = count
            else:
                emission[to, column] = count
    return {"start": start, "transition": transition, "emission": emission[:, :-1]}


@pytest.mark.parametrize("n_symbols", [3, 300])
@pytest.mark.parametrize(
    "extension",
    [
        {"machine": "mealy"},
        {"machine": "mealy", "half_life": 9.0, "oracle": "rows"},
        {"kappa": 1.0, "forget": 0.5},
    ],
)
def test_real_counts_are_those_of_the_filter(extension: dict[str, Any], n_symbols: int) -> None:
    model = mdvpf.InfiniteHMM(n_symbols, beta=0.1, gamma=3.0, **extension)
    pf = mdvpf.ParticleFilter(model, mdvpf.VPA(), 8, rng=1)
    pf.run(SYMBOLS)
    found = particles(pf._core.state_text())
    expected = shown(pf)
    for k, particle in enumerate(found):
        counts = pf.counts(k)
        tables = real_counts_in(particle, int(expected.n_states[k]), n_symbols)
        if model.machine == "moore":
            tables["transition"] = tables["transition"][:, -1]
        np.testing.assert_allclose(tables["start"], counts.start, rtol=1e-7)
        np.testing.assert_allclose(tables["transition"], counts.transition, rtol=1e-7)
        np.testing.assert_allclose(tables["emission"], counts.emission, rtol=1e-7)
