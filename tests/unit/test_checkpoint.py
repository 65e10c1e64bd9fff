"""Checkpoints: a loaded predictor continues as if never interrupted, and files are safe."""

from __future__ import annotations

import copy
import fcntl
import io
import os
import pickle
import stat
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mdvpf
from mdvpf import checkpoint
from mdvpf.checkpoint import atomic_write
from mdvpf.model.algorithms import Algorithm
from tests.algorithms import EVERY_ALGORITHM
from tests.kernel.inspecting import BREAK, Event, assert_same, feed, generator_state, laid_open
from tests.kernel.sealing import loaded, reloaded, saved, sealed, unsealed

V = 5
every_algorithm = pytest.mark.parametrize("algorithm", EVERY_ALGORITHM)
every_history = pytest.mark.parametrize("history", [None, 1, 3, "full"])
STREAM: list[Event] = [0, 0, 1, None, 2, 2, 1, BREAK, 3, 3, 1, 4, 0, None, BREAK, 1, 3, 4, 4, 0]
LATER: list[Event] = [2, None, 0, BREAK, 4, 4, 1, 1, 0, 3]


def make_filter(
    algorithm: str | Algorithm = "MD-VPA", n_particles: int = 6, **options: Any
) -> mdvpf.ParticleFilter:
    chosen = EVERY_ALGORITHM[algorithm] if isinstance(algorithm, str) else algorithm
    model = mdvpf.InfiniteHMM(
        **{"n_symbols": V, "beta": 0.1, "gamma": 3.0, **options.pop("model", {})}
    )
    return mdvpf.ParticleFilter(model, chosen, n_particles, **{"rng": 5, **options})


def fed_filter(*args: Any, **options: Any) -> mdvpf.ParticleFilter:
    pf = make_filter(*args, **options)
    feed(pf, STREAM)
    return pf


def through_joblib(pf: mdvpf.ParticleFilter) -> mdvpf.ParticleFilter:
    file = io.BytesIO()
    joblib.dump(pf, file)
    assert saved(pf) in file.getvalue()
    file.seek(0)
    loaded: mdvpf.ParticleFilter = joblib.load(file)
    return loaded


WAYS: dict[str, Callable[[mdvpf.ParticleFilter], mdvpf.ParticleFilter]] = {
    "save and load": reloaded,
    "pickle": lambda pf: pickle.loads(pickle.dumps(pf)),
    "pickle, protocol 0": lambda pf: pickle.loads(pickle.dumps(pf, protocol=0)),
    "deepcopy": copy.deepcopy,
    "joblib": through_joblib,
}
every_way = pytest.mark.parametrize("way", WAYS)


# --- A loaded predictor continues as if never interrupted


@every_algorithm
@every_history
def test_resuming_is_bit_identical_after_every_event(
    algorithm: str, history: int | str | None
) -> None:
    pf = make_filter(algorithm, history=history)
    for n in range(len(STREAM) + 1):
        twin = reloaded(pf)
        twin._core.verify()
        assert_same(twin, laid_open(pf))
        assert twin._core.snapshot() == pf._core.snapshot()
        if n < len(STREAM):
            feed(pf, STREAM[n : n + 1])
            feed(twin, STREAM[n : n + 1])
            assert_same(twin, laid_open(pf))


def test_pickle_holds_the_bytes_of_the_file() -> None:
    pf = fed_filter()
    assert saved(pf) in pickle.dumps(pf)


@every_way
@every_algorithm
def test_every_way_of_copying_continues_alike(algorithm: str, way: str) -> None:
    pf = fed_filter(algorithm, history="full")
    pf.vocabulary = mdvpf.Vocabulary("abcde")
    twin = WAYS[way](pf)
    assert repr(twin) == repr(pf)
    assert twin.vocabulary == pf.vocabulary
    before = laid_open(pf)
    feed(twin, LATER)
    assert_same(pf, before)  # they share nothing
    feed(pf, LATER)
    assert_same(twin, laid_open(pf))


