"""Filters with real counts continue from a file bit for bit; failed allocations change nothing."""

from __future__ import annotations

import io
import struct
from typing import Any

import numpy as np
import pytest

import mdvpf
from tests.algorithms import EVERY_ALGORITHM
from tests.kernel.inspecting import assert_same, feed, laid_open
from tests.kernel.real_models import EXTENSIONS, make_events, make_model
from tests.kernel.sealing import PREFIX, loaded, saved, sealed, unsealed
from tests.kernel.test_snapshot_failures import (
    assert_failed_restorations_change_nothing,
    failures,
)

every_algorithm = pytest.mark.parametrize("algorithm", EVERY_ALGORITHM)
every_extension = pytest.mark.parametrize("extension", EXTENSIONS)
every_history = pytest.mark.parametrize("history", [None, 3, "full"])


def make_filter(
    algorithm: str,
    extension: str,
    history: int | str | None = None,
    n_symbols: int = 5,
    n_particles: int = 6,
) -> mdvpf.ParticleFilter:
    pf = mdvpf.ParticleFilter(
        make_model(extension, n_symbols),
        EVERY_ALGORITHM[algorithm],
        n_particles,
        rng=5,
        history=history,
    )
    pf._core._settle_every(7)
    return pf


@pytest.mark.one_in(3)
@every_algorithm
@every_extension
@every_history
def test_a_loaded_filter_continues_bit_for_bit(
    algorithm: str, extension: str, history: int | str | None
) -> None:
    for n_symbols in (5, 300):
        pf = make_filter(algorithm, extension, history, n_symbols)
        for seed, n in enumerate([0, 1, 12, 50, 8]):
            feed(pf, make_events(n_symbols, n, seed))
            content = saved(pf)
            twin = loaded(content)
            twin._core._settle_every(7)
            twin._core.verify()
            assert_same(twin, laid_open(pf))
            assert saved(twin) == content
            later = make_events(n_symbols, 15, seed + 10)
            other = pf.copy()
            for event in later:
                feed(twin, [event])
                feed(other, [event])
                assert twin.predict_proba().tobytes() == other.predict_proba().tobytes()
            assert_same(twin, laid_open(other))
            assert saved(twin) == saved(other)


@every_extension
def test_a_long_stream_is_saved_with_all_that_it_shares(extension: str) -> None:
    """Settings with recounted rows, merged records, and groups whose decay is long overdue."""
    pf = make_filter("VPA", extension, n_symbols=20, n_particles=30)
    pf._core._settle_every(64)
    feed(pf, make_events(20, 700, 3))
    twin = loaded(saved(pf))
    twin._core._settle_every(64)
    assert twin.memory().shared_rows == pf.memory().shared_rows
    twin._core.verify()
    for seed in range(3):
        feed(pf, make_events(20, 100, seed))
        feed(twin, make_events(20, 100, seed))
        assert saved(twin) == saved(pf)
    assert_same(twin, laid_open(pf))


@pytest.mark.parametrize("extension", ["mealy", "all", "half_life"])
def test_a_copy_and_a_pickled_filter_are_the_same(extension: str) -> None:
    pf = make_filter("MD-VPA", extension, "full")
    feed(pf, make_events(5, 30))
    for twin in (pf.copy(), pf.__reduce__()[0](*pf.__reduce__()[1])):
        assert_same(twin, laid_open(pf))


# --- Versions


def version_of(content: bytes) -> int:
    version: int = PREFIX.unpack(content[: PREFIX.size])[1]
    return version


def test_only_files_with_real_counts_have_version_2() -> None:
    classic = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(5), mdvpf.VPA(), 6)
    assert version_of(saved(classic)) == 1
    for extension in EXTENSIONS:
        content = saved(make_filter("VPA", extension))
        assert version_of(content) == 2
        assert unsealed(content).values()["core"]["counts"] == "real"


def test_containers_of_such_a_filter_have_version_2() -> None:
    file = io.BytesIO()
    mdvpf.SurpriseDetector(make_filter("VPA", "kappa")).save(file)
    assert version_of(file.getvalue()) == 2


@pytest.mark.parametrize("counts", [None, "integer", 1, []])
def test_a_file_must_say_that_its_counts_are_real(counts: Any) -> None:
    opened = unsealed(saved(make_filter("VPA", "kappa")))
    opened.values()["core"]["counts"] = counts
    with pytest.raises(mdvpf.CheckpointError, match="kind of counts does not fit its model"):
        loaded(sealed(opened, version=2))


def test_integer_counts_are_not_those_of_a_model_with_real_ones() -> None:
    classic = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(5), mdvpf.VPA(), 6)
    opened = unsealed(saved(classic))
    opened.values()["model"]["kappa"] = 1.0
    with pytest.raises(mdvpf.CheckpointError, match="kind of counts does not fit its model"):
        loaded(sealed(opened, version=2))


# --- Memory


