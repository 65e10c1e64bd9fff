"""The log of the service: what was appended comes back, and damage is never passed over."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from mdvpf.streams.service import event_log
from mdvpf.streams.service.event_log import EventLog, LogError


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sync nothing: no test here takes the power away, and a busy disk takes its time."""
    monkeypatch.setattr(os, "fsync", lambda file: None)


def filled(folder: Path, n: int = 5, segment_bytes: int = 10**6) -> list[bytes]:
    """Write records, each in a group of its own; return their contents."""
    log = EventLog(folder, segment_bytes)
    contents = [b"%d\n" % i * 10 for i in range(n)]
    for content in contents:
        log.append([("clicks", "events", content)])
    log.close()
    return contents


def replayed(folder: Path) -> list[bytes]:
    return [record.content for record in EventLog(folder).replay()]


def test_records_come_back_in_order_across_segments(tmp_path: Path) -> None:
    contents = filled(tmp_path, 20, segment_bytes=100)
    assert len(list(tmp_path.iterdir())) > 5
    log = EventLog(tmp_path)
    records = list(log.replay())
    assert [record.content for record in records] == contents
    assert [record.number for record in records] == list(range(1, 21))
    assert log.append([("a", "events", b"x"), ("b", "feedback", b"y")])[1].number == 22


def test_every_cut_of_the_last_group_leaves_the_groups_before_it(tmp_path: Path) -> None:
    contents = filled(tmp_path / "whole")
    (path,) = (tmp_path / "whole").iterdir()
    content = path.read_bytes()
    last = content.rindex(event_log._MARK)
    for n in range(last, len(content)):
        folder = tmp_path / str(n)
        folder.mkdir()
        (folder / path.name).write_bytes(content[:n])
        assert replayed(folder) == contents[:-1]
        log = EventLog(folder)
        assert log.append([("clicks", "events", b"new")])[0].number == 5
        log.close()
        assert replayed(folder) == [*contents[:-1], b"new"]


def test_damage_before_what_was_acknowledged_is_an_error(tmp_path: Path) -> None:
    filled(tmp_path)
    (path,) = tmp_path.iterdir()
    content = bytearray(path.read_bytes())
    content[60] ^= 1  # in the first record; later ones know that it was synced
    path.write_bytes(content)
    with pytest.raises(LogError, match="damaged at byte 0"):
        replayed(tmp_path)


def test_a_missing_segment_is_an_error(tmp_path: Path) -> None:
    filled(tmp_path, 20, segment_bytes=100)
    sorted(tmp_path.iterdir())[3].unlink()
    with pytest.raises(LogError, match="expected"):
        replayed(tmp_path)


def test_a_group_torn_in_its_middle_is_cut_off(tmp_path: Path) -> None:
    contents = filled(tmp_path, 2)
    log = EventLog(tmp_path)
    list(log.replay())
    log.append([("clicks", "events", b"first"), ("clicks", "events", b"second")])
    log.close()
    path = sorted(tmp_path.iterdir())[-1]
    content = bytearray(path.read_bytes())
    content[10] ^= 1  # the first of the group: the disk wrote its pages in another order
    path.write_bytes(content)
    assert replayed(tmp_path) == contents


def test_a_full_disk_leaves_the_log_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = filled(tmp_path)
    log = EventLog(tmp_path)
    list(log.replay())
    log.append([("clicks", "events", b"before")])
    write = os.write

    def half(file: int, data: bytes) -> int:
        if len(data) < 40:
            raise OSError(errno.ENOSPC, "no space left")
        return write(file, data[:30])

    monkeypatch.setattr(os, "write", half)
    with pytest.raises(OSError, match="no space left") as error:
        log.append([("clicks", "events", b"lost" * 10)])
    assert not isinstance(error.value, LogError)
    monkeypatch.undo()
    log.append([("clicks", "events", b"after")])
    log.close()
    assert replayed(tmp_path) == [*contents, b"before", b"after"]


def test_a_sync_that_fails_ends_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = EventLog(tmp_path)
    log.append([("clicks", "events", b"before")])

    def fail(file: int) -> None:
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(LogError, match="synced"):
        log.append([("clicks", "events", b"unknown")])


def test_only_what_all_checkpoints_have_is_removed(tmp_path: Path) -> None:
    log = EventLog(tmp_path, segment_bytes=60)
    for i in range(10):
        log.append([("a" if i < 5 else "b", "events", b"x" * 50)])
    assert log.prune({"a": 3}) > 0
    assert next(record.number for record in EventLog(tmp_path).replay()) == 4
    assert log.prune({"a": 5, "b": 0}) > 0
    assert next(record.number for record in EventLog(tmp_path).replay()) == 6
    assert log.prune({"a": 5, "b": 100}) > 0  # the last segment stays, so that numbers go on
    assert [record.number for record in EventLog(tmp_path).replay()] == [10]


def test_an_empty_segment_keeps_the_numbers(tmp_path: Path) -> None:
    (tmp_path / f"{7:020d}.log").touch()
    assert EventLog(tmp_path).append([("a", "events", b"x")])[0].number == 7


def test_a_log_that_lacks_records_of_a_checkpoint_is_refused(tmp_path: Path) -> None:
    filled(tmp_path, 3)
    log = EventLog(tmp_path)
    list(log.replay())
    log.start_after(3)
    with pytest.raises(LogError, match="record 4"):
        log.start_after(4)
    empty = EventLog(tmp_path / "new")
    empty.start_after(4)
    assert empty.append([("a", "events", b"x")])[0].number == 5


def test_a_segment_whose_name_is_not_synced_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = filled(tmp_path)

    def fail(folder: Path) -> None:
        raise OSError(5, "Input/output error")

    log = EventLog(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(event_log, "sync_folder", fail)
        with pytest.raises(OSError, match="Input/output"):
            log.append([("clicks", "events", b"lost")])
    log.append([("clicks", "events", b"next")])
    log.close()
    assert replayed(tmp_path) == [*found, b"next"]
    assert log.prune({"clicks": 5}) > 0  # the new record is in a segment of its own
    assert replayed(tmp_path) == [b"next"]


def test_a_segment_that_cannot_be_removed_keeps_those_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = filled(tmp_path, segment_bytes=1)
    log = EventLog(tmp_path)
    assert [record.content for record in log.replay()] == found

    def fail(path: Path, missing_ok: bool = False) -> None:
        raise OSError(30, "Read-only file system")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", fail)
        with pytest.raises(OSError, match="Read-only"):
            log.prune({"clicks": 2})
    assert replayed(tmp_path) == found
    log.prune({"clicks": 2})  # the one that stayed is the first to go
    assert replayed(tmp_path) == found[2:]