@given(
    algorithm=st.sampled_from(sorted(EVERY_ALGORITHM)),
    oracle=st.sampled_from(["unvisited", "any"]),
    max_states=st.sampled_from([None, 1, 3]),
    history=st.sampled_from([None, 1, 4, "full"]),
    n_symbols=st.sampled_from([1, 3, 4, 7, 300, 5000]),
    n_particles=st.integers(1, 9),
    seed=st.integers(0, 2**32),
    events=st.lists(st.sampled_from([0, 1, 2, 3, 250, 4999, None, BREAK]), max_size=40),
    where=st.integers(0, 40),
)
def test_a_filter_resumed_anywhere_goes_on_as_if_never_stopped(
    algorithm: str,
    oracle: str,
    max_states: int | None,
    history: Any,
    n_symbols: int,
    n_particles: int,
    seed: int,
    events: list[Any],
    where: int,
) -> None:
    events = [e % n_symbols if isinstance(e, int) else e for e in events]
    pf = make_filter(
        algorithm,
        n_particles,
        model={"n_symbols": n_symbols, "oracle": oracle, "max_states": max_states},
        history=history,
        rng=seed,
    )
    feed(pf, events[:where])
    twin = reloaded(pf)
    twin._core.verify()
    feed(pf, events[where:])
    feed(twin, events[where:])
    assert twin._core.snapshot() == pf._core.snapshot()
    assert twin.predict_proba().tobytes() == pf.predict_proba().tobytes()
    assert generator_state(twin.rng) == generator_state(pf.rng)


def text_like(n: int, n_symbols: int, seed: int = 0) -> list[int]:
    """Symbols with the frequencies of letters or words, most of them from repeated pieces."""
    rng = np.random.default_rng(seed)
    pieces = [np.minimum(rng.zipf(1.3, 6), n_symbols) - 1 for _ in range(60)]
    found = np.concatenate([pieces[i] for i in rng.zipf(1.5, n) % 60])
    return [int(symbol) for symbol in found[:n]]


@every_algorithm
def test_resuming_is_bit_identical_where_candidates_are_sampled(algorithm: str) -> None:
    """With thousands of candidates the core collects those above a bound that it stores."""
    pf = make_filter(algorithm, 600, model={"n_symbols": 27})
    symbols = text_like(330, 27)
    pf.run(symbols[:150])
    assert sum(pf.n_states + 1) > 2000
    for start in range(150, 330, 60):
        twin = reloaded(pf)
        found = twin.run(symbols[start : start + 60])
        expected = pf.run(symbols[start : start + 60])
        for name in ("log_predictive", "mean_states", "ess", "discarded"):
            assert np.array_equal(getattr(found, name), getattr(expected, name)), name
        assert twin._core.snapshot() == pf._core.snapshot()


def test_counts_of_every_width_survive() -> None:
    pf = make_filter("VPA", 1, model={"n_symbols": 2, "gamma": 0.1})
    for n, largest in ((200, 2**8), (60_000, 2**16), (70_000, 2**32)):
        pf.run([0] * n)
        assert pf.counts().transition.max() < largest
        twin = reloaded(pf)
        twin._core.verify()
        assert_same(twin, laid_open(pf))
    assert pf.counts().transition.max() > 2**16


def test_weights_too_small_for_a_double_survive() -> None:
    algorithm = mdvpf.MDVPA(discount=400.0, normalizer="none")
    pf = make_filter(algorithm, 20, model={"beta": 0.01}, history="full")
    feed(pf, [0, 1, 2, 0, 1, 2, 0, 1, 3, 4, 0, 1, 2])
    assert pf._core.snapshot()[-1][1], "no log weights"
    twin = reloaded(pf)
    assert_same(twin, laid_open(pf))
    feed(pf, LATER)
    feed(twin, LATER)
    assert_same(twin, laid_open(pf))


def test_everything_that_was_passed_is_there() -> None:
    model = mdvpf.InfiniteHMM(3, alpha=0.1, gamma=1 / 3, beta=1e-60, oracle="any", max_states=4)
    for algorithm in (
        mdvpf.MDVPA(discount=[0.1, 1 / 3], normalizer="sum", carry_weights=False),
        mdvpf.MDVPA(discount="1/sqrt(n)", selection="optimal"),
        mdvpf.MDVPA(discount=0.1),
        mdvpf.SMC("systematic", 1 / 3),
    ):
        pf = mdvpf.ParticleFilter(model, algorithm, 3, n_threads=2, history=7)
        twin = reloaded(pf)
        for name in ("model", "algorithm", "n_particles", "n_threads", "history"):
            assert getattr(twin, name) == getattr(pf, name)
            assert type(getattr(twin, name)) is type(getattr(pf, name))


