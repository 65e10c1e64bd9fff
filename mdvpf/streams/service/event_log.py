"""The log of the service: it holds every acknowledged record until the checkpoints have it.

The log is a folder of segments, each named after the number of its first record. A record is a
header (a mark, the length and the checksum of its content, its number, and how much of the segment
was synced when it was written) and its content: the name of the stream, the kind, and bytes.

A process that dies may leave an unfinished group of records at the end of the last segment. It was
never acknowledged, so it is cut off. If the header of a later record says that a damaged one had
been synced, the damaged one was acknowledged: that is an error.
"""

from __future__ import annotations

import os
import struct
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from mdvpf.checkpoint.atomic_write import sync_folder

_MARK = b"\xb7mdv"
_HEADER = struct.Struct("<4sIIQQ")  # mark, length, checksum, number, synced bytes
_LARGEST = 1 << 30
_SUFFIX = ".log"


class LogError(OSError):
    """The log is damaged, or can no longer be written."""


class Record(NamedTuple):
    """One entry of the log.

    Attributes
    ----------
    number : int
        From 1, without gaps.
    stream : str
        The stream that it is for.
    kind : str
        What it is: "events" or "feedback".
    content : bytes
    """

    number: int
    stream: str
    kind: str
    content: bytes


class _Segment:
    """A file of the log."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.n_bytes = 0
        self.last: dict[str, int] = {}  # the last record of each stream in it


class EventLog:
    r"""An append-only log in a folder: groups of records are synced, old segments removed.

    Parameters
    ----------
    folder : Path
        Created if it does not exist.
    segment_bytes : int, default 16,000,000
        A segment of this size is followed by a new one.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from mdvpf.streams.service.event_log import EventLog
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = EventLog(pathlib.Path(folder))
    ...     _ = log.append([("clicks", "events", b"news\nsport\n")])
    ...     log.close()
    ...     [record.content for record in EventLog(pathlib.Path(folder)).replay()]
    [b'news\nsport\n']
    """

    def __init__(self, folder: Path, segment_bytes: int = 16_000_000) -> None:
        self.folder = folder
        self._limit = segment_bytes
        folder.mkdir(parents=True, exist_ok=True)
        self._segments = [_Segment(path) for path in sorted(folder.glob(f"*{_SUFFIX}"))]
        self._file: int | None = None  # the last segment, open after the first append
        self._next = 1
        self._is_read = not self._segments
        self._lock = threading.Lock()  # of the list of segments

    @property
    def n_bytes(self) -> int:
        """Size of all segments."""
        return sum(segment.n_bytes for segment in list(self._segments))

    # -- reading ---------------------------------------------------------------------------

    def replay(self) -> Iterator[Record]:
        """Yield all records in order and cut off an unfinished end; call before `append`."""
        expected = None
        for i, segment in enumerate(self._segments):
            is_last = i == len(self._segments) - 1
            content = segment.path.read_bytes()
            offset = 0
            first = _first_number(segment.path)
            if expected is not None and first != expected:
                raise LogError(f"{segment.path}: expected {expected:020d}{_SUFFIX} before it")
            expected = self._next = first
            while (found := _record_at(content, offset)) is not None:
                record, size, _ = found
                if record.number != expected:
                    raise LogError(
                        f"{segment.path}: record {record.number} at byte {offset}; expected "
                        f"{expected}: records are missing"
                    )
                expected = self._next = record.number + 1
                offset += size
                segment.last[record.stream] = record.number
                yield record
            segment.n_bytes = offset
            if offset < len(content):
                if not is_last or _is_synced_beyond(content, offset):
                    raise LogError(
                        f"{segment.path}: damaged at byte {offset}, before records that were "
                        "acknowledged; expected the file as it was written"
                    )
                _cut(segment.path, offset)
        self._is_read = True

    def start_after(self, number: int) -> None:
        """Continue after record `number`, the last one that is in a checkpoint.

        A log without files starts anew. A log that lacks its last records is an error.
        """
        if number < self._next:
            return
        if self._segments:
            raise LogError(
                f"{self.folder}: it ends before record {number}, which is in a checkpoint; "
                "expected the log that belongs to the checkpoints"
            )
        self._next = number + 1

    # -- writing ---------------------------------------------------------------------------

    def append(self, entries: Sequence[tuple[str, str, bytes]]) -> list[Record]:
        """Append a group of (stream, kind, content) and sync it; return the records.

        If the disk is full, OSError is raised and the log is unchanged. LogError means that the
        content of the disk is unknown: nothing more may be acknowledged.
        """
        if not self._is_read:
            for _ in self.replay():
                pass
        segment = self._current()
        assert self._file is not None
        start = segment.n_bytes
        records, parts = [], []
        for number, (stream, kind, content) in enumerate(entries, self._next):
            record = Record(number, stream, kind, content)
            records.append(record)
            parts.append(_encoded(record, start))
        data = b"".join(parts)
        try:
            _write(self._file, data)
        except OSError as error:
            self._take_back(start, error)
            raise
        try:
            os.fsync(self._file)
        except OSError as error:
            raise LogError(f"{segment.path}: it could not be synced: {error}") from error
        segment.n_bytes = start + len(data)
        self._next += len(records)
        for record in records:
            segment.last[record.stream] = record.number
        return records

    def _take_back(self, start: int, error: OSError) -> None:
        """Cut off a partial write."""
        assert self._file is not None
        try:
            os.ftruncate(self._file, start)
            os.fsync(self._file)
        except OSError:
            raise LogError(f"{self.folder}: the log could not be repaired: {error}") from error

    def _current(self) -> _Segment:
        """Return the segment to append to; it is synced, and so is its name."""
        if self._file is not None:
            last = self._segments[-1]
            if last.n_bytes < self._limit:
                return last
            os.close(self._file)
            self._file = None
        path = self.folder / f"{self._next:020d}{_SUFFIX}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
        file = os.open(path, flags, 0o600)
        try:
            sync_folder(self.folder)
        except OSError:
            os.close(file)
            raise
        self._file = file
        with self._lock:
            # A segment of this name is an empty one that an earlier process left.
            self._segments = [each for each in self._segments if each.path != path]
            self._segments.append(_Segment(path))
            return self._segments[-1]

    def prune(self, kept: Mapping[str, int]) -> int:
        """Remove segments that no checkpoint needs; return the number of bytes freed.

        Parameters
        ----------
        kept : mapping of str to int
            For each stream, the last record that is in all of its checkpoints.
        """
        freed = 0
        with self._lock:
            while len(self._segments) > 1 and all(
                kept.get(stream, 0) >= number for stream, number in self._segments[0].last.items()
            ):
                first = self._segments[0]
                first.path.unlink(missing_ok=True)
                sync_folder(self.folder)  # segments must vanish in order
                del self._segments[0]
                freed += first.n_bytes
        return freed

    def close(self) -> None:
        """Close the file; all records are on the disk already."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _first_number(path: Path) -> int:
    """Return the number of the first record of a segment, which is its name."""
    if not path.stem.isdecimal():
        raise LogError(f"{path}: expected only segments of the log in this folder")
    return int(path.stem)