@pytest.mark.parametrize("algorithm", ["MD-VPA", "VPA", "SMC"])
@pytest.mark.parametrize("extension", ["rows that fade", "all", "half_life"])
@every_history
@pytest.mark.parametrize("n_symbols", [5, 300])
def test_a_failed_restoration_changes_nothing(
    algorithm: str, extension: str, history: int | str | None, n_symbols: int
) -> None:
    pf = make_filter(algorithm, extension, history, n_symbols)
    feed(pf, make_events(n_symbols, 40))
    assert_failed_restorations_change_nothing(pf)


@pytest.mark.parametrize("algorithm", ["MD-VPA", "SMC"])
@pytest.mark.parametrize("extension", ["rows that fade", "all"])
@every_history
def test_a_failed_snapshot_changes_nothing(
    algorithm: str, extension: str, history: int | str | None
) -> None:
    pf = make_filter(algorithm, extension, history, 300)
    feed(pf, make_events(300, 40))
    expected = pf._core.snapshot()
    before = pf._core.memory()
    n_failures = 0
    for _ in failures(pf._core, pf._core.snapshot):
        n_failures += 1
        assert pf._core.memory() == before
        pf._core.verify()
        before = pf._core.memory()
        assert pf._core.snapshot() == expected
    assert n_failures > 15


# --- False contents


def spoilt(extension: str, name: str, index: int, value: int, n: int = 30) -> bytes:
    """A file in which one number is replaced."""
    pf = make_filter("VPA", extension)
    feed(pf, make_events(5, n))
    opened = unsealed(saved(pf))
    array = opened.arrays[name].astype("<u4" if name != "kind" else "|u1")
    assert array[index] != value
    array[index] = value
    opened.arrays[name] = array
    return sealed(opened, version=2)


def bits(value: float) -> int:
    found: int = struct.unpack("<I", struct.pack("<f", value))[0]
    return found


@pytest.mark.parametrize(
    ("extension", "name", "value", "message"),
    [
        ("half_life", "pair_sum", bits(0.0), "a sum is out of range"),
        ("half_life", "pair_sum", bits(-1.0), "a sum is out of range"),
        ("half_life", "pair_sum", bits(float("inf")), "a sum is out of range"),
        ("half_life", "pair_sum", bits(float("nan")), "a sum is out of range"),
        ("half_life", "pair_sum", bits(3e38), "emissions from it differ|more transitions"),
        ("kappa", "pair_sum", bits(1.5), "a sum is out of range"),
        ("half_life", "into", bits(float("nan")), "a sum is out of range"),
        ("half_life", "into", bits(-0.0), "a sum is out of range"),
        ("half_life", "into", bits(3e38), "emissions from it differ|more transitions"),
        ("kappa", "into", bits(0.0), "a sum is out of range"),
        ("kappa", "into", bits(2.0**24), "emissions from it differ"),
        ("half_life", "behind", 2**30 + 1, "scale of a group"),
        ("half_life", "behind", 2**32 - 1, "scale of a group"),
        ("kappa", "behind", 1, "scale of a group"),
        ("half_life", "block_behind", 1001, "scale of a particle"),
        ("half_life", "block_behind", 2**32 - 1, "scale of a particle"),
        ("kappa", "block_behind", 1, "scale of a particle"),
        ("half_life", "pair_state", 10**6, "a state that does not exist"),
        ("half_life", "row_pairs", 2**32 - 1, "wrong length"),
        ("half_life", "last_symbol", 6, "last symbol is out of range"),
        ("rows", "reached", 77, "numbers of rows that lead to states"),
        ("rows that fade", "reached", 10**6, "numbers of rows that lead to states"),
        ("half_life", "current", 1000, "a state that it does not have"),
        ("half_life", "labels", 1, "a record has the wrong kind"),
        ("half_life", "labels", 10**6, "the number of a record is out of range"),
        ("half_life", "rows", 10**6, "the number of a record is out of range"),
        ("half_life", "kind", 7, "a record has an unknown kind"),
        ("half_life", "kind", 255, "wrong length"),
        ("mealy", "children", 10**6, "the number of a record is out of range"),
    ],
)
def test_numbers_out_of_range_are_refused(
    extension: str, name: str, value: int, message: str
) -> None:
    with pytest.raises(mdvpf.CheckpointError, match=message):
        loaded(spoilt(extension, name, 0, value))


@pytest.mark.parametrize("n_steps", [0, 2**53 + 1, 2**62])
def test_steps_that_cannot_be_are_refused(n_steps: int) -> None:
    pf = make_filter("VPA", "half_life")
    feed(pf, make_events(5, 30))
    opened = unsealed(saved(pf))
    opened.values()["core"]["n_steps"] = n_steps
    with pytest.raises(mdvpf.CheckpointError, match=r"steps|emissions from it differ"):
        loaded(sealed(opened, version=2))