@pytest.mark.parametrize("kind", ["PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"])
def test_every_bit_generator_continues_and_spawns_alike(kind: str) -> None:
    seed = np.random.SeedSequence(3, spawn_key=(1, 2))
    rng = np.random.Generator(getattr(np.random, kind)(seed))
    rng.integers(0, 9, 3, dtype=np.uint32)  # leaves half a number in the buffer
    rng.spawn(2)
    pf = make_filter("SMC", rng=rng)
    feed(pf, STREAM)
    twin = reloaded(pf)
    assert repr(generator_state(twin.rng)) == repr(generator_state(pf.rng))
    assert twin.rng.spawn(1)[0].random() == pf.rng.spawn(1)[0].random()
    feed(pf, LATER)
    feed(twin, LATER)
    assert_same(twin, laid_open(pf))
    assert twin.rng.random(dtype=np.float32) == pf.rng.random(dtype=np.float32)


def test_a_foreign_bit_generator_is_not_saved() -> None:
    class Own(np.random.PCG64):
        pass

    pf = make_filter("SMC", rng=np.random.Generator(Own(1)))
    with pytest.raises(ValueError, match=r"rng=.*bit generators of NumPy"):
        pf.save(io.BytesIO())


@pytest.mark.parametrize("n_symbols", [27, 10_000])
@pytest.mark.parametrize("history", [None, "full"])
@pytest.mark.parametrize(
    "algorithm", ["MD-VPA", "VPA", "SMC", "ParticleLearning", "OptimalResampling"]
)
def test_a_loaded_filter_shares_as_much_as_the_saved_one(
    algorithm: str, history: str | None, n_symbols: int
) -> None:
    pf = make_filter(algorithm, 300, model={"n_symbols": n_symbols}, history=history)
    pf.run(text_like(200, n_symbols))
    content = saved(pf)
    assert len(content) <= 1.3 * pf.memory().live
    twin = loaded(content)
    for name in ("rows", "shared_rows", "history_nodes", "dense_equivalent"):
        assert getattr(twin.memory(), name) == getattr(pf.memory(), name)


@pytest.mark.parametrize(
    ("algorithm", "n_particles", "n"),
    [("MD-VPA", 1000, 1500), ("VPA", 1000, 600), ("SMC", 1000, 600), ("MD-VPA", 10_000, 150)],
)
def test_the_file_is_no_larger_than_the_predictor_in_memory(
    algorithm: str, n_particles: int, n: int, data_dir: Path
) -> None:
    text = mdvpf.datasets.books(n_characters=n).symbols[:n]
    for history in (None, "full"):
        pf = make_filter(algorithm, n_particles, model={"n_symbols": 27}, history=history)
        pf.run(text)
        assert len(saved(pf)) <= 1.3 * pf.memory().live


@pytest.mark.parametrize("n_particles", [1, 2, 10])
@pytest.mark.parametrize("n", [0, 1, 5, 100])
@every_algorithm
def test_a_small_file_has_a_header_besides(algorithm: str, n: int, n_particles: int) -> None:
    pf = make_filter(algorithm, n_particles, model={"n_symbols": 27})
    if n:
        pf.run(text_like(n, 27))
    assert len(saved(pf)) <= 1.3 * pf.memory().live + 4096


# --- What is not in the file


def halved(step: int) -> float:
    return 0.5 / step


def test_a_callable_discount_is_asked_for_by_name() -> None:
    pf = fed_filter(mdvpf.MDVPA(discount=halved))
    content = saved(pf)
    assert b"halved" not in content
    with pytest.raises(mdvpf.CheckpointError, match=r"discount: .*load\(file, discount=\.\.\.\)"):
        loaded(content)
    twin = loaded(content, discount=halved)
    feed(pf, LATER)
    feed(twin, LATER)
    assert_same(twin, laid_open(pf))


@pytest.mark.parametrize("algorithm", [mdvpf.MDVPA(), mdvpf.MDVPA(discount=0.5), mdvpf.VPA()])
def test_a_discount_that_is_not_asked_for_is_an_error(algorithm: Algorithm) -> None:
    with pytest.raises(ValueError, match=r"discount=.*holds its own"):
        loaded(saved(make_filter(algorithm)), discount=halved)


@pytest.mark.parametrize("discount", ["1/n", 0.5, [1.0]])
def test_only_a_callable_discount_is_given(discount: Any) -> None:
    with pytest.raises(TypeError, match=r"discount=.*expected a callable"):
        loaded(saved(fed_filter(mdvpf.MDVPA(discount=halved))), discount=discount)


