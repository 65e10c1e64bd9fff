"""The loop of `mdvpf filter`: lines in, reports out, and a checkpoint that holds both ends.

A line counts as read when the monitor has absorbed it and its report is with the sink. A checkpoint
holds the monitor, the position after the last such line, and the reports that the sink could not
write; so whatever ends the process, no line is left out and no report is lost.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

from mdvpf.checkpoint import Generations
from mdvpf.cli import shared
from mdvpf.cli.lag import Lag
from mdvpf.cli.sink import OutputError, Sink
from mdvpf.cli.source import Filled, PipeSource, Source
from mdvpf.cli.stop import Stop
from mdvpf.streams.filter_run import FilterRun
from mdvpf.streams.formats.journal import CURSOR, Journal
from mdvpf.streams.line_buffer import LONGEST_LINE, RawLine
from mdvpf.streams.monitor import Monitor
from mdvpf.streams.report import Report

DRAIN_SECONDS = 5.0  # for lines that were read from a pipe before a signal came


@dataclass(slots=True)
class Follower:
    """One run of `mdvpf filter`.

    Attributes
    ----------
    monitor : Monitor
    source : Source
    sink : Sink
    stop : Stop
    write : callable
        Turns reports into lines.
    generations : Generations or None
        Where checkpoints go.
    every : int
        Lines between two checkpoints.
    skip_malformed : bool
        Whether malformed lines are passed over.
    alarms_only : bool
        Whether only alarms and change points are reported.
    take_unfinished : bool
        Whether the last line counts although it has no end.
    lag : Lag
    """

    monitor: Monitor
    source: Source
    sink: Sink
    stop: Stop
    write: Callable[[Report], str]
    generations: Generations | None
    every: int
    skip_malformed: bool
    alarms_only: bool
    take_unfinished: bool
    lag: Lag
    _kept_at: int = 0  # line of the last checkpoint on the way

    def follow(self) -> None:
        """Absorb lines until the input ends or a signal comes; write a checkpoint at the end."""
        try:
            try:
                self._follow()
            finally:
                if not self.sink.has_failed:
                    self.sink.flush()
        finally:
            if self.generations is not None:
                self._keep_last(self.generations)
        self.lag.sum_up(self.monitor.n_lines)

    def snapshot(self, *, has_ended: bool = False) -> FilterRun:
        """Return what a checkpoint holds; the monitor is not copied."""
        return FilterRun(
            self.monitor,
            self.source.progress.position(),
            self.source.inbox(),
            self.sink.outbox(),
            self.sink.end(),
            has_ended,
        )

    def _follow(self) -> None:
        self.sink.flush()
        passed = _Passed(self.monitor, self.source)
        while not self._is_over():
            line = self.source.buffer.next()
            if line is not None:
                if not passed.skips(line):
                    self._absorb(line)
                continue
            self.sink.flush()
            if self.stop.signal is not None:
                return
            filled = self.source.fill(self.stop)
            if filled is Filled.END and not self._has_last_line():
                return
            self._warn_of_repetition()

    def _is_over(self) -> bool:
        """Tell whether a signal leaves no time for the lines that were read."""
        if self.stop.signal is None:
            return False
        if not self.source.is_pipe:
            return True  # they will be read again
        if self.stop.n_signals > 1:
            return True
        return self.generations is not None and self.stop.seconds > DRAIN_SECONDS

    def _has_last_line(self) -> bool:
        """Take the last line although it has no end, or say that it is held back."""
        n_bytes = len(self.source.buffer.unfinished)
        if n_bytes and self.generations is not None and not self.take_unfinished:
            shared.complain(
                f"{self.source.name}: line {self.monitor.n_lines + 1} has no end ({n_bytes} bytes) "
                "and is held back until that comes; --take-unfinished takes it as it is"
            )
            return False
        self.source.buffer.finish()
        return bool(n_bytes)

    def _warn_of_repetition(self) -> None:
        if isinstance(self.source, PipeSource) and self.source.comes_again:
            self.source.comes_again = False
            shared.complain(
                f"{self.source.name}: it begins as it did when the checkpoint was new; lines that "
                "come again count again"
            )

    def _absorb(self, line: RawLine) -> None:
        try:
            report = self._read(line)
        except ValueError as error:
            if not (self.skip_malformed or self.source.may_be_cut):
                self.source.buffer.give_back(line)
                raise
            shared.complain(f"{error}; skipped")
            self.monitor.skip()
            report = None
        self.source.may_be_cut = False
        self.source.progress.add(*line)
        if report is not None and (
            not self.alarms_only or report.alarm or report.change is not None
        ):
            self.sink.put(self.write(report))
        self.sink.flush_if_due()
        self.lag.look(
            self.monitor.n_lines, self.source.waiting, None if report is None else report.time
        )
        if self.generations is not None and self.monitor.n_lines % self.every == 0:
            self._keep(self.generations)

    def _read(self, line: RawLine) -> Report | None:
        try:
            if line.is_too_long:
                raise ValueError(
                    f"line {self.monitor.n_lines + 1}: expected at most {LONGEST_LINE} bytes"
                )
            return self.monitor.read(line.content)
        except ValueError as error:
            if self.source.is_pipe:
                raise
            raise ValueError(f"{self.source.name}: {error}") from error

    def _keep_last(self, generations: Generations) -> None:
        """Write the last checkpoint; if that fails, say what is lost."""
        try:
            self.sink.sync()
            generations.save(self.snapshot(has_ended=True))
        except OSError:
            if self.source.is_pipe:
                shared.complain(
                    f"{generations.path}: the last checkpoint could not be written; what was read "
                    "from the pipe since the one before it is lost"
                )
            raise

    def _keep(self, generations: Generations) -> None:
        """Write a checkpoint on the way. A full disk is no reason to stop: there is a next time."""
        self.sink.flush()
        try:
            generations.wait()
        except OSError as error:
            shared.complain(
                f"line {self._kept_at}: no checkpoint was written, the last one stays: {error}"
            )
        self._kept_at = self.monitor.n_lines
        generations.save_in_background(self.snapshot().copy(), self.sink.sync)


def run_to_the_end(follower: Follower) -> int:
    """Follow a stream; return the exit code."""
    try:
        follower.follow()
    except OutputError as error:
        if not error.is_gone:
            raise
        # Whoever read the output has seen enough. What they did not see is in the checkpoint.
    return shared.INTERRUPTED if follower.stop.is_interrupt else shared.DONE


class _Passed:
    """Entries of a journal that a pipe brings again after a restart, up to where it stood."""

    def __init__(self, monitor: Monitor, source: Source) -> None:
        form = monitor.format
        self._last: tuple[str, int] | None = None
        if source.is_pipe and isinstance(form, Journal) and form.cursor is not None:
            self._last = _place(form.cursor)

    def skips(self, line: RawLine) -> bool:
        """Tell whether a line was absorbed before the restart."""
        if self._last is None:
            return False
        try:
            found = _place(json.loads(line.content)[CURSOR])
        except (ValueError, LookupError, TypeError):
            return False
        if found is not None and found[0] == self._last[0] and found[1] <= self._last[1]:
            return True
        self._last = None  # here begins what is new
        return False


def _place(cursor: str) -> tuple[str, int] | None:
    """Return the sequence of a journal that a cursor is of, and its number in it."""
    found = re.fullmatch(r"s=([0-9a-f]{1,64});i=([0-9a-f]{1,16});.*", cursor)
    return None if found is None else (found[1], int(found[2], 16))
