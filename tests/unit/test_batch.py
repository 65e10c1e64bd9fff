"""Batches: each key by itself, whatever the partitions, in pieces or at once, killed or not."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdvpf
from mdvpf.checkpoint import CheckpointError
from mdvpf.streams import BatchError, batch, run_batch

pd = pytest.importorskip("pandas", reason="needs pandas")
pytest.importorskip("narwhals", reason="needs mdvpf[frames]")

V = 4
NAMES = ["news", "sport", "weather", "mail"]


def filter_of(n_particles: int) -> mdvpf.ParticleFilter:
    return mdvpf.ParticleFilter(mdvpf.InfiniteHMM(V), n_particles=n_particles)


def labelled(labels: list[str]) -> mdvpf.Predictor:
    chain = mdvpf.Markov(2)
    chain.vocabulary = mdvpf.Vocabulary(labels)
    return chain


def template(labels: bool = True) -> mdvpf.SurpriseDetector:
    predictor = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(V), mdvpf.SMC(), 5, rng=1)
    if labels:
        predictor.vocabulary = mdvpf.Vocabulary(NAMES)
    return mdvpf.SurpriseDetector(predictor, block=4, warm_up=5)


def clicks(n: int, seed: int = 0) -> Any:
    rng = random.Random(seed)
    return pd.DataFrame(
        {
            "user": [rng.randrange(9) for _ in range(n)],
            "page": [rng.choice(NAMES) for _ in range(n)],
            "at": np.arange(n, dtype=float),
        }
    )


def run(source: Any, **given: Any) -> Any:
    given = {"symbol": "page", "key": "user", "n_partitions": 3, **given}
    return run_batch(source, template(), **given)


def plain(frame: Any) -> str:
    """Return a frame of pandas as text, as NaN is not equal to itself."""
    return repr(frame.astype(object).where(frame.notna(), None).to_dict("list"))


def by_hand(frame: Any) -> list[float]:
    """Return the surprise of each row, from detectors that were fed one by one."""
    detectors: dict[int, mdvpf.SurpriseDetector] = {}
    found = []
    for user, page in zip(frame["user"], frame["page"], strict=True):
        detector = detectors.setdefault(user, template())
        found.append(detector.update(NAMES.index(page)).surprise)
    return found


def test_each_key_has_a_detector_of_its_own() -> None:
    frame = clicks(200)
    found = run(frame)
    assert found["row"].tolist() == list(range(200))
    assert found["symbol"].tolist() == frame["page"].tolist()
    assert found["surprise"].tolist() == by_hand(frame)


@pytest.mark.parametrize("n_partitions", [1, 50])
def test_partitions_make_no_difference(n_partitions: int) -> None:
    frame = clicks(150)
    assert plain(run(frame, n_partitions=n_partitions)) == plain(run(frame))


def test_files_give_what_frames_give(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs mdvpf[parquet]")
    frame = clicks(120)
    frame["user"] = "user " + frame["user"].astype(str)
    frame[:50].to_parquet(tmp_path / "a.parquet")
    frame[50:].to_csv(tmp_path / "b.csv", index=False)
    found = run([tmp_path / "a.parquet", tmp_path / "b.csv"], n_partitions=2)
    assert found["surprise"].to_pylist() == by_hand(frame)


def test_a_batch_goes_on_with_what_is_not_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow", reason="needs mdvpf[parquet]")
    frame = clicks(150)
    done: list[int] = []
    run_partition = batch.run_partition

    def fail_twice(task: batch.Partition) -> Any:
        if task.number in (1, 2) and len(done) < 2:
            done.append(task.number)
            raise MemoryError("no room")
        return run_partition(task)

    monkeypatch.setattr(batch, "run_partition", fail_twice)
    with pytest.raises(BatchError, match=r"2 of 3 partitions failed.*no room"):
        run(frame, folder=tmp_path / "out")
    assert len(list((tmp_path / "out").glob("rows-*"))) == 1

    def note(task: batch.Partition) -> Any:
        done.append(task.number)
        return run_partition(task)

    monkeypatch.setattr(batch, "run_partition", note)
    del done[:]
    found = run(frame, folder=tmp_path / "out")
    assert done == [1, 2]
    assert plain(found) == plain(run(frame))


def test_another_batch_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs mdvpf[parquet]")
    run(clicks(50), folder=tmp_path)
    with pytest.raises(ValueError, match="another batch"):
        run(clicks(50, seed=1), folder=tmp_path)
    with pytest.raises(ValueError, match="another batch"):
        run(clicks(50), folder=tmp_path, n_partitions=4)


def test_the_next_batch_goes_on_from_the_states_of_the_one_before(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs mdvpf[parquet]")
    frame = clicks(210)
    run(frame[:70], folder=tmp_path / "1")
    # Other partitions than before, and a day on which some keys do not come.
    second = frame[70:140][frame["user"][70:140] < 5]
    run(second, folder=tmp_path / "2", state=tmp_path / "1", n_partitions=4)
    third = run(frame[140:], state=tmp_path / "2", n_partitions=2)
    whole = by_hand(pd.concat([frame[:70], second, frame[140:]]))
    assert third["surprise"].tolist() == whole[-70:]


def test_sequences_end_where_they_say() -> None:
    frame = pd.DataFrame({"user": ["a"] * 6, "page": ["news", "sport"] * 3})
    ended = run(frame, end="sport")
    assert ended["surprise"].tolist() != run(frame)["surprise"].tolist()


def test_bad_arguments_are_refused() -> None:
    frame = clicks(10)
    with pytest.raises(TypeError, match="SurpriseDetector"):
        run_batch(frame, mdvpf.Markov(2), symbol="page", key="user")  # type: ignore[arg-type]
    background = mdvpf.SurpriseDetector(mdvpf.Markov(2), background=mdvpf.Markov(2))
    with pytest.raises(TypeError, match="background"):
        run_batch(frame, background, symbol="page", key="user")
    with pytest.raises(TypeError, match="closed alphabet"):
        opened = mdvpf.SurpriseDetector(mdvpf.PitmanYorTree(None))
        run_batch(frame, opened, symbol="page", key="user")
    with pytest.raises(ValueError, match="no column 'none'"):
        run(frame, symbol="none")
    with pytest.raises(ValueError, match="expected files that exist"):
        run("nowhere.parquet")
    with pytest.raises(ValueError, match="state="):
        run(frame, state="nowhere")
    with pytest.raises(BatchError, match=r"expected an integer in 0\.\.3"):
        run_batch(frame, template(labels=False), symbol="page", key="user")


# --- The state of a key


def test_a_key_goes_on_elsewhere_to_the_last_bit() -> None:
    users = mdvpf.KeyedDetector(template(), max_keys=2)
    rng = np.random.default_rng(0)
    users.run(rng.integers(V, size=101), keys=["ann", "bob"] * 50 + ["ann"])
    elsewhere = mdvpf.KeyedDetector(template(), max_keys=2)
    elsewhere.restore("ann", users.snapshot("ann"))
    assert elsewhere.keys == ["ann"]
    symbols = rng.integers(V, size=40)
    one, other = (each.run(symbols, keys=["ann"] * 40) for each in (users, elsewhere))
    assert one.surprise.tolist() == other.surprise.tolist()
    assert users.snapshot("ann") == elsewhere.snapshot("ann")


def test_restored_keys_keep_to_the_bound() -> None:
    users = mdvpf.KeyedDetector(template(), max_keys=2)
    users.run([0, 1], keys=["ann", "bob"])
    state = users.snapshot("ann")
    users.restore("eve", state)
    assert users.keys == ["bob", "eve"]
    users.restore("bob", state)
    assert users.keys == ["eve", "bob"]


@pytest.mark.parametrize(
    ("predictor", "other"),
    [
        (filter_of(5), filter_of(50)),
        (mdvpf.Markov(V, order=1), mdvpf.Markov(V, order=1, beta=0.1)),
        (mdvpf.Mixture([filter_of(5)] * 9), mdvpf.Mixture([*[filter_of(5)] * 8, filter_of(6)])),
    ],
)
def test_the_state_of_a_predictor_with_other_settings_is_refused(
    predictor: mdvpf.Predictor, other: mdvpf.Predictor
) -> None:
    users = mdvpf.KeyedDetector(mdvpf.SurpriseDetector(predictor))
    users.update(1, "ann")
    elsewhere = mdvpf.KeyedDetector(mdvpf.SurpriseDetector(other))
    with pytest.raises(ValueError, match="settings and the vocabulary of the template's predictor"):
        elsewhere.restore("ann", users.snapshot("ann"))
    assert elsewhere.keys == []


def test_the_state_of_a_predictor_with_another_vocabulary_is_refused() -> None:
    users, elsewhere = (
        mdvpf.KeyedDetector(mdvpf.SurpriseDetector(labelled(labels)))
        for labels in (["a", "b"], ["b", "a"])
    )
    users.update(1, "ann")
    with pytest.raises(ValueError, match="vocabulary"):
        elsewhere.restore("ann", users.snapshot("ann"))


def test_states_that_do_not_fit_change_nothing() -> None:
    users = mdvpf.KeyedDetector(template())
    users.update(1, "ann")
    state = users.snapshot("ann")
    other = mdvpf.KeyedDetector(mdvpf.SurpriseDetector(mdvpf.Markov(V)))
    with pytest.raises(ValueError, match="settings of the template"):
        other.restore("ann", state)
    assert other.keys == []
    for damaged in (b"", state[:-1], state[:40] + b"x" + state[41:]):
        with pytest.raises(CheckpointError):
            users.restore("ann", damaged)
    assert users.snapshot("ann") == state
    with pytest.raises(TypeError, match="expected bytes"):
        users.restore("ann", "text")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'bob'"):
        users.snapshot("bob")
    shared = mdvpf.KeyedDetector(
        mdvpf.SurpriseDetector(mdvpf.Markov(2), background=mdvpf.Markov(2))
    )
    shared.update(1, "ann")
    with pytest.raises(TypeError, match="background"):
        shared.snapshot("ann")
    with pytest.raises(TypeError, match="background"):
        shared.restore("ann", state)