def test_pickle_and_deepcopy_take_the_callable_along() -> None:
    pf = fed_filter(mdvpf.MDVPA(discount=halved))
    for way in WAYS:
        if way != "save and load":
            twin = WAYS[way](pf)
            assert twin.algorithm.discount is halved
            assert_same(twin, laid_open(pf))
    anonymous = fed_filter(mdvpf.MDVPA(discount=lambda n: 1.0 / n))
    assert_same(copy.deepcopy(anonymous), laid_open(anonymous))


# --- Paths and file objects


@pytest.mark.parametrize("kind", [str, os.fsencode, Path])
def test_paths_of_every_kind(kind: Callable[[Any], Any], tmp_path: Path) -> None:
    pf = fed_filter()
    path = kind(tmp_path / "filter")
    pf.save(path)
    assert_same(mdvpf.ParticleFilter.load(path), laid_open(pf))
    assert os.listdir(tmp_path) == ["filter"]


def test_files_hold_one_checkpoint_after_another() -> None:
    file = io.BytesIO()
    first, second = fed_filter("VPA"), fed_filter("SMC")
    file.write(b"before")
    first.save(file)
    second.save(file)
    file.seek(6)
    assert_same(mdvpf.ParticleFilter.load(file), laid_open(first))
    assert_same(mdvpf.ParticleFilter.load(file), laid_open(second))
    assert not file.read()


