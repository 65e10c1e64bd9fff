"""What Prometheus scrapes: counters of the streams, read when it asks, and latencies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mdvpf._support.extras import needed
from mdvpf.streams.service.engine import Engine
from mdvpf.streams.service.stream import SURPRISE_BUCKETS, Stream
from mdvpf.streams.service.views import memory_of

with needed("mdvpf serve", "prometheus-client", "service"):
    from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
    from prometheus_client.core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
    )

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_LATENCIES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Metrics:
    """The metrics of an engine.

    Attributes
    ----------
    requests : Counter
        Requests by status code.
    synced, absorbed : Histogram
        Seconds from the arrival of a batch until it was on the disk, and until it was absorbed.
    """

    def __init__(self, engine: Engine) -> None:
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "mdvpf_requests", "Requests by status code.", ["code"], registry=self._registry
        )
        self.synced = Histogram(
            "mdvpf_batch_synced_seconds",
            "Time from the arrival of a batch until it is on the disk.",
            buckets=_LATENCIES,
            registry=self._registry,
        )
        self.absorbed = Histogram(
            "mdvpf_batch_absorbed_seconds",
            "Time from the arrival of a batch until it is absorbed.",
            buckets=_LATENCIES,
            registry=self._registry,
        )
        self._registry.register(_Streams(engine))

    def text(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        found: bytes = generate_latest(self._registry)
        return found


class _Streams:
    """Counters that streams keep themselves, so that an event costs nothing extra."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def describe(self) -> list[Any]:
        """Return nothing: the metrics are listed when they are collected."""
        return []

    def collect(self) -> Iterator[Any]:
        """Yield the metrics."""
        streams = list(self._engine.streams.values())
        for name, text, attribute in (
            ("mdvpf_symbols", "Symbols absorbed.", "n_symbols"),
            ("mdvpf_alarms", "Alarms raised.", "n_alarms"),
            ("mdvpf_incidents", "Incidents opened.", "n_incidents"),
            ("mdvpf_absorb_seconds", "Processor time spent on events.", "absorb_seconds"),
        ):
            counter = CounterMetricFamily(name, text, labels=["stream"])
            for stream in streams:
                counter.add_metric([stream.name], getattr(stream, attribute))
            yield counter
        yield from self._of_states(streams)
        surprise = HistogramMetricFamily(
            "mdvpf_surprise_nats", "Surprise of each symbol, in nats.", labels=["stream"]
        )
        for stream in streams:
            buckets, total = [], 0
            for bound, count in zip(
                [*map(str, SURPRISE_BUCKETS), "+Inf"], stream.surprise_counts, strict=True
            ):
                total += count
                buckets.append((bound, total))
            surprise.add_metric([stream.name], buckets, sum_value=stream.surprise_sum)
        yield surprise
        log = GaugeMetricFamily("mdvpf_log_bytes", "Size of the event log.")
        log.add_metric([], self._engine.log.n_bytes)
        yield log

    def _of_states(self, streams: list[Stream]) -> Iterator[Any]:
        labels = ["stream"]
        rejected = CounterMetricFamily(
            "mdvpf_rejected", "Logged events that the stream rejected.", labels=labels
        )
        repeated = CounterMetricFamily(
            "mdvpf_repeated", "Events dropped because their id was known.", labels=labels
        )
        lag = GaugeMetricFamily(
            "mdvpf_lag_events", "Events that wait to be absorbed.", labels=labels
        )
        size = GaugeMetricFamily(
            "mdvpf_memory_bytes", "Memory allocated by the predictor.", labels=labels
        )
        states = GaugeMetricFamily(
            "mdvpf_mean_states", "States, weighted mean over the particles.", labels=labels
        )
        for stream in streams:
            with stream.look() as state:
                n_rejected = state.n_rejected
                memory = memory_of(state.monitor.predictor)
            rejected.add_metric([stream.name], n_rejected)
            repeated.add_metric([stream.name], stream.ingest.n_repeated)
            lag.add_metric([stream.name], stream.ingest.lag)
            if memory is not None:
                size.add_metric([stream.name], memory.allocated)
            last = stream.recent[-1].mean_states if stream.recent else None
            if last is not None:
                states.add_metric([stream.name], last)
        yield from (rejected, repeated, lag, size, states)
