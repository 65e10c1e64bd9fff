"""Absorb several waiting lines or events at once, with the same reports as one by one.

`absorb_together` takes events that have all arrived. `read_together` takes lines, and stops before
the first one that must be read alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from mdvpf.detect.expectation import UNKNOWN, summarize
from mdvpf.mixture.base import MixtureBase, reports_states
from mdvpf.model.clock import read_time
from mdvpf.predictor import MISSING, Label, Predictor, Stream
from mdvpf.predictor.distributions import run_distributions
from mdvpf.predictor.keys import NONE_ENDS, read_key
from mdvpf.streams.events import Event
from mdvpf.streams.likeliest import Expected
from mdvpf.streams.monitor import Monitor
from mdvpf.streams.report import Report

MOST_PROBABILITIES = 2**20  # held at once


def absorb_together(
    monitor: Monitor,
    events: Sequence[Event],
    on_alarm: Callable[[Report], None] | None = None,
) -> list[Report] | None:
    """Absorb events in one run of the predictor, if the result is the same.

    It is faster than `Monitor.absorb` on each event. It needs a detector that learns from
    everything, a predictor with a closed alphabet, no time to live of keys, and events that end no
    sequence. A mixture must report the states of its filters, as `auto` does, and no key may end
    because there are too many.

    Parameters
    ----------
    monitor : Monitor
        The monitor that absorbs them.
    events : sequence of Event
        The events, in order.
    on_alarm : callable, optional
        Called with each report of an alarm, before the next event is judged.

    Returns
    -------
    list of Report or None
        What `Monitor.absorb` would return for each. None if the result could differ; then
        nothing has changed.

    Examples
    --------
    >>> import mdvpf
    >>> from mdvpf.streams.events import Event
    >>> from mdvpf.streams.together import absorb_together
    >>> monitor = mdvpf.Monitor(mdvpf.Markov(n_symbols=2))
    >>> [report.line for report in absorb_together(monitor, [Event(1), Event(0)])]
    [1, 2]
    """
    reader = monitor.detector.reader
    if not _may_run(monitor, reader):
        return None
    stream = _stream(monitor, reader, events)
    if stream is None:
        return None
    if stream.keys is not None:
        monitor._limit_keys(reader)
        if isinstance(reader, MixtureBase) and _ends_keys(reader, stream.keys):
            return None  # one by one, a key ends after the prediction; members may notice
    reports: list[Report] = []
    n_rows = max(1, MOST_PROBABILITIES // reader.n_symbols)
    for first in range(0, len(events), n_rows):
        part = slice(first, first + n_rows)
        keys = None if stream.keys is None else stream.keys[part]
        for report in _absorb(monitor, events[part], replace(stream[part], keys=keys)):
            if report.alarm and on_alarm is not None:
                on_alarm(report)
            reports.append(report)
    return reports


def read_together(monitor: Monitor, lines: Sequence[bytes]) -> list[Report]:
    r"""Absorb the first of several lines, if possible in one run of the predictor.

    It stops before the first line that is malformed, that ends a sequence, or that has no event.
    `Monitor.read` is for that one.

    Parameters
    ----------
    monitor : Monitor
        The monitor that absorbs them.
    lines : sequence of bytes
        The lines, in order.

    Returns
    -------
    list of Report
        What `Monitor.read` would return for each line that was absorbed. Empty if the detector
        does not allow lines to be absorbed together, or if `Monitor.read` must read the first line;
        then the monitor has not changed, except that it may know the header of a table.

    Examples
    --------
    >>> import mdvpf
    >>> from mdvpf.streams.together import read_together
    >>> monitor = mdvpf.Monitor(mdvpf.Markov(n_symbols=2))
    >>> [report.symbol for report in read_together(monitor, [b"1\n", b"0\n", b"two\n", b"1\n"])]
    [1, 0]
    """
    reader = monitor.detector.reader
    if not (monitor.format.reads_ahead and _may_run(monitor, reader)):
        return []
    events: list[Event] = []
    try:
        for line in lines:
            event = monitor.format.parse(line)
            if event is None:
                break
            _entry(monitor, reader, event)
            events.append(event)
    except (TypeError, ValueError):
        pass  # the line after these events is for Monitor.read, which says what is wrong
    reports = absorb_together(monitor, events) if len(events) > 1 else None
    if reports is None:  # a single event, or keys would end because there are too many
        return [report for report in map(monitor.absorb, events) if report is not None]
    return reports


def _may_run(monitor: Monitor, reader: Predictor) -> bool:
    """Return whether an event can be predicted before the one before is judged."""
    vocabulary = reader.vocabulary
    return not (
        monitor.detector.learn != "all"
        or reader._may_reject
        or reader._family is not None
        or monitor._ages is not None
        or (hasattr(reader, "mean_states") and not reports_states(reader))
        or reader.is_open
        or (vocabulary is not None and vocabulary.is_open)
    )


def _ends_keys(reader: Predictor, keys: Sequence[Label | None]) -> bool:
    """Tell whether keys would end because there are too many."""
    _, ended = reader._table.copy().assign(keys)
    return bool((ended != NONE_ENDS).any())


def _stream(monitor: Monitor, reader: Predictor, events: Sequence[Event]) -> Stream | None:
    """Return events as a stream; None if one is malformed or ends a sequence."""
    try:
        entries = [_entry(monitor, reader, event) for event in events]
    except (TypeError, ValueError):
        return None
    symbols = [symbol for symbol, _, _ in entries]
    keys = [key for _, key, _ in entries]
    times = [time for _, _, time in entries]
    return Stream(
        np.array(symbols, dtype=np.int32),
        np.full(len(symbols), NONE_ENDS, dtype=np.int32),
        keys=None if all(key is None for key in keys) else keys,
        times=None if all(map(math.isnan, times)) else np.array(times),
    )


def _entry(monitor: Monitor, reader: Predictor, event: Event) -> tuple[int, Label | None, float]:
    """Return the symbol, key and time of an event; raise if it is malformed or ends a sequence."""
    if event.no_symbol or event.ends:
        raise ValueError("the event ends a sequence")
    label = event.symbol
    symbol: int = MISSING if label is None else monitor._texts.symbol(label, reader)
    key = read_key("key", event.key)
    if key is not None:
        reader._check_keys()
    return symbol, key, math.nan if event.time is None else read_time("time", event.time)


def _absorb(monitor: Monitor, events: Sequence[Event], stream: Stream) -> Iterator[Report]:
    """Absorb the events of a stream, and report each."""
    detector, reader = monitor.detector, monitor.detector.reader
    is_told = reports_states(reader)
    expected: list[Expected] = [()] * len(stream)
    summaries = [UNKNOWN] * len(stream)
    if monitor._n_named(reader) or detector.wants_entropy:
        found, distributions = run_distributions(reader, stream)
        expected = monitor._expected(reader, distributions)
        if detector.trace is not None:
            summaries = summarize(distributions)
    else:
        found = reader._run_keyed(stream)
    rows = zip(events, stream.symbols.tolist(), found[:, [0, 2]].tolist(), strict=True)
    for i, (event, code, (log_predictive, mean_states)) in enumerate(rows):
        key = None if stream.keys is None else stream.keys[i]
        time = None if stream.times is None or event.time is None else float(stream.times[i])
        if time is not None:
            detector._note_time(time)
        detection = detector._observe(code, key, -log_predictive, summaries[i])
        yield monitor._report(
            event,
            key,
            time,
            None if code == MISSING else monitor._texts.label(code, reader),
            log_predictive,
            mean_states if is_told else None,
            expected[i],
            detection,
        )
        monitor.n_lines += 1