def test_a_pipe_that_gives_a_byte_at_a_time_is_read() -> None:
    class Slow(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            return super().read(min(size or 0, 1))

    pf = fed_filter()
    assert_same(mdvpf.ParticleFilter.load(Slow(saved(pf))), laid_open(pf))


@pytest.mark.parametrize("file", [None, 3, io.StringIO(), ["a"]])
def test_what_is_neither_a_path_nor_a_binary_file(file: Any) -> None:
    pf = make_filter()
    with pytest.raises(TypeError, match=r"file=.*expected a path or a binary file"):
        pf.save(file)
    with pytest.raises(TypeError, match=r"file=.*expected a path or a binary file"):
        mdvpf.ParticleFilter.load(file)


class Raw(io.RawIOBase):
    """A file without a buffer, which accepts a few bytes at a time."""

    def __init__(self) -> None:
        self.content = io.BytesIO()

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        return self.content.write(content[:1000])


def test_a_file_may_take_less_than_it_is_given() -> None:
    pf = fed_filter()
    file = Raw()
    pf.save(file)
    assert file.content.getvalue() == saved(pf)


def test_there_must_be_a_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nothing"):
        mdvpf.ParticleFilter.load(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        make_filter().save(tmp_path / "nowhere" / "filter")


def test_a_file_at_a_path_ends_with_the_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "filter"
    path.write_bytes(saved(make_filter()) + b"\0")
    with pytest.raises(mdvpf.CheckpointError, match="more after the end"):
        mdvpf.ParticleFilter.load(path)


def test_only_files_are_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (tmp_path, pipe, Path("/dev/null")):
        with pytest.raises(OSError, match="expected the path of a file"):
            make_filter().save(path)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_a_link_stays_one_and_permissions_stay(tmp_path: Path) -> None:
    path, link = tmp_path / "filter", tmp_path / "link"
    make_filter().save(path)
    plain = tmp_path / "plain"
    plain.touch()
    assert path.stat().st_mode == plain.stat().st_mode
    path.chmod(0o640)
    link.symlink_to("filter")
    pf = fed_filter()
    pf.save(link)
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert_same(mdvpf.ParticleFilter.load(path), laid_open(pf))


# --- The old file or the new one


def test_the_new_file_is_on_disk_before_it_takes_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "filter"
    calls: list[str] = []
    fsync, replace = os.fsync, os.replace

    def noted_fsync(descriptor: int) -> None:
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        calls.append("folder" if is_folder else f"file of {os.fstat(descriptor).st_size}")
        fsync(descriptor)

    def noted_replace(source: Any, target: Any) -> None:
        calls.append("replace")
        assert Path(source).parent == Path(target).parent
        with open(source, "rb") as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        replace(source, target)

    monkeypatch.setattr(atomic_write.os, "fsync", noted_fsync)
    monkeypatch.setattr(atomic_write.os, "replace", noted_replace)
    pf = fed_filter()
    pf.save(path)
    assert calls == [f"file of {len(saved(pf))}", "replace", "folder"]


@pytest.mark.parametrize("call", ["fsync", "replace", "fstat", "fchmod"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_keeps_the_old_file_and_leaves_no_other(
    call: str, error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "filter"
    fed_filter().save(path)
    old = path.read_bytes()
    pf = fed_filter("VPA")
    before = laid_open(pf)

    def fail(*args: Any) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(atomic_write.os, call, fail)
        with pytest.raises(type(error)):
            pf.save(path)
    assert path.read_bytes() == old
    assert os.listdir(tmp_path) == ["filter"]
    assert_same(pf, before)


def test_a_folder_that_cannot_be_read_is_not_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(folder: Any) -> list[str]:
        raise PermissionError(13, "Permission denied", str(folder))

    pf = fed_filter()
    with monkeypatch.context() as patch:
        patch.setattr(atomic_write.os, "listdir", refuse)
        pf.save(tmp_path / "filter")
    assert_same(mdvpf.ParticleFilter.load(tmp_path / "filter"), laid_open(pf))


def test_litter_of_the_dead_is_swept_and_of_the_living_not(tmp_path: Path) -> None:
    path = tmp_path / "filter"
    dead = tmp_path / ".filter.0123456789abcdef.tmp"
    dead.write_bytes(b"half a checkpoint")
    others = [tmp_path / ".filter.two.0123456789abcdef.tmp", tmp_path / ".filter.mine.tmp"]
    for other in others:
        other.touch()
    living = atomic_write._temporary(path)
    with living:
        make_filter().save(path)
        names = {".filter.two.0123456789abcdef.tmp", ".filter.mine.tmp", "filter"}
        assert set(os.listdir(tmp_path)) == names | {Path(living.name).name}
    make_filter().save(path)
    assert set(os.listdir(tmp_path)) == names


FULL_DISK = """
    import resource, signal, sys
    import mdvpf
    pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(9), n_particles=200, rng=1, history="full")
    pf.run([0, 1, 2] * 5)
    pf.save(sys.argv[1])
    pf.run([3, 4, 5, 7] * 30)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
    try:
        pf.save(sys.argv[1])
    except OSError as error:
        print(error)
        print(pf.update(0).log_predictive)
"""


def test_a_full_disk_is_a_clear_error_and_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "filter"
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FULL_DISK), str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    message, went_on = done.stdout.splitlines()
    assert message == f"[Errno 27] File too large: '{path}'"
    assert os.listdir(tmp_path) == ["filter"]
    pf = mdvpf.ParticleFilter.load(path)
    assert pf._core.n_steps == 14
    pf.run([3, 4, 5, 7] * 30)
    assert pf.update(0).log_predictive == float(went_on)


# --- Files that are refused, with a reason


def test_an_error_is_a_value_error() -> None:
    assert issubclass(mdvpf.CheckpointError, ValueError)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a checkpoint"),
        (b"PK\x03\x04" + bytes(100), "not a checkpoint"),
        (pickle.dumps([1, 2, 3] * 20), "not a checkpoint"),
    ],
)
def test_invalid_checkpoints_are_refused(content: bytes, message: str) -> None:
    with pytest.raises(mdvpf.CheckpointError, match=message):
        loaded(content)


def test_a_format_of_the_future_is_named() -> None:
    content = sealed(unsealed(saved(make_filter())), version=4)
    with pytest.raises(mdvpf.CheckpointError, match="format version 4; expected 1 to 3"):
        loaded(content)


def test_every_byte_is_covered_by_a_checksum() -> None:
    content = saved(fed_filter(n_particles=2, history=2))
    for place in range(len(content)):
        spoilt = bytearray(content)
        spoilt[place] ^= 1 << (place % 8)
        with pytest.raises(mdvpf.CheckpointError):
            loaded(bytes(spoilt))
    for length in range(len(content)):
        with pytest.raises(mdvpf.CheckpointError):
            loaded(content[:length])


def test_a_class_is_chosen_among_those_known() -> None:
    opened = unsealed(saved(make_filter()))
    for name in ("os.system", "Predictor", "", None, 3, [], {}, "builtins.eval"):
        opened.header["predictor"]["class"] = name
        with pytest.raises(mdvpf.CheckpointError):
            loaded(sealed(opened))


def test_a_class_loads_its_own_checkpoints_only() -> None:
    class Other(mdvpf.ParticleFilter):
        pass

    class Unrelated(mdvpf.Predictor):
        pass

    pf = fed_filter()
    content = saved(pf)
    assert type(Other.load(io.BytesIO(content))) is Other
    assert type(loaded(saved(Other.load(io.BytesIO(content))))) is mdvpf.ParticleFilter
    with pytest.raises(mdvpf.CheckpointError, match="ParticleFilter; expected a Unrelated"):
        Unrelated.load(io.BytesIO(content))


def test_a_subclass_is_pickled_as_itself() -> None:
    pf = Tagged(mdvpf.InfiniteHMM(3), n_particles=4, rng=1)
    pf.run([0, 1, 2, 0])
    for twin in (pickle.loads(pickle.dumps(pf)), copy.deepcopy(pf)):
        assert type(twin) is Tagged
        assert_same(twin, laid_open(pf))


class Tagged(mdvpf.ParticleFilter):
    """A user's own class."""


def test_an_unregistered_predictor_raises_an_error() -> None:
    class Constant(mdvpf.Predictor):
        n_symbols = 2

        def predict_proba(self) -> Any: ...
        def update(self, symbol: int | None) -> Any: ...
        def new_sequence(self) -> None: ...
        def copy(self) -> Any: ...

    with pytest.raises(TypeError, match="Constant cannot be saved"):
        Constant().save(io.BytesIO())


@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        (["model", "n_symbols"], 0, "n_symbols=0"),
        (["model", "beta"], "x", "beta='x'"),
        (["model", "surprise"], 1, "surprise"),
        (["algorithm", "name"], "Bootstrap", "Bootstrap"),
        (["algorithm", "normalizer"], "max", "normalizer='max'"),
        (["options", "n_particles"], 2**31, "n_particles"),
        (["options", "history"], 4, "history"),
        (["options", "n_threads"], True, "n_threads=True"),
        (["rng", "state", "bit_generator"], "os.system", "os.system"),
        (["rng", "state", "state", "state"], -1, "state=-1"),
        (["core", "n_steps"], 7, "number of steps"),
        (["core", "pending_symbol"], V, "pending_symbol=5"),
        (["core", "is_pending"], 1, "is_pending=1"),
        (["core", "log_evidence"], None, "log_evidence=None"),
        (["vocabulary"], {"labels": ["a"], "unknown": None}, "vocabulary"),
    ],
)
def test_a_value_that_cannot_be_is_named(where: list[str], value: Any, message: str) -> None:
    opened = unsealed(saved(fed_filter(history=3)))
    place = opened.values()
    for name in where[:-1]:
        place = place[name]
    place[where[-1]] = value
    with pytest.raises(mdvpf.CheckpointError, match=message):
        loaded(sealed(opened))


