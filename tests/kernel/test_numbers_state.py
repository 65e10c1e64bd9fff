"""Rows of statistics: what is shared, what a failure leaves, what files do, what memory holds."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import mdvpf
from mdvpf.filter.saved_state import CHANNEL_SECTIONS, NUMBER_SECTIONS
from tests.algorithms import EVERY_ALGORITHM
from tests.kernel.inspecting import assert_same, feed, laid_open
from tests.kernel.sealing import loaded, saved, sealed, unsealed
from tests.kernel.test_allocation_failure import failures
from tests.number_families import STREAMS, given_for

PRODUCTS = ["product", "product of users", "open product", "everything"]
USERS = ("product of users", "everything")


def make_filter(stream: str = "product", algorithm: str = "MD-VPA", **model: Any) -> Any:
    family = STREAMS[stream][0]
    return mdvpf.ParticleFilter(
        mdvpf.InfiniteHMM(emission=family, gamma=2.0, **model),
        EVERY_ALGORITHM[algorithm],
        6,
        rng=5,
        history=4,
    )


# ---- sharing ---------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", EVERY_ALGORITHM)
def test_statistics_are_those_of_the_observations_on_the_path(algorithm: str) -> None:
    """Whoever shares a row: the statistics of a particle are those of its own path."""
    observations = [y for y in STREAMS["gaussian"][1] if y is not None] * 4
    family = STREAMS["gaussian"][0]
    model = mdvpf.InfiniteHMM(emission=family)
    pf = mdvpf.ParticleFilter(model, EVERY_ALGORITHM[algorithm], 8, rng=1, history="full")
    for i, y in enumerate(observations):
        pf.update(y)
        pf._core.verify()
        for k in range(len(pf.weights)):
            path, found = pf.path(k), pf.counts(k).emission
            seen = np.array(observations[: i + 1])
            for state in range(int(pf.n_states[k])):
                own = seen[path == state]
                mean = own.mean()
                np.testing.assert_allclose(
                    found[state], [len(own), mean, ((own - mean) ** 2).sum()], atol=1e-9
                )


@pytest.mark.parametrize("algorithm", ["MD-VPA", "VPA", "SMC"])
@pytest.mark.parametrize("stream", PRODUCTS)
def test_a_copy_shares_nothing(stream: str, algorithm: str) -> None:
    pf = make_filter(stream, algorithm, half_life=5.0)
    feed(pf, STREAMS[stream][1])
    twin, before = pf.copy(), laid_open(pf)
    feed(twin, STREAMS[stream][1] * 3)
    twin._core.verify()
    assert_same(pf, before)
    del twin
    assert_same(pf, before)


def test_the_prior_is_never_written() -> None:
    """States that only had missing observations have the row of the prior, and share it."""
    pf = make_filter("gaussian", "VPA")
    feed(pf, [None, None, None, 1.0, None])
    pf._core.verify()
    assert pf.counts(0).emission[:, 0].sum() == 1.0


def test_states_that_fade_away_release_their_rows() -> None:
    rng = np.random.default_rng(3)
    model = mdvpf.InfiniteHMM(emission=mdvpf.Gaussian(scale=0.1), half_life=4.0, gamma=5.0)
    pf = mdvpf.ParticleFilter(model, mdvpf.VPA(), 10)
    pf._core._release_every(16)
    pf._core._settle_every(8)
    for i, y in enumerate(np.cumsum(rng.normal(size=400)).tolist()):
        pf.update(y)
        if i % 20 == 0:
            pf._core.verify()
    assert pf.n_states.max() > 20  # on the path: few of them are left
    assert pf._core.n_rows < 300


def test_the_memory_report_counts_rows() -> None:
    pf = make_filter("gaussian", "VPA")
    before = pf.memory()
    feed(pf, STREAMS["gaussian"][1])
    after = pf.memory()
    assert after.rows > before.rows
    assert 0 < after.shared_rows <= after.rows
    assert before.live < after.live <= after.allocated
    assert "statistics: " in pf._core.state_text()


# ---- failures --------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", EVERY_ALGORITHM)
@pytest.mark.parametrize("n_before", [0, 1, 9])
@pytest.mark.parametrize("stream", PRODUCTS)
def test_a_failed_allocation_changes_nothing(stream: str, algorithm: str, n_before: int) -> None:
    observations = STREAMS[stream][1] * 2

    def make() -> Any:
        pf = make_filter(stream, algorithm, half_life=6.0)
        pf._core._settle_every(2)
        feed(pf, observations[:n_before])
        return pf.copy()  # which has to make its work space anew

    twin = make()
    before = laid_open(twin)
    twin.update(observations[n_before])
    after = laid_open(twin)
    n_failures = 0
    for pf in failures(make, lambda pf: pf.update(observations[n_before])):
        n_failures += 1
        assert_same(pf, before)
        pf.update(observations[n_before])
        assert_same(pf, after)
    assert n_failures > 2


@pytest.mark.parametrize("what", ["copy", "snapshot"])
def test_a_failed_copy_or_save_changes_nothing(what: str) -> None:
    def make() -> Any:
        pf = make_filter(forget=1.0)
        feed(pf, STREAMS["product"][1])
        return pf

    before = laid_open(make())
    n_failures = 0
    for pf in failures(make, lambda pf: getattr(pf._core, what)()):
        n_failures += 1
        assert_same(pf, before)
    assert n_failures > 2


# ---- files -----------------------------------------------------------------------------------

NASTY = [0.0, -0.0, 1.0, -1.0, 1e308, -1e308, 1e-320, np.inf, -np.inf, np.nan, 1e140, 2.0**53]


def corrupted(content: bytes, rng: random.Random) -> bytes:
    """A file with some numbers of its statistics changed, and checksums that hold."""
    opened = unsealed(content)
    for _ in range(rng.choice([1, 1, 2, 4])):
        names = [*NUMBER_SECTIONS, *(CHANNEL_SECTIONS if "channel_seen" in opened.arrays else ())]
        name = rng.choice([name for name in names if opened.arrays[name].size])
        array = opened.arrays[name]
        if rng.random() < 0.15:
            opened.arrays[name] = rng.choice([array[:-1], np.append(array, array[-1:])])
        elif array.dtype.kind == "f":
            array[rng.randrange(array.size)] = rng.choice(NASTY)
        else:
            top = np.iinfo(array.dtype).max
            array[rng.randrange(array.size)] = rng.choice([0, 1, 2, 3, top, rng.randrange(top)])
    return sealed(opened, version=3)


@pytest.mark.parametrize("algorithm", ["MD-VPA", "SMC"])
@pytest.mark.parametrize("stream", ["gaussian", *PRODUCTS])
def test_corrupted_statistics_are_refused_or_in_order(stream: str, algorithm: str) -> None:
    pf = make_filter(stream, algorithm, half_life=5.0)
    feed(pf, STREAMS[stream][1][:6])
    content, rng = saved(pf), random.Random(7)
    n_refused = 0
    for _ in range(80):
        try:
            twin = loaded(corrupted(content, rng), **given_for(pf.model.emission))
        except mdvpf.CheckpointError:
            n_refused += 1
            continue
        twin._core.verify()
        for observation in STREAMS[stream][1]:
            with suppress(FloatingPointError, ValueError if stream in USERS else ()):
                twin.update(observation)
        twin._core.verify()
    assert 10 < n_refused < 80


def test_versions_of_files() -> None:
    """Only filters over numbers have version 3; those of symbols keep theirs."""
    expected = {
        1: mdvpf.InfiniteHMM(2),
        2: mdvpf.InfiniteHMM(2, forget=1.0),
        3: mdvpf.InfiniteHMM(emission=mdvpf.Gaussian()),
    }
    for version, model in expected.items():
        content = saved(mdvpf.ParticleFilter(model, n_particles=2))
        assert int.from_bytes(content[8:12], "little") == version


def test_a_file_of_a_product_has_its_families() -> None:
    pf = make_filter()
    feed(pf, STREAMS["product"][1])
    assert loaded(saved(pf)).model == pf.model
