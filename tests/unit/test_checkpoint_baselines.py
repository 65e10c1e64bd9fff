"""Checkpoints of the comparators: bit for bit, and with checks of the contents."""

from __future__ import annotations

import copy
import io
import pickle
import tracemalloc
from collections.abc import Callable
from typing import Any

import joblib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mdvpf
from mdvpf.baselines.context_predictor import Dump
from mdvpf.datasets import HMM
from tests.kernel.corrupting import accepted_forgeries
from tests.kernel.inspecting import BREAK, Event, feed
from tests.kernel.sealing import loaded, saved, sealed, unsealed

V = 4
HMMS = [
    HMM([0.3, 0.7], [[0.9, 0.1], [1 / 3, 2 / 3]], [[0.1, 0.2, 0.3, 0.4], [1, 0, 0, 0]]),
    HMM([1, 0, 0], np.full((3, 3), 1 / 3), [[0.5, 0.5], [0.1, 0.9], [1, 0]]),
]
MAKERS: dict[str, Callable[[], mdvpf.Predictor]] = {
    "Markov(0)": lambda: mdvpf.Markov(V, order=0),
    "Markov(1)": lambda: mdvpf.Markov(V),
    "Markov(3), fading": lambda: mdvpf.Markov(V, order=3, beta=0.01, decay=0.7),
    "Markov(1), forgetful": lambda: mdvpf.Markov(V, decay=1e-40),
    "ContextTree": lambda: mdvpf.ContextTree(V, depth=3),
    "ContextTree(0)": lambda: mdvpf.ContextTree(V, depth=0, beta=0.1),
    "PitmanYorTree": lambda: mdvpf.PitmanYorTree(V, depth=3, strength=0.1),
    "PitmanYorTree(0)": lambda: mdvpf.PitmanYorTree(V, depth=0),
    "PitmanYorTree, bounded": lambda: mdvpf.PitmanYorTree(V, depth=3, max_nodes=12),
    "PitmanYorMixture": lambda: mdvpf.PitmanYorMixture(V, [3, 1], [0.8, 0.2], [0.3], share=0.1),
    "PitmanYorMixture, bounded": lambda: mdvpf.PitmanYorMixture(V, [0, 2], max_nodes=5),
    "KnownHMM": lambda: mdvpf.KnownHMM(HMMS, [7]),
    "KnownHMM, larger alphabet": lambda: mdvpf.KnownHMM(HMMS[1], n_symbols=V),
}
every_maker = pytest.mark.parametrize("maker", MAKERS)
events_of_a_stream = st.lists(st.sampled_from([0, 1, 2, 3, 3, None, BREAK]), max_size=40)


def reports(predictor: mdvpf.Predictor, events: list[Any]) -> list[Any]:
    """The predictions of a predictor along events, to the last bit."""
    found: list[Any] = []
    for event in events:
        if isinstance(event, str):
            predictor.new_sequence()
        else:
            found.append(predictor.update(event))
        found.append(predictor.predict_proba().tobytes())
    return found


@every_maker
@settings(max_examples=25)
@given(before=events_of_a_stream, after=events_of_a_stream)
def test_resuming_is_bit_identical(maker: str, before: list[Event], after: list[Event]) -> None:
    predictor = MAKERS[maker]()
    feed(predictor, before)
    twin = loaded(saved(predictor))
    assert type(twin) is type(predictor)
    assert repr(twin) == repr(predictor)
    assert saved(twin) == saved(predictor)
    assert reports(twin, after) == reports(predictor, after)
    assert saved(twin) == saved(predictor)


@every_maker
def test_pickle_deepcopy_and_joblib_go_through_the_same_bytes(maker: str) -> None:
    predictor = MAKERS[maker]()
    predictor.vocabulary = mdvpf.Vocabulary("abcd")
    feed(predictor, [0, 1, None, 3, BREAK, 1, 1])
    file = io.BytesIO()
    joblib.dump(predictor, file)
    for content in (pickle.dumps(predictor), file.getvalue()):
        assert saved(predictor) in content
    file.seek(0)
    for twin in (
        pickle.loads(pickle.dumps(predictor)),
        copy.deepcopy(predictor),
        joblib.load(file),
    ):
        assert saved(twin) == saved(predictor)
        assert twin.vocabulary == predictor.vocabulary
        twin.update(0)
        assert saved(twin) != saved(predictor)


def test_a_class_loads_its_own_only() -> None:
    content = saved(mdvpf.Markov(3))
    with pytest.raises(mdvpf.CheckpointError, match="holds a Markov; expected a ContextTree"):
        mdvpf.ContextTree.load(io.BytesIO(content))
    assert isinstance(mdvpf.Predictor.load(io.BytesIO(content)), mdvpf.Markov)


@every_maker
def test_corrupted_checkpoints_are_refused_or_work(maker: str, torture_scale: float) -> None:
    predictor = MAKERS[maker]()
    feed(predictor, [0, 1, 2, None, 3, BREAK, 1, 1, 0, 2, 3, 3, 0])
    content = saved(predictor)
    for twin in accepted_forgeries(content, int(2000 * torture_scale)):
        if hasattr(twin, "_tree"):
            twin._tree.verify()
        if twin.n_symbols <= 1000:
            feed(twin, [0, None, 0, BREAK, 0])
            np.testing.assert_allclose(twin.predict_proba().sum(), 1.0, rtol=0.0, atol=1e-5)


