"""Locks and generations of checkpoints: who may write, what is kept, and what a failure leaves."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import mdvpf
from mdvpf.checkpoint import FileLock, Generations, LockedError, atomic_write, previous_of
from mdvpf.predictor import Predictor


def chain(n: int) -> mdvpf.Markov:
    found = mdvpf.Markov(2, order=0)
    for _ in range(n):
        found.update(1)
    return found


def n_symbols_in(path: Path) -> int:
    """Return the number of symbols that the chain in a file has seen, from its prediction."""
    found = mdvpf.Markov.load(path)
    probability = float(found.predict_proba()[1])
    return next(n for n in range(50) if float(chain(n).predict_proba()[1]) == probability)


def test_a_lock_is_held_by_one_and_given_back(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    with FileLock(path) as lock:
        assert lock.is_held
        assert (tmp_path / "kept.lock").read_text() == f"{os.getpid()}\n"
        with pytest.raises(LockedError, match=f"kept: in use by process {os.getpid()}") as found:
            FileLock(path).acquire()
        assert found.value.process == os.getpid()
    assert os.listdir(tmp_path) == []
    FileLock(path).acquire().release()


def test_a_link_has_the_lock_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    with FileLock(tmp_path / "kept"), pytest.raises(LockedError):
        FileLock(tmp_path / "link").acquire()


@pytest.mark.skipif(sys.platform == "win32", reason="a lock file that is held cannot be removed")
def test_a_removed_lock_file_is_created_again(tmp_path: Path) -> None:
    first = FileLock(tmp_path / "kept").acquire()
    os.unlink(tmp_path / "kept.lock")
    second = FileLock(tmp_path / "kept").acquire()
    first.release()  # unlinks the file of the second
    second.release()
    assert os.listdir(tmp_path) == []


def test_many_processes_hold_a_lock_one_at_a_time(tmp_path: Path) -> None:
    script = """if True:
        import sys, os
        from mdvpf.checkpoint import FileLock, LockedError
        path, n = sys.argv[1], 0
        while n < 20:
            try:
                with FileLock(path):
                    os.mkdir(path + ".held")  # fails if anyone else is here
                    os.rmdir(path + ".held")
                    n += 1
            except LockedError:
                pass
    """
    command = [sys.executable, "-c", script, str(tmp_path / "kept")]
    processes = [subprocess.Popen(command) for _ in range(3)]
    assert [process.wait(120) for process in processes] == [0, 0, 0]


def test_the_last_two_are_kept(tmp_path: Path) -> None:
    kept = Generations(tmp_path / "kept")
    for n in range(4):
        kept.save(chain(n))
        assert n_symbols_in(kept.path) == n
        if n:
            assert n_symbols_in(previous_of(kept.path)) == n - 1
    assert sorted(os.listdir(tmp_path)) == ["kept", "kept.previous"]


def test_without_hard_links_the_last_two_are_kept_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: Any) -> None:
        raise OSError(errno.EPERM, "no hard links")

    monkeypatch.setattr(os, "link", refuse)
    test_the_last_two_are_kept(tmp_path)


@pytest.mark.parametrize("call", ["fsync", "link", "replace"])
def test_whatever_fails_there_is_a_good_checkpoint(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Generations(tmp_path / "kept")
    kept.save(chain(1))
    kept.save(chain(2))

    def refuse(*arguments: Any) -> None:
        raise KeyboardInterrupt  # as a stand-in for the end of the process

    monkeypatch.setattr(atomic_write.os, call, refuse)
    with pytest.raises(KeyboardInterrupt):
        kept.save(chain(3))
    monkeypatch.undo()
    assert n_symbols_in(kept.path) == 2
    assert n_symbols_in(previous_of(kept.path)) in (1, 2)
    kept.save(chain(4))
    assert sorted(os.listdir(tmp_path)) == ["kept", "kept.previous"]
    assert n_symbols_in(previous_of(kept.path)) == 2


def test_a_damaged_checkpoint_never_becomes_the_previous_one(tmp_path: Path) -> None:
    kept = Generations(tmp_path / "kept")
    kept.save(chain(1))
    kept.save(chain(2))
    kept.path.write_bytes(b"nonsense")
    warnings: list[str] = []
    again = Generations(kept.path)
    found = again.load((Predictor,), warnings.append)
    assert len(warnings) == 1
    assert found.predict_proba().tolist() == chain(1).predict_proba().tolist()
    again.save(chain(5))
    assert n_symbols_in(previous_of(kept.path)) == 1
    again.save(chain(6))
    assert n_symbols_in(previous_of(kept.path)) == 5


def test_a_full_disk_gets_the_room_of_the_previous_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Generations(tmp_path / "kept")
    kept.save(chain(1))
    kept.save(chain(2))
    real, has_room = os.fsync, []

    def full(descriptor: int) -> None:
        if not previous_of(kept.path).exists():
            has_room.append(True)
        if not has_room:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    kept.save(chain(3))
    assert n_symbols_in(kept.path) == 3


def test_the_next_one_waits_and_errors_are_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Generations(tmp_path / "kept")
    may_go_on = threading.Event()
    kept.save_in_background(chain(1), may_go_on.wait)  # type: ignore[arg-type]
    assert not kept.path.exists()
    may_go_on.set()
    kept.save_in_background(chain(2))
    kept.wait()
    assert (n_symbols_in(kept.path), n_symbols_in(previous_of(kept.path))) == (2, 1)

    def refuse() -> None:
        raise OSError(errno.EIO, "no")

    kept.save_in_background(chain(3), refuse)
    with pytest.raises(OSError, match="no"):
        kept.wait()
    kept.wait()
    assert n_symbols_in(kept.path) == 2