@pytest.mark.parametrize(("kind", "name"), [("MT19937", "pos"), ("Philox", "buffer_pos")])
@pytest.mark.parametrize("value", [-1, 625, 10**9, 2**63, 1.5])
def test_a_generator_never_reads_past_its_buffer(kind: str, name: str, value: Any) -> None:
    pf = make_filter("SMC", rng=np.random.Generator(getattr(np.random, kind)(1)))
    opened = unsealed(saved(pf))
    state = opened.values()["rng"]["state"]
    (state["state"] if name == "pos" else state)[name] = value
    with pytest.raises(mdvpf.CheckpointError, match=name):
        loaded(sealed(opened))


def test_nested_predictors_are_saved_in_the_same_way() -> None:
    """A mixture's needs: parts with their own arrays, and values that the caller must pass."""

    class Pair(checkpoint.Saveable):
        def __init__(self, first: Any, second: Any) -> None:
            self.parts = {"first": first, "second": second}

        def _to_checkpoint(self) -> checkpoint.State:
            return checkpoint.State({"n": 2}, {"share": np.array([0.5, 0.5])}, self.parts)

        @classmethod
        def _from_checkpoint(cls, state: checkpoint.State, given: dict[str, Any]) -> Pair:
            assert state.values == {"n": 2}
            assert state.arrays.pop("share").tolist() == [0.5, 0.5]
            return cls(**state.parts)

    checkpoint.register("Pair of the tests")(Pair)
    try:
        inner = Pair(fed_filter("VPA"), fed_filter(mdvpf.MDVPA(discount=halved)))
        pair = Pair(inner, fed_filter("SMC"))
        file = io.BytesIO()
        pair.save(file)
        file.seek(0)
        twin = Pair.load(file, discount=halved)
        assert_same(twin.parts["second"], laid_open(pair.parts["second"]))
        for name in ("first", "second"):
            found, expected = twin.parts["first"].parts[name], inner.parts[name]
            assert_same(found, laid_open(expected))
    finally:
        del checkpoint.saveable._CLASSES["Pair of the tests"]