@pytest.mark.parametrize(
    ("maker", "name", "change", "message"),
    [
        ("Markov(1)", "totals", lambda a: a + 1, "sum to their totals"),
        ("Markov(1)", "contexts", lambda a: a[:, :0], "contexts of type"),
        ("Markov(1)", "contexts", lambda a: a * 0, "occurs twice"),
        ("Markov(0)", "contexts", lambda a: np.zeros((10**12, 0), "<i4"), "contexts of type"),
        ("Markov(1)", "units", lambda a: a * np.nan, "unit"),
        ("ContextTree", "children", lambda a: a[::-1], "parent"),
        ("ContextTree", "counts", lambda a: -a, "count"),
        ("ContextTree", "keys", lambda a: a + 10**9, "count"),
        ("ContextTree", "odds", lambda a: a * np.inf, "odds"),
        ("PitmanYorTree", "parents", lambda a: a + 1, "parent"),
        ("PitmanYorTree", "parents", lambda a: a[:-1], "without a symbol"),
        ("PitmanYorTree", "parents", lambda a: np.arange(len(a), dtype="<u4"), "too deep"),
        ("PitmanYorTree", "edges", lambda a: a * 0, "occurs twice"),
        ("PitmanYorTree", "edges", lambda a: a + V, "alphabet"),
        ("PitmanYorTree", "edges", lambda a: a.astype("<i4"), "section of type"),
        ("PitmanYorTree", "owners", lambda a: a * 0, "seen nothing"),
        ("PitmanYorTree", "owners", lambda a: a + 1, "unknown node"),
        ("PitmanYorTree", "symbols", lambda a: a + V, "unknown node"),
        ("PitmanYorTree", "symbols", lambda a: a[::-1], "not seen|twice"),
        ("PitmanYorTree", "counts", lambda a: a * 0, "count of zero"),
        ("PitmanYorTree", "counts", lambda a: a * 0 + 1, "counted too little"),
        ("PitmanYorTree", "counts", lambda a: a.astype("<u8") + 2**53, "too large"),
        ("PitmanYorTree", "counts", lambda a: a[:-1], "different lengths"),
        ("PitmanYorMixture", "types", lambda a: a * 0, "counted too little|out of place"),
        ("PitmanYorMixture", "types", lambda a: a * 2, "more types"),
        ("PitmanYorMixture", "occurrences", lambda a: a * 0, "count of zero"),
        ("PitmanYorMixture", "log_weights", lambda a: a * np.nan, "weight"),
        ("PitmanYorMixture", "log_weights", lambda a: a - 1e6, "weights are out"),
        ("PitmanYorMixture", "log_weights", lambda a: a[1:], "log_weights of type"),
        ("KnownHMM", "emission 1", lambda a: a * 2, "emission"),
        ("KnownHMM", "state", lambda a: -a, "negative"),
        ("KnownHMM", "state", lambda a: a[:1], "state of type"),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_impossible_contents_are_refused(
    maker: str, name: str, change: Callable[[Any], Any], message: str
) -> None:
    predictor = MAKERS[maker]()
    feed(predictor, [0, 1, 2, 3, 1, 2, 0, 1])
    opened = unsealed(saved(predictor))
    opened.arrays[name] = np.ascontiguousarray(change(opened.arrays[name]))
    with pytest.raises(mdvpf.CheckpointError, match=message):
        loaded(sealed(opened))


def test_an_order_is_not_believed_without_a_context() -> None:
    opened = unsealed(saved(mdvpf.Markov(V)))
    opened.header["predictor"]["values"]["order"] = 10**8
    content = sealed(opened)
    tracemalloc.start()
    try:
        with pytest.raises(mdvpf.CheckpointError, match="order"):
            loaded(content)
        assert tracemalloc.get_traced_memory()[1] < 10**6
    finally:
        tracemalloc.stop()


def test_a_limit_is_not_believed_where_there_are_more() -> None:
    predictor = mdvpf.PitmanYorTree(V, depth=2, max_nodes=50)
    feed(predictor, [0, 1, 2, 3, 1, 2])
    opened = unsealed(saved(predictor))
    opened.values()["max_nodes"] = 3
    with pytest.raises(mdvpf.CheckpointError, match="more nodes than allowed"):
        loaded(sealed(opened))


def test_a_section_too_many_is_refused() -> None:
    for predictor in (mdvpf.Markov(3), mdvpf.ParticleFilter(mdvpf.InfiniteHMM(3), n_particles=2)):
        opened = unsealed(saved(predictor))
        opened.arrays["extra"] = np.zeros(2)
        with pytest.raises(mdvpf.CheckpointError, match="'extra'"):
            loaded(sealed(opened))


@pytest.mark.parametrize("limit", [{}, {"max_nodes": 2000, "max_entries": 4000}])
def test_a_dump_makes_no_object_for_each_context(limit: dict[str, int]) -> None:
    """Such objects scatter over the heap, which then grows with every checkpoint."""
    tree = mdvpf.PitmanYorMixture(50, [3], [0.5], [0.3], **limit)
    tree.run(np.random.default_rng(0).integers(50, size=5000))
    empty = Dump(
        np.empty(tree._tree.n_nodes - 1, dtype=np.uint32),
        np.empty(tree._tree.n_nodes - 1, dtype=np.int32),
        np.empty((tree._tree.n_nodes, 2)),
        np.empty(tree._tree.n_entries, dtype=np.uint32),
        np.empty(tree._tree.n_entries, dtype=np.int32),
        np.empty((tree._tree.n_entries, 2)),
    )
    tracemalloc.start()
    try:
        tree._tree.dump(*empty)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert tree._tree.n_nodes > 1000
    assert peak < 5 * tree._tree.n_nodes  # no object has five bytes
    keys = empty.owners.astype(np.int64) * 50 + empty.symbols
    assert len(np.unique(keys)) == tree._tree.n_entries
    assert not limit or np.all(np.diff(keys) > 0)
