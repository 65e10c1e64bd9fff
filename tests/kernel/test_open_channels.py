"""Open alphabets in products: against the reference, while rows grow, in files, after errors."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mdvpf
from mdvpf.reference import ReferenceFilter
from tests.algorithms import EVERY_ALGORITHM
from tests.compiled_families import OWN_POISSON
from tests.kernel.inspecting import assert_same, feed, laid_open
from tests.kernel.sealing import loaded, saved, sealed, unsealed
from tests.kernel.test_allocation_failure import failures
from tests.number_families import STREAMS, given_for

OPEN = mdvpf.OpenVocabulary(strength=2.0)
OTHER = mdvpf.OpenVocabulary(concentration=0.2, strength=0.5, discount=0.9)


def make_filter(family: Any, algorithm: str = "MD-VPA", n: int = 6, **model: Any) -> Any:
    emits = mdvpf.InfiniteHMM(emission=family, gamma=2.0, **model)
    return mdvpf.ParticleFilter(emits, EVERY_ALGORITHM[algorithm], n, rng=5, history=4)


# ---- the reference ---------------------------------------------------------------------------

FAMILIES: dict[str, Any] = {
    "open": OPEN,
    "other": OTHER,
    "categorical": mdvpf.Categorical(3),
    "counts": mdvpf.Poisson(),
    "own": OWN_POISSON,
    "numbers": mdvpf.Gaussian(shape=2.0),
}


@st.composite
def products(draw: Any) -> tuple[mdvpf.Product, list[Any]]:
    """A product of any families, and a stream for it in which anything may be missing."""
    names = draw(st.lists(st.sampled_from(sorted(FAMILIES)), min_size=1, max_size=4))
    sizes = [0] * len(names)

    def entry(i: int, name: str) -> Any:
        if draw(st.integers(0, 3)) == 0:
            return None
        if name in ("open", "other"):
            symbol = draw(st.integers(0, sizes[i]))
            sizes[i] = max(sizes[i], symbol + 1)
            return symbol
        if name == "numbers":
            return draw(st.floats(-20.0, 20.0))
        return draw(st.integers(0, 2 if name == "categorical" else 9))

    n = draw(st.integers(1, 14))
    stream = [tuple(entry(i, name) for i, name in enumerate(names)) for _ in range(n)]
    return mdvpf.Product(*(FAMILIES[name] for name in names)), stream


@settings(max_examples=60, deadline=None)
@given(
    drawn=products(),
    algorithm=st.sampled_from(sorted(EVERY_ALGORITHM)),
    model=st.sampled_from(
        [{}, {"forget": 2.0}, {"half_life": 3.0, "oracle": "rows", "kappa": 0.5}, {"max_states": 2}]
    ),
)
def test_random_products_agree_with_the_reference(
    drawn: Any, algorithm: str, model: dict[str, Any]
) -> None:
    family, stream = drawn
    pf = make_filter(family, algorithm, **model)
    ref = ReferenceFilter(pf.model, pf.algorithm, 6, rng=5, rounding=True)
    for i, observation in enumerate(stream):
        key = "b" if i % 4 == 3 else None
        expected = ref.log_density(observation, key)
        row = mdvpf.model.read_observation(family, observation)
        found = pf.predictive(key).logpdf(row if len(row) > 1 else row[0])
        assert found == pytest.approx(expected, rel=0, abs=1e-9)
        step = pf.update(observation, key)
        assert step == pytest.approx(ref.update(observation, key), rel=0, abs=1e-9)
        pf._core.verify()
    twin = loaded(saved(pf), **given_for(family))
    twin._core.verify()
    assert_same(twin, laid_open(pf))


@pytest.mark.parametrize("model", [{}, {"forget": 1.0}, {"half_life": 4.0, "oracle": "any"}])
def test_one_open_channel_is_the_open_alphabet(model: dict[str, Any]) -> None:
    """With all histories, a product of one OpenVocabulary predicts as the OpenVocabulary alone."""
    both = [
        make_filter(emission, "VPA", n=900, **model) for emission in (OPEN, mdvpf.Product(OPEN))
    ]
    alone, joined = both
    for symbol in [0, 0, 1, None, 0, 2]:
        found = joined.predictive().pmf(np.arange(alone.n_symbols + 1))
        expected = alone.predict_proba()
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 if model else 1e-12)
        alone.update(symbol)
        joined.update((symbol,))
    assert joined._n_seen == (alone.n_symbols,) == (3,)


def test_forgetting_does_not_touch_the_counts_of_the_stream() -> None:
    pf = make_filter(mdvpf.Product(OPEN, mdvpf.Poisson()), "VPA", half_life=0.5)
    for symbol in [0, 0, 1, 0, None, 2, 1]:
        pf.update((symbol, 3))
    assert [times.tolist() for times in pf._channels_seen()] == [[3, 2, 1]]
    pf._core.verify()


@pytest.mark.parametrize("algorithm", EVERY_ALGORITHM)
def test_new_symbols_of_many_keys(algorithm: str) -> None:
    """Keys share the alphabet; a new key that ends another one may bring a new symbol."""
    family = mdvpf.Product(mdvpf.Gaussian(), OPEN)
    model = mdvpf.InfiniteHMM(emission=family, half_life=20.0)
    kind = EVERY_ALGORITHM[algorithm]
    pf = mdvpf.ParticleFilter(model, kind, 6, rng=5, max_keys=2)
    ref = ReferenceFilter(model, kind, 6, rng=5, rounding=True, max_keys=2)
    for i in range(24):
        observation = (None if i % 7 == 6 else float(i % 4), i // 2)
        expected = ref.update(observation, i % 5)
        assert pf.update(observation, i % 5) == pytest.approx(expected, rel=0, abs=1e-9)
        pf._core.verify()
    assert pf.n_keys == ref.n_keys <= 2
    twin = pickle.loads(pickle.dumps(pf))
    assert twin.update((0.0, 12), 3) == pf.update((0.0, 12), 3)


# ---- growth ----------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", EVERY_ALGORITHM)
def test_rows_grow_and_keep_their_counts(algorithm: str) -> None:
    """Two alphabets outgrow their room at different times; a third channel stands between them."""
    family = mdvpf.Product(OPEN, mdvpf.Gaussian(), OTHER)
    pf = make_filter(family, algorithm, n=5)
    ref = ReferenceFilter(pf.model, pf.algorithm, 5, rng=5, rounding=True)
    for i in range(40):
        observation = (i, float(i % 3), i // 3 if i % 3 == 0 else None)
        assert pf.update(observation) == pytest.approx(ref.update(observation), rel=0, abs=1e-9)
        pf._core.verify()
    assert pf._n_seen == (40, 14)
    assert pf.counts().emission.shape[1] == 41 + 3 + 15
    assert pf.counts().emission[:, 1:41].sum() == 40.0


@pytest.mark.parametrize("algorithm", EVERY_ALGORITHM)
def test_a_failed_allocation_while_rows_grow_changes_nothing(algorithm: str) -> None:
    family = mdvpf.Product(mdvpf.Poisson(), OPEN, mdvpf.Gaussian(), OTHER)

    def make() -> Any:
        pf = make_filter(family, algorithm, half_life=9.0)
        feed(pf, [(1, i, 0.5 * i, i) for i in range(4)])  # the room is 4
        return pf.copy()

    grows = (2, 4, 1.0, 4)
    twin = make()
    before, snapshot = laid_open(twin), twin._core.snapshot()
    size = twin._core.layout[0]
    twin.update(grows)
    assert twin._core.layout[0] > size
    after = laid_open(twin)
    n_failures = 0
    for pf in failures(make, lambda pf: pf.update(grows)):
        n_failures += 1
        assert_same(pf, before)
        pf._core.verify()
        assert pf._core.snapshot() == snapshot
        pf.update(grows)
        assert_same(pf, after)
    assert n_failures > 3


def test_a_run_is_its_updates() -> None:
    """Chunks of a run may contain new symbols."""
    family, observations = STREAMS["open product"]
    stream = [(None,) * 3 if y is None else y for y in observations] * 3
    for algorithm in EVERY_ALGORITHM:
        one, other = (make_filter(family, algorithm) for _ in range(2))
        other.rng = np.random.default_rng(5)
        one.rng = np.random.default_rng(5)
        columns = tuple([y[i] for y in stream] for i in range(3))
        found = one.run(columns).log_predictive.tolist()
        assert found == [other.update(y).log_predictive for y in stream]


# ---- errors ----------------------------------------------------------------------------------


def test_symbols_are_numbered_by_first_appearance() -> None:
    family = mdvpf.Product(mdvpf.Poisson(), OPEN)
    pf = make_filter(family)
    pf.run(([1, 2, 3], [0, 1, None]))
    before = laid_open(pf)
    for bad in (3, -1, 1.0, True):
        with pytest.raises((TypeError, ValueError), match=r"symbol\[1\]"):
            pf.update((1, bad))
        with pytest.raises((TypeError, ValueError), match=r"symbols\[1\]\[0\]"):
            pf.run(([1], [bad]))
    with pytest.raises(ValueError, match=r"symbols\[1\]\[2\]=4: expected at most 3"):
        pf.run(([1, 1, 1], [2, None, 4]))
    with pytest.raises(ValueError, match=r"symbols\[1\]\[1\]=4: expected at most 3"):
        pf.score((np.ones(2), np.array([2, 4])))
    assert_same(pf, before)
    assert pf.update((1, 2)).n_particles > 0
    assert pf._n_seen == (3,)


def test_the_core_checks_the_order_by_itself() -> None:
    pf = make_filter(mdvpf.Product(OPEN, OPEN), "VPA")
    with pytest.raises(ValueError, match="observation"):
        pf._core.absorb(0, 0.0, np.empty(0), 0, np.array([[0.0, 1.0]]))
    with pytest.raises(ValueError, match="observation"):
        pf._core.absorb(0, 0.0, np.empty(0), 0, np.array([[0.5, 0.0]]))
    rows = np.array([[0.0, 0.0], [1.0, np.nan], [np.nan, 2.0]])
    ints, zeros = np.zeros(3, np.int32), np.zeros(3)
    arguments = (ints, ints - 1, zeros, zeros, np.empty((3, 6)), np.empty(2, np.int64))
    with pytest.raises(ValueError, match="observation"):
        pf._core.advance(*arguments, observations=rows)
    rows[2, 1] = 1.0
    pf._core.advance(*arguments, observations=rows)
    pf._core.verify()
    assert pf._n_seen == (2, 2)


# ---- files -----------------------------------------------------------------------------------


def test_only_files_with_open_channels_have_their_sections() -> None:
    for stream, (family, observations) in STREAMS.items():
        pf = make_filter(family)
        feed(pf, observations)
        names = unsealed(saved(pf)).arrays.keys()
        has_open = stream in ("open product", "everything")
        assert ({"channel_symbols", "channel_seen"} <= names) == has_open


def test_a_file_leaves_out_the_pending_observation() -> None:
    """A new symbol that is pending is in no count of the file; it is absorbed again on loading."""
    pf = make_filter(mdvpf.Product(OPEN, OPEN))
    feed(pf, [(0, 0), (1, 0), (0, 1), (2, 1)])
    arrays = unsealed(saved(pf)).arrays
    assert arrays["channel_symbols"].tolist() == [2, 2]
    assert arrays["channel_seen"].tolist() == [2, 1, 2, 1]
    assert pf._n_seen == (3, 2)
    twin = loaded(saved(pf))
    assert [times.tolist() for times in twin._channels_seen()] == [[2, 1, 1], [2, 2]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"channel_symbols": [2, 3]}, "open channels have the wrong length"),
        ({"channel_symbols": [2]}, "open channels have the wrong length"),
        ({"channel_seen": [2, 1, 2]}, "open channels have the wrong length"),
        ({"channel_symbols": [2, 1], "channel_seen": [2, 1, 3]}, "statistics has the wrong length"),
        ({"channel_symbols": [3, 1]}, "count of a symbol in a channel"),
        ({"channel_seen": [2, 1, 0, 3]}, "count of a symbol in a channel"),
        ({"channel_seen": [9, 1, 2, 1]}, "count of a symbol in a channel"),
        ({"channel_seen": [1, 1, 2, 1]}, "more often than the stream"),
        ({"observation": [3.0, 1.0]}, "pending observation"),
        ({"observation": [0.5, 1.0]}, "pending observation"),
    ],
)
def test_a_file_that_contradicts_itself_is_refused(changes: dict[str, Any], message: str) -> None:
    pf = make_filter(mdvpf.Product(OPEN, OPEN))
    feed(pf, [(0, 0), (1, 0), (0, 1), (2, 1)])
    opened = unsealed(saved(pf))
    for name, values in changes.items():
        opened.arrays[name] = np.array(values, dtype=opened.arrays[name].dtype)
    with pytest.raises(mdvpf.CheckpointError, match=message):
        loaded(sealed(opened, version=3))
