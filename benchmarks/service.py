"""A bounded load test of the service on loopback: 50 streams of 100 keys, MD-VPA at K = 100.

``python -m benchmarks.service [--streams N] [--events N] [--batch N] [--senders N] [--shares]``.
The service is a process of its own (`mdvpf serve`). Each sender sends a batch of events with ids as
soon as its last one is acknowledged. The test prints the throughput, the latency of a batch until
it is acknowledged (on the disk), the processor time of the service per event against that of `run`
on the same symbols, the number of events absorbed, and the memory of the process after each fifth
of the events. `run` is timed between the fifths, because the speed of a shared machine changes.
``--shares`` raises alarms for a fixed share of blocks (``false_alarms``). Without it the service
looks for incidents, which is its default and needs the distribution before each event.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import mdvpf
from mdvpf.datasets import random_hmm, sample_hmms

N_SYMBOLS = 20
N_STATES = 8
N_KEYS = 100
PARTICLES = 100


def symbols_of(stream: int, n: int) -> tuple[NDArray[np.int64], list[str]]:
    """Return the symbols of a stream and their keys: each key is a sequence of the same HMM."""
    rng = np.random.default_rng(stream)
    hmm = random_hmm(N_STATES, N_SYMBOLS, rng=rng)
    keys = rng.integers(N_KEYS, size=n)
    symbols = np.empty(n, dtype=np.int64)
    for key in range(N_KEYS):
        places = np.flatnonzero(keys == key)
        if len(places):
            symbols[places] = sample_hmms([hmm], [len(places)], rng=rng).symbols
    return symbols, [f"key {key}" for key in keys.tolist()]


def batches_of(stream: int, n: int, size: int) -> list[bytes]:
    """Return the bodies of the requests for a stream."""
    symbols, keys = symbols_of(stream, n)
    lines = [
        json.dumps({"symbol": symbol, "key": key, "id": f"{stream}:{i}"}).encode()
        for i, (symbol, key) in enumerate(zip(symbols.tolist(), keys, strict=True))
    ]
    return [b"\n".join(lines[first : first + size]) for first in range(0, n, size)]


def seconds_of_run(streams: Sequence[int], n: int) -> float:
    """Return the processor time per event that `run` takes on some of the streams."""
    total = 0.0
    for stream in streams:
        symbols, keys = symbols_of(stream, n)
        model = mdvpf.InfiniteHMM(N_SYMBOLS)
        pf = mdvpf.ParticleFilter(model, mdvpf.MDVPA(), PARTICLES, rng=0)
        start = time.process_time()
        pf.run(symbols, keys=keys)
        total += time.process_time() - start
    return total / (len(streams) * n)


class Service:
    """The service as a process."""

    def __init__(self, folder: Path, n_streams: int, shares: bool) -> None:
        text = 'folder = "state"\nport = 0\nrequests_per_second = 1e6\n'
        for stream in range(n_streams):
            text += (
                f'[streams.s{stream}]\nsymbols = {N_SYMBOLS}\nmethod = "MD-VPA"\n'
                f'particles = {PARTICLES}\nkey = "key"\nid = "id"\nremember_ids = 500\n'
            )
            text += (
                "false_alarms = 0.01\nblock = 8\nn_expected = 0\n" if shares else "trace = 500\n"
            )
        (folder / "service.toml").write_text(text)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mdvpf", "serve", str(folder / "service.toml")],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline().rsplit(":", 1)[1].strip().strip("/"))

    @property
    def seconds(self) -> float:
        """Processor time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def resident(self) -> float:
        """Memory, in MB."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def ask(self, path: str) -> object:
        """Return the answer to a request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request("GET", path)
        found = json.loads(connection.getresponse().read())
        connection.close()
        return found

    def waiting(self) -> int:
        """Return the number of events that wait to be absorbed."""
        found = self.ask("/healthz")
        assert isinstance(found, dict)
        return int(found["lag"])

    def absorbed(self) -> int:
        """Return the number of events absorbed."""
        found = self.ask("/v1/streams")
        assert isinstance(found, dict)
        return sum(each["events"] for each in found["streams"])

    def stop(self) -> int:
        """End the process gracefully; return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(120)


def send_all(port: int, todo: queue.SimpleQueue[tuple[int, bytes] | None]) -> list[float]:
    """Send batches until there are no more; return the latency of each, in seconds."""
    latencies = []
    connection = http.client.HTTPConnection("127.0.0.1", port)
    while (batch := todo.get()) is not None:
        stream, body = batch
        while True:
            start = time.perf_counter()
            headers = {"Content-Type": "application/x-ndjson"}
            connection.request("POST", f"/v1/streams/s{stream}/events", body, headers)
            answer = connection.getresponse()
            content = answer.read()
            if answer.status != 503:
                break
            time.sleep(0.2)  # too far behind
        if answer.status != 200:
            raise RuntimeError(f"{answer.status}: {content!r}")
        latencies.append(time.perf_counter() - start)
    connection.close()
    return latencies


def send_together(
    port: int, todo: queue.SimpleQueue[tuple[int, bytes] | None], n_senders: int
) -> list[float]:
    """Let several senders send batches until there are no more."""
    latencies: list[float] = []
    for _ in range(n_senders):
        todo.put(None)
    threads = [
        threading.Thread(target=lambda: latencies.extend(send_all(port, todo)))
        for _ in range(n_senders)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return latencies


def measure(n_streams: int, n: int, size: int, n_senders: int, shares: bool) -> None:
    """Run the test and print the figures."""
    bodies = [batches_of(stream, n, size) for stream in range(n_streams)]
    with tempfile.TemporaryDirectory() as folder:
        service = Service(Path(folder), n_streams, shares)
        try:
            base = service.seconds
            latencies: list[float] = []
            memory, alone = [], []
            seconds, parts = 0.0, 5
            n_batches = len(bodies[0])
            for part in range(parts):
                start = time.perf_counter()
                todo: queue.SimpleQueue[tuple[int, bytes] | None] = queue.SimpleQueue()
                for i in range(part * n_batches // parts, (part + 1) * n_batches // parts):
                    for stream in range(n_streams):
                        todo.put((stream, bodies[stream][i]))
                latencies += send_together(service.port, todo, n_senders)
                while service.waiting():
                    time.sleep(0.1)
                seconds += time.perf_counter() - start
                memory.append(service.resident)
                alone.append(seconds_of_run(range(part, n_streams, parts)[:2], n))
            used = (service.seconds - base) / (n_streams * n)
            absorbed = service.absorbed()
        finally:
            code = service.stop()
    run = float(np.mean(alone))
    times = 1e3 * np.array(latencies)
    print(f"{n_streams} streams, {n} events each in batches of {size}, {n_senders} senders")
    print(f"throughput               {n_streams * n / seconds:,.0f} events a second")
    print(
        f"batch acknowledged       median {np.median(times):.1f} ms, p99 "
        f"{np.percentile(times, 99):.1f} ms"
    )
    print(
        f"processor time, event    {1e6 * used:.0f} us, run {1e6 * run:.0f} us: "
        f"{used / run:.2f} times (wanted: at most 3)"
    )
    print(f"events                   {n_streams * n} sent, {absorbed} absorbed")
    print("memory after each fifth  " + ", ".join(f"{each:.0f}" for each in memory) + " MB")
    print(f"exit code                {code}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=50)
    parser.add_argument("--events", type=int, default=2000, help="of each stream")
    parser.add_argument("--batch", type=int, default=250)
    parser.add_argument("--senders", type=int, default=4)
    parser.add_argument("--shares", action="store_true")
    given = parser.parse_args()
    measure(given.streams, given.events, given.batch, given.senders, given.shares)
