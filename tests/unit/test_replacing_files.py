"""Replaced files: permissions, obstacles, and long names."""

from __future__ import annotations

import os
import signal
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mdvpf.checkpoint import atomic_write

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="permissions, links and pipes")

LITTER = ".file.0123456789abcdef.tmp"


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Fail instead of waiting for ever."""

    def fail(number: int, frame: object) -> None:
        raise TimeoutError("it waits")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_pipe_in_place_of_a_temporary_file_is_left_alone(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / LITTER)
    with at_most(20):
        atomic_write.replace(tmp_path / "file", [b"new"])
    assert (tmp_path / "file").read_bytes() == b"new"
    assert stat.S_ISFIFO((tmp_path / LITTER).lstat().st_mode)


@pytest.mark.parametrize("kind", ["file", "pipe", "nothing", "itself"])
def test_a_link_in_place_of_a_temporary_file_is_not_followed(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    other = folder / LITTER if kind == "itself" else tmp_path / "other"
    if kind == "file":
        other.write_bytes(b"other")
    if kind == "pipe":
        os.mkfifo(other)
    (folder / LITTER).symlink_to(other)
    with at_most(20):
        atomic_write.replace(folder / "file", [b"new"])
    assert (folder / "file").read_bytes() == b"new"
    assert (folder / LITTER).is_symlink()
    assert kind != "file" or other.read_bytes() == b"other"


def test_a_folder_in_place_of_a_temporary_file_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / LITTER).mkdir()
    atomic_write.replace(tmp_path / "file", [b"new"])
    assert (tmp_path / LITTER).is_dir()


@pytest.mark.parametrize("old_mode", [0o600, 0o640, 0o444])
def test_new_content_is_never_readable_by_more_than_the_old(old_mode: int, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(old_mode)
    seen = []

    def chunks() -> Iterator[bytes]:
        for chunk in (b"n", b"ew"):
            (temporary,) = tmp_path.glob(".file.*.tmp")
            seen.append(mode_of(temporary))
            yield chunk

    before = os.umask(0)
    try:
        atomic_write.replace(path, chunks())
    finally:
        os.umask(before)
    assert seen == [old_mode, old_mode]
    assert path.read_bytes() == b"new" and mode_of(path) == old_mode


def test_a_temporary_file_is_its_owners_alone_before_it_has_the_old_permissions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o604)
    seen = []
    fchmod = os.fchmod

    def noted(number: int, mode: int) -> None:
        seen.append(stat.S_IMODE(os.fstat(number).st_mode))
        fchmod(number, mode)

    monkeypatch.setattr(atomic_write.os, "fchmod", noted)
    before = os.umask(0)
    try:
        atomic_write.replace(path, [b"new"])
    finally:
        os.umask(before)
    assert seen == [0o600] and mode_of(path) == 0o604


def test_a_new_file_goes_by_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        atomic_write.replace(tmp_path / "file", [b"new"])
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "file") == 0o640


def test_a_replaced_file_does_not_run_as_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o6755)
    atomic_write.replace(path, [b"new"])
    assert mode_of(path) == 0o755


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() != 0, reason="only root gives away")
def test_the_owner_stays(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    os.chown(path, 12345, 23456)
    path.chmod(0o640)
    atomic_write.replace(path, [b"new"])
    found = path.stat()
    assert (found.st_uid, found.st_gid, mode_of(path)) == (12345, 23456, 0o640)


def test_another_group_gets_no_more_than_everybody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o664)

    def refuse(number: int, owner: int, group: int) -> None:
        raise PermissionError("not yours")

    found = path.stat()
    fields = list(found)
    fields[stat.ST_GID] = found.st_gid + 1
    monkeypatch.setattr(atomic_write.os, "fchown", refuse)
    monkeypatch.setattr(atomic_write, "_stat_of", lambda target: os.stat_result(fields))
    atomic_write.replace(path, [b"new"])
    assert path.read_bytes() == b"new" and mode_of(path) == 0o644


@pytest.mark.parametrize("name", ["x" * 240, "x" * 255, "\u20ac" * 80, "\u20ac" * 85])
def test_names_as_long_as_file_systems_take(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    dead = tmp_path / f"{atomic_write._stem(path)}0123456789abcdef.tmp"
    dead.write_bytes(b"litter")
    for content in (b"old", b"new"):
        atomic_write.replace(path, [content])
        assert path.read_bytes() == content
        assert os.listdir(tmp_path) == [name]


def test_long_names_that_begin_alike_do_not_share_litter(tmp_path: Path) -> None:
    first, second = tmp_path / ("x" * 240 + "1"), tmp_path / ("x" * 240 + "2")
    dead = tmp_path / f"{atomic_write._stem(first)}0123456789abcdef.tmp"
    dead.write_bytes(b"litter")
    atomic_write.replace(second, [b"new"])
    assert dead.exists()
