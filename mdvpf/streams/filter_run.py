"""`FilterRun`: what `mdvpf filter` keeps in a checkpoint, the monitor and both ends of its stream.

The position in the input, the monitor and the reports that could not be written are one file, which
is replaced as a whole: there is no moment at which a line counts as read and its report is lost.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mdvpf import checkpoint
from mdvpf._support import validate
from mdvpf.streams.monitor import Monitor, MonitorHolder
from mdvpf.streams.position import DIGEST_BYTES, Position

_LARGEST = 2**62


@dataclass(frozen=True, slots=True)
class OutputEnd:
    """How far the file of ``--output`` was written.

    Attributes
    ----------
    path : str
        The file.
    n_bytes : int
        Its length.
    tail : bytes
        Digest of its last bytes, at most 4,096 of them.
    """

    path: str
    n_bytes: int
    tail: bytes


@dataclass(frozen=True, slots=True)
class Outbox:
    """Reports that were made and not written.

    Attributes
    ----------
    lines : bytes
        The reports, each with its end.
    n_sent : int
        How many bytes of the first of them were written nevertheless.
    device, inode, n_bytes : int
        The file that they went to, and its length then; all 0 if it was not a file.
    """

    lines: bytes = b""
    n_sent: int = 0
    device: int = 0
    inode: int = 0
    n_bytes: int = 0


@checkpoint.register("FilterRun")
@dataclass(slots=True)
class FilterRun(MonitorHolder):
    """A monitor, how far its input was read, and what of its output is still to be written.

    Attributes
    ----------
    monitor : Monitor
    position : Position or None
        How far the input was read; None in checkpoints that were made without one.
    inbox : bytes
        What was read from a pipe after the position.
    outbox : Outbox
        Reports that could not be written.
    output : OutputEnd or None
        How far ``--output`` was written.
    has_ended : bool
        Whether the run ended after this checkpoint. If not, it was killed, and what it took from a
        pipe afterwards is lost.

    Examples
    --------
    >>> import io
    >>> import mdvpf
    >>> from mdvpf.streams.filter_run import FilterRun
    >>> run = FilterRun(mdvpf.Monitor(mdvpf.Markov(n_symbols=2)), inbox=b"1")
    >>> file = io.BytesIO()
    >>> run.save(file)
    >>> _ = file.seek(0)
    >>> FilterRun.load(file).inbox
    b'1'
    """

    monitor: Monitor
    position: Position | None = None
    inbox: bytes = b""
    outbox: Outbox = field(default_factory=Outbox)
    output: OutputEnd | None = None
    has_ended: bool = True

    def copy(self) -> Self:
        """Return a copy whose monitor is independent of this one."""
        return replace(self, monitor=self.monitor.copy())

    def _to_checkpoint(self) -> checkpoint.State:
        values: dict[str, Any] = {
            "position": None if self.position is None else self.position.to_values(),
            "sent": [
                self.outbox.n_sent,
                self.outbox.device,
                self.outbox.inode,
                self.outbox.n_bytes,
            ],
            "output": None,
            "has_ended": self.has_ended,
        }
        if self.output is not None:
            values["output"] = [self.output.path, self.output.n_bytes, self.output.tail.hex()]
        arrays = {"inbox": _array(self.inbox), "outbox": _array(self.outbox.lines)}
        return checkpoint.State(values, arrays, {"monitor": self.monitor})

    @classmethod
    def _from_checkpoint(cls, state: checkpoint.State, given: dict[str, Any]) -> Self:
        checkpoint.require(
            set(state.values) == {"position", "sent", "output", "has_ended"},
            "a run that makes no sense",
        )
        monitor, position = state.parts["monitor"], state.values["position"]
        if not isinstance(monitor, Monitor):
            raise checkpoint.CheckpointError("file: a run without a monitor")
        lines = checkpoint.taken(state, "outbox", "|u1", (None,)).tobytes()
        sent, *where = state.values["sent"]
        device, inode, n_bytes = (
            validate.integer("sent", each, low=0, high=2**64 - 1) for each in where
        )
        longest = max(0, lines.find(b"\n"))
        outbox = Outbox(
            lines, validate.integer("sent", sent, low=0, high=longest), device, inode, n_bytes
        )
        checkpoint.require(not lines or lines.endswith(b"\n"), "an outbox with half a report")
        return cls(
            monitor,
            None if position is None else Position.from_values(position),
            checkpoint.taken(state, "inbox", "|u1", (None,)).tobytes(),
            outbox,
            _read_output(state.values["output"]),
            validate.flag("has_ended", state.values["has_ended"]),
        )

    def _left_out(self) -> dict[str, Any]:
        return self.monitor._left_out()


def _array(content: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(content, dtype=np.uint8)


def _read_output(values: Any) -> OutputEnd | None:
    if values is None:
        return None
    path, n_bytes, tail = values
    if not isinstance(path, str):
        raise TypeError(f"output={path!r}: expected a path")
    found = bytes.fromhex(tail)
    checkpoint.require(len(found) == DIGEST_BYTES, "an output that makes no sense")
    return OutputEnd(path, validate.integer("output", n_bytes, low=0, high=_LARGEST), found)