def test_nodes_with_repeated_children_are_refused_in_bounded_time() -> None:
    """Sixteen children at each of eight levels: billions of paths over a few records."""
    model = mdvpf.InfiniteHMM(2**31 - 2, beta=1e-9, machine="mealy", half_life=100.0)
    pf = mdvpf.ParticleFilter(model, mdvpf.VPA(), 3)
    pf.run([0, 1, 2, 0, 1, 2])
    opened = unsealed(saved(pf))
    children = opened.arrays["children"].reshape(-1, 16)
    children[:] = children.max(1, keepdims=True)
    for n_steps in (6, 2**50):
        opened.values()["core"]["n_steps"] = n_steps
        with pytest.raises(mdvpf.CheckpointError):
            loaded(sealed(opened, version=2))


def test_a_particle_without_a_successor_is_refused() -> None:
    """The only state may not be offered, and there is no room for a new one."""
    model = mdvpf.InfiniteHMM(2, oracle="rows", half_life=5.0, max_states=1)
    pf = mdvpf.ParticleFilter(model, mdvpf.VPA(), 1)
    pf.run([0])
    pf.new_sequence()
    opened = unsealed(saved(pf))
    arrays = opened.arrays
    assert arrays["reached"].tolist() == [1]
    # Without the transition nothing reaches the state.
    row = int(arrays["rows"][0])
    assert row == 1
    arrays["rows"][0] = 0
    arrays["columns"][:] = np.where(arrays["columns"] > 0, arrays["columns"] - 1, 0)
    arrays["kind"] = arrays["kind"][1:]
    arrays["behind"] = arrays["behind"][1:]
    arrays["row_pairs"] = arrays["row_pairs"][4:]
    for name in ("pair_state", "pair_sum"):
        arrays[name] = arrays[name][1:]
    assert loaded(sealed(opened, version=2)).n_particles == 1
    arrays["reached"][0] = 0
    with pytest.raises(mdvpf.CheckpointError, match="no candidate"):
        loaded(sealed(opened, version=2))


# --- Labels


def labelled(pf: mdvpf.ParticleFilter, labels: list[int], next_label: int) -> bytes:
    """The file of a filter whose states have other labels."""
    opened = unsealed(saved(pf))
    arrays = opened.arrays
    arrays["kind"] = np.append(arrays["kind"], np.array([255], np.uint8))
    arrays["labels"] = np.full(len(arrays["labels"]), len(arrays["kind"]), "<u4")
    arrays["n_labels"] = np.array([len(labels)], "<u4")
    arrays["next_label"] = np.array([next_label], "<u4")
    arrays["label"] = np.array(labels, "<u4")
    return sealed(opened, version=2)


def labelling_filter(algorithm: str = "VPA") -> mdvpf.ParticleFilter:
    pf = make_filter(algorithm, "half_life")
    feed(pf, make_events(5, 60, 2))
    return pf


@pytest.mark.parametrize("algorithm", ["VPA", "SMC", "MD-VPA"])
def test_labels_are_restored(algorithm: str) -> None:
    pf = labelling_filter(algorithm)
    twin = loaded(labelled(pf, [2, 7], 11))
    twin._core.verify()
    assert max(twin.states) < 60
    known = np.array([2, 7, *range(11, 60)])
    assert twin.states.tolist() == [known[s] if s >= 0 else -1 for s in pf.states]
    assert twin.predict_proba().tobytes() == pf.predict_proba().tobytes()
    content = saved(twin)
    assert saved(loaded(content)) == content
    again = loaded(content)
    for event in make_events(5, 30, 9):
        feed(twin, [event])
        feed(again, [event])
        again._core.verify()
        assert again.states.tolist() == twin.states.tolist()
    assert saved(again) == saved(twin)


def test_histories_name_states_by_their_labels() -> None:
    pf = make_filter("VPA", "half_life", 3)
    feed(pf, make_events(5, 60, 2))
    known = np.array([2, 7, *range(40, 90)], "<u4")
    opened = unsealed(labelled(pf, [2, 7], 40))
    with pytest.raises(mdvpf.CheckpointError, match="does not end in the state"):
        loaded(sealed(opened, version=2))
    opened.arrays["state"] = known[opened.arrays["state"]]
    twin = loaded(sealed(opened, version=2))
    for event in make_events(5, 20, 4):
        twin._core.verify()
        for k in range(len(pf.weights)):
            assert twin.path(k).tolist() == known[pf.path(k)].tolist()
        feed(pf, [event])
        feed(twin, [event])
    assert saved(loaded(saved(twin))) == saved(twin)


@pytest.mark.parametrize(
    ("labels", "next_label", "message"),
    [
        ([2, 2], 11, "not in order"),
        ([7, 2], 11, "not in order"),
        ([2, 7], 7, "not in order"),
        ([2, 2**32 - 1], 0, "not in order"),
        ([2, 7], 2**32 - 1, "not in order"),
        ([2, 7], 10**6, "more labels than steps"),
        (list(range(500)), 500, "more labels than states"),
    ],
)
def test_labels_out_of_order_are_refused(labels: list[int], next_label: int, message: str) -> None:
    with pytest.raises(mdvpf.CheckpointError, match=message):
        loaded(labelled(labelling_filter(), labels, next_label))
