"""`FilterRun`: the checkpoint of `mdvpf filter`: monitor, input position and unwritten reports.

All three are in one file, which is replaced atomically. A line therefore never counts as read while
its report is lost.
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
    """End of the file of ``--output``.

    Attributes
    ----------
    path : str
        The file.
    n_bytes : int
        Length of the file.
    tail : bytes
        Digest of its last bytes, at most 4,096.
    """

    path: str
    n_bytes: int
    tail: bytes


@dataclass(frozen=True, slots=True)
class Outbox:
    """Reports that are not written yet.

    Attributes
    ----------
    lines : bytes
        The reports, each with a newline.
    n_sent : int
        Number of bytes of the first report that were already written.
    device, inode, n_bytes : int
        The file with these bytes, and its length then; all 0 if the output was not a file.
    """

    lines: bytes = b""
    n_sent: int = 0
    device: int = 0
    inode: int = 0
    n_bytes: int = 0


@checkpoint.register("FilterRun")
@dataclass(slots=True)
class FilterRun(MonitorHolder):
    """A monitor, the position of its input, and the reports that are still to be written.

    Attributes
    ----------
    monitor : Monitor
    position : Position or None
        Position in the input; None in checkpoints that were made without one.
    inbox : bytes
        Bytes that were read from a pipe after the position.
    outbox : Outbox
        Reports that could not be written.
    output : OutputEnd or None
        End of the file of ``--output``.
    has_ended : bool
        Whether the run ended with this checkpoint. Otherwise it was killed later, and the bytes
        that it read from a pipe after the checkpoint are lost.

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
        lines = checkpoint.read_array(state, "outbox", "|u1", (None,)).tobytes()
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
            checkpoint.read_array(state, "inbox", "|u1", (None,)).tobytes(),
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
