"""`Position`: an offset in an input, with digests that identify the bytes before it.

There are three BLAKE2b digests: of the first bytes, of the last bytes before the position, and a
chain over all lines, where each digest covers a line and the digest before it. The first two are
compared whenever a file is opened again. Comparing the chain means reading the whole file
(`mdvpf verify`).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import IO, Any, Self

from mdvpf._support import validate

SPAN = 4096  # bytes in the digests of the first and of the last bytes
DIGEST_BYTES = 16
_LARGEST = 2**62
_CHUNK = 1 << 16
_NO_DIGEST = bytes(DIGEST_BYTES)
_DIGESTS = ("head", "tail", "chain", "chain_before")


def digest(*contents: bytes | bytearray) -> bytes:
    """Return the digest of some bytes."""
    found = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for content in contents:
        found.update(content)
    return found.digest()


@dataclass(frozen=True, slots=True)
class Position:
    r"""The end of the bytes of an input that were read.

    Attributes
    ----------
    n_bytes : int
        Number of bytes that were read, in complete lines.
    n_lines : int
        Number of these lines.
    head_bytes, tail_bytes : int
        Number of bytes in the digests `head` and `tail`.
    head, tail : bytes
        Digests of the first and of the last of these bytes.
    chain, chain_before : bytes
        Digest of all lines, including earlier inputs; the same digest at the start of this input.
    path : str or None
        The file; None for a pipe.
    device, inode : int
        Device and inode of the file, which do not change when it is renamed.

    Examples
    --------
    >>> import io
    >>> from mdvpf.streams.position import Progress
    >>> progress = Progress()
    >>> progress.add(b"cd\n", 3)
    >>> progress.position().is_in(io.BytesIO(b"cd\nls\n"))
    True
    >>> progress.position().is_in(io.BytesIO(b"ls\nls\n"))
    False
    """

    n_bytes: int = 0
    n_lines: int = 0
    head_bytes: int = 0
    head: bytes = digest()
    tail_bytes: int = 0
    tail: bytes = digest()
    chain: bytes = _NO_DIGEST
    chain_before: bytes = _NO_DIGEST
    path: str | None = None
    device: int = 0
    inode: int = 0

    def is_in(self, file: IO[bytes]) -> bool:
        """Tell whether a file has the bytes that were read, judging by `head` and `tail`."""
        file.seek(0)
        head = file.read(self.head_bytes)
        if len(head) < self.head_bytes or digest(head) != self.head:
            return False
        file.seek(self.n_bytes - self.tail_bytes)
        tail = file.read(self.tail_bytes)
        if len(tail) < self.tail_bytes:
            return False
        return digest(tail) == self.tail

    def next_input(self) -> Position:
        """Return the start of the input that follows this one."""
        return Position(chain=self.chain, chain_before=self.chain)

    def to_values(self) -> dict[str, Any]:
        """Return the position as JSON."""
        return {
            "n_bytes": self.n_bytes,
            "n_lines": self.n_lines,
            "head_bytes": self.head_bytes,
            "head": self.head.hex(),
            "tail_bytes": self.tail_bytes,
            "tail": self.tail.hex(),
            "chain": self.chain.hex(),
            "chain_before": self.chain_before.hex(),
            "path": self.path,
            "device": self.device,
            "inode": self.inode,
        }

    @classmethod
    def from_values(cls, values: dict[str, Any]) -> Self:
        """Return the position that `to_values` was called on, or raise."""
        values = dict(values)
        n_bytes = validate.integer("n_bytes", values.pop("n_bytes"), low=0, high=_LARGEST)
        n_lines = validate.integer("n_lines", values.pop("n_lines"), low=0, high=n_bytes)
        most = min(SPAN, n_bytes)
        head_bytes = validate.integer("head_bytes", values.pop("head_bytes"), low=0, high=most)
        tail_bytes = validate.integer("tail_bytes", values.pop("tail_bytes"), low=0, high=most)
        path = values.pop("path")
        if path is not None and not isinstance(path, str):
            raise TypeError(f"path={path!r}: expected a str, or None")
        numbers: dict[str, Any] = {
            name: validate.integer(name, values.pop(name), low=0, high=2**64 - 1)
            for name in ("device", "inode")
        }
        digests: dict[str, Any] = {name: bytes.fromhex(values.pop(name)) for name in _DIGESTS}
        if values or any(len(each) != DIGEST_BYTES for each in digests.values()):
            raise ValueError("position: expected digests, and nothing else")
        return cls(
            n_bytes, n_lines, head_bytes, tail_bytes=tail_bytes, path=path, **digests, **numbers
        )


class Progress:
    """A position that advances line by line.

    Parameters
    ----------
    start : Position, optional
        The position to continue from.
    """

    def __init__(self, start: Position | None = None) -> None:
        self._start = start or Position()
        self.n_bytes = self._start.n_bytes
        self.n_lines = self._start.n_lines
        self.path, self.device, self.inode = (
            self._start.path,
            self._start.device,
            self._start.inode,
        )
        self._chain = self._start.chain
        # None: reading continues in the middle of the input, and the digest of the head is kept.
        self._head: bytearray | None = bytearray() if not self.n_bytes else None
        self._tail = bytearray()

    def add(self, line: bytes, n_bytes: int, end: bytes | None = None) -> None:
        """Advance past a line.

        Parameters
        ----------
        line : bytes
            The line with its newline; only its beginning if it is too long.
        n_bytes : int
            Length of the line in the input.
        end : bytes, optional
            The last bytes of a line that is too long.
        """
        self._chain = digest(self._chain, line)
        self.n_bytes += n_bytes
        self.n_lines += 1
        if self._head is not None and len(self._head) < SPAN:
            self._head += line[: SPAN - len(self._head)]
        self._tail += line if end is None else end
        if len(self._tail) > _CHUNK:
            del self._tail[:-SPAN]

    def position(self) -> Position:
        """Return the current position."""
        start, tail = self._start, self._tail[-SPAN:]
        head = start.head if self._head is None else digest(self._head)
        head_bytes = start.head_bytes if self._head is None else len(self._head)
        has_moved = bool(tail)
        return Position(
            self.n_bytes,
            self.n_lines,
            head_bytes,
            head,
            len(tail) if has_moved else start.tail_bytes,
            digest(tail) if has_moved else start.tail,
            self._chain,
            start.chain_before,
            self.path,
            self.device,
            self.inode,
        )

    def next_input(self) -> Progress:
        """Return the start of the input that follows this one."""
        return Progress(self.position().next_input())
