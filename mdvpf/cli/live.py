"""The loop of `mdvpf filter`: lines in, reports out, checkpoints in between.

A line counts as read when the monitor has absorbed it and the sink has its report. A checkpoint
holds the monitor, the position after the last such line, and the reports that the sink has not
written. Resuming from it therefore skips no line and loses no report.

Lines that are already waiting are absorbed together where the reports are the same and come sooner.
No line waits for a later one to arrive, and no checkpoint is skipped.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
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
from mdvpf.streams.together import read_together

MOST_TOGETHER = 256  # lines
LONGEST_TOGETHER = 0.05  # seconds of processor time, as reports and signals wait meanwhile
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
        Turns a report into a line.
    generations : Generations or None
        Writes the checkpoints.
    every : int
        Number of lines between two checkpoints.
    skip_malformed : bool
        Whether to skip malformed lines.
    alarms_only : bool
        Whether to report only alarms and change points.
    take_unfinished : bool
        Whether to accept a last line without a newline.
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
    _saved_at: int = 0  # line of the last periodic checkpoint
    _n_together: int = 1  # how many waiting lines to absorb at once
    _is_whole: bool = True  # False while lines are absorbed together: then no checkpoint

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
                self._save_last(self.generations)
        self.lag.summarise(self.monitor.n_lines)

    def snapshot(self, *, has_ended: bool = False) -> FilterRun:
        """Return the content of a checkpoint; the monitor is not copied."""
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
        repeated = _RepeatedEntries(self.monitor, self.source)
        while not self._is_over():
            if self._absorb_together():
                continue
            line = self.source.buffer.next()
            if line is not None:
                if not repeated.includes(line):
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
        """Tell whether a signal ends the run before all buffered lines are absorbed."""
        if self.stop.signal is None:
            return False
        if not self.source.is_pipe:
            return True  # the next run reads the buffered lines again
        if self.stop.n_signals > 1:
            return True
        return self.generations is not None and self.stop.seconds > DRAIN_SECONDS

    def _has_last_line(self) -> bool:
        """Accept a last line without a newline, or report that it is held back."""
        n_bytes = len(self.source.buffer.unfinished)
        if n_bytes and self.generations is not None and not self.take_unfinished:
            shared.complain(
                f"{self.source.name}: line {self.monitor.n_lines + 1} has no end ({n_bytes} bytes) "
                "and is held back until its end arrives; --take-unfinished accepts it as it is"
            )
            return False
        self.source.buffer.finish()
        return bool(n_bytes)

    def _warn_of_repetition(self) -> None:
        if isinstance(self.source, PipeSource) and self.source.comes_again:
            self.source.comes_again = False
            shared.complain(
                f"{self.source.name}: it begins as it did when the checkpoint was new; repeated "
                "lines are counted again"
            )

    def _absorb_together(self) -> bool:
        """Absorb waiting lines together; tell whether that was possible."""
        lines = self.source.buffer.first(self._most_together())
        if len(lines) < 2:
            return False
        self._is_whole = False
        started = time.process_time()
        reports = read_together(self.monitor, [line.content for line in lines])
        self._adapt(len(reports), time.process_time() - started)
        for line, report in zip(lines, reports, strict=False):  # the first lines
            self.source.buffer.next()
            self._note(line, report)
        self._is_whole = True
        if reports:
            self._end_step(reports)
        return bool(reports)

    def _most_together(self) -> int:
        """Return how many lines may be absorbed at once."""
        most = self._n_together
        if self.source.n_before_cut is not None:
            most = min(most, self.source.n_before_cut)
        if self.generations is not None:
            most = min(most, self.every - self.monitor.n_lines % self.every)
        return most

    def _adapt(self, n_lines: int, seconds: float) -> None:
        """Choose the next number of lines by the time that the last ones took."""
        if seconds > LONGEST_TOGETHER:
            self._n_together = max(1, self._n_together // 2)
        elif n_lines >= self._n_together and 2 * seconds <= LONGEST_TOGETHER:
            self._n_together = min(2 * self._n_together, MOST_TOGETHER)

    def _absorb(self, line: RawLine) -> None:
        started = time.process_time()
        try:
            report = self._read(line)
        except ValueError as error:
            if not (self.skip_malformed or self.source.n_before_cut == 0):
                self.source.buffer.give_back(line)
                raise
            shared.complain(f"{error}; skipped")
            self.monitor.skip()
            report = None
        self._adapt(1, time.process_time() - started)
        self._note(line, report)
        self._end_step([report])

    def _note(self, line: RawLine, report: Report | None) -> None:
        """Advance past a line that the monitor has absorbed, and put its report into the sink."""
        self.source.progress.add(*line)
        if self.source.n_before_cut is not None:
            n = self.source.n_before_cut
            self.source.n_before_cut = n - 1 if n else None
        if report is not None and (
            not self.alarms_only or report.alarm or report.change is not None
        ):
            self.sink.put(self.write(report))

    def _end_step(self, reports: Sequence[Report | None]) -> None:
        """Write reports, messages and checkpoints that are due after some lines."""
        self.sink.flush_if_due()
        for i, report in enumerate(reports, self.monitor.n_lines - len(reports) + 1):
            self.lag.update(i, self.source.waiting, None if report is None else report.time)
        if self.generations is not None and self.monitor.n_lines % self.every == 0:
            self._save(self.generations)

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

    def _save_last(self, generations: Generations) -> None:
        """Write the last checkpoint; if that fails, report what is lost."""
        if not self._is_whole:
            with suppress(OSError):
                generations.wait()
            shared.complain(f"{generations.path}: an error interrupted the monitor between lines")
            self._tell_loss(generations)
            return
        try:
            self.sink.sync()
            generations.save(self.snapshot(has_ended=True))
        except OSError:
            self._tell_loss(generations)
            raise

    def _tell_loss(self, generations: Generations) -> None:
        """Say that the lines since the previous checkpoint cannot be read again."""
        if self.source.is_pipe:
            shared.complain(
                f"{generations.path}: the last checkpoint could not be written; lines read "
                "from the pipe since the previous one are lost"
            )

    def _save(self, generations: Generations) -> None:
        """Start a periodic checkpoint. If the last one failed, as on a full disk, only complain."""
        self.sink.flush()
        try:
            generations.wait()
        except OSError as error:
            shared.complain(
                f"line {self._saved_at}: no checkpoint was written, the previous one remains: "
                f"{error}"
            )
        self._saved_at = self.monitor.n_lines
        generations.save_in_background(self.snapshot().copy(), self.sink.sync)


def run_to_the_end(follower: Follower) -> int:
    """Follow a stream; return the exit code."""
    try:
        follower.follow()
    except OutputError as error:
        if not error.is_gone:
            raise
        # The reader closed the pipe, as `head` does. The checkpoint has the remaining reports.
    return shared.INTERRUPTED if follower.stop.is_interrupt else shared.DONE


class _RepeatedEntries:
    """Journal entries that a pipe repeats after a restart, up to the cursor of the checkpoint."""

    def __init__(self, monitor: Monitor, source: Source) -> None:
        form = monitor.format
        self._last: tuple[str, int] | None = None
        if source.is_pipe and isinstance(form, Journal) and form.cursor is not None:
            self._last = _journal_position(form.cursor)

    def includes(self, line: RawLine) -> bool:
        """Tell whether a line was absorbed before the restart."""
        if self._last is None:
            return False
        try:
            found = _journal_position(json.loads(line.content)[CURSOR])
        except (ValueError, LookupError, TypeError):
            return False
        if found is not None and found[0] == self._last[0] and found[1] <= self._last[1]:
            return True
        self._last = None  # the first new entry: all later ones are new
        return False


def _journal_position(cursor: str) -> tuple[str, int] | None:
    """Return the sequence id and the sequence number of a journal cursor."""
    found = re.fullmatch(r"s=([0-9a-f]{1,64});i=([0-9a-f]{1,16});.*", cursor)
    return None if found is None else (found[1], int(found[2], 16))
