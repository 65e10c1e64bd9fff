"""Streams: readers, the monitor of a live stream, batch runs, and evaluation on held-out data."""

from mdvpf.streams.batch import BatchError, run_batch
from mdvpf.streams.evaluation import Evaluation, evaluate
from mdvpf.streams.event_tables import EventTable, read_table
from mdvpf.streams.events import Event
from mdvpf.streams.monitor import Monitor, Report
from mdvpf.streams.reading import read_events

__all__ = [
    "BatchError",
    "Evaluation",
    "Event",
    "EventTable",
    "Monitor",
    "Report",
    "evaluate",
    "read_events",
    "read_table",
    "run_batch",
]