def _encoded(record: Record, synced: int) -> bytes:
    content = f"{record.stream} {record.kind}\n".encode() + record.content
    checksum = zlib.crc32(content, record.number & 0xFFFFFFFF)
    return _HEADER.pack(_MARK, len(content), checksum, record.number, synced) + content


def _record_at(content: bytes, offset: int) -> tuple[Record, int, int] | None:
    """Return the record at an offset, its size and the synced bytes; None if damaged."""
    start = offset + _HEADER.size
    if start > len(content):
        return None
    mark, length, checksum, number, synced = _HEADER.unpack_from(content, offset)
    if mark != _MARK or length > _LARGEST or start + length > len(content):
        return None
    payload = content[start : start + length]
    if zlib.crc32(payload, number & 0xFFFFFFFF) != checksum:
        return None
    head, _, rest = payload.partition(b"\n")
    stream, _, kind = head.decode().partition(" ")
    return Record(number, stream, kind, rest), _HEADER.size + length, synced


def _is_synced_beyond(content: bytes, offset: int) -> bool:
    """Return whether a later header says that the damaged record had been synced."""
    later = content.find(_MARK, offset + 1)
    while later >= 0:
        found = _record_at(content, later)
        if found is not None and found[2] > offset:
            return True
        later = content.find(_MARK, later + 1)
    return False


def _write(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _cut(path: Path, n_bytes: int) -> None:
    file = os.open(path, os.O_WRONLY)
    try:
        os.ftruncate(file, n_bytes)
        os.fsync(file)
    finally:
        os.close(file)
