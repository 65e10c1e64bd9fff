"""The service under torture: killed while events flow, and attacked by hostile requests.

Senders repeat each batch until it is acknowledged, as a sender does that must not lose anything,
and now and then one that was acknowledged already. However often the service is killed on the way,
in the end every event has counted once: the streams are the same, to the last bit, as monitors in
this process that were never interrupted.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import socket
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("typer")
pytest.importorskip("starlette", reason="needs mdvpf[service]")
pytest.importorskip("uvicorn", reason="needs mdvpf[service]")
pytest.importorskip("prometheus_client", reason="needs mdvpf[service]")

from mdvpf.checkpoint.saveable import encoded
from mdvpf.streams.service import ServiceConfig
from mdvpf.streams.service.state import StreamState
from tests.hostile_requests import attack, is_alive
from tests.running_service import MARKOV, Client, running
from tests.torture.nursery import Nursery

pytestmark = [
    pytest.mark.torture,
    pytest.mark.skipif(sys.platform == "win32", reason="forks and kills processes"),
]

N_KILLS = 100
N_HOSTILE = 10_000
V = 6
CONFIG = """
folder = "state"
port = {port}
segment_bytes = 5000
checkpoint_events = 300
checkpoint_seconds = 0.3

[streams.chain]
symbols = 6
method = "Markov 1"
key = "key"
id = "id"

[streams.filter]
symbols = 6
method = "MD-VPA"
particles = 8
max_states = 6
key = "key"
id = "id"

[streams.drawn]
symbols = 6
method = "SMC"
particles = 8
max_states = 6
id = "id"

[streams.shared]
symbols = 6
method = "Markov 0"
id = "id"
"""


def event(sender: int, i: int) -> dict[str, Any]:
    symbol = (i * 3 + i * i // 11 + sender) % V
    return {"symbol": symbol, "key": f"k{i % 7}", "id": f"{sender}:{i}"}


@dataclass
class Sender:
    """Sends events to a stream until it is told to stop, each until it is acknowledged."""

    number: int
    stream: str
    port: int
    n_acknowledged: int = 0
    n_repeated: int = 0
    wrong: list[str] = field(default_factory=list)

    def run(self, stop: threading.Event) -> None:
        rng = random.Random(self.number)
        last: tuple[int, int] | None = None
        while not stop.is_set() and not self.wrong:
            if last is not None and rng.random() < 0.1:
                first, n = last  # which was acknowledged already
            else:
                first, n = self.n_acknowledged, rng.randrange(1, 40)
            while (answer := self._send(first, n)) is None:
                time.sleep(0.02)
            total = answer["accepted"] + answer["repeated"]
            if total != n or (first < self.n_acknowledged and answer["accepted"]):
                self.wrong.append(f"events {first} to {first + n}: {answer}")
            self.n_repeated += answer["repeated"]
            self.n_acknowledged = max(self.n_acknowledged, first + n)
            last = first, n

    def _send(self, first: int, n: int) -> dict[str, Any] | None:
        """Send a batch; return the answer, None if it has to be sent again."""
        body = "\n".join(json.dumps(event(self.number, i)) for i in range(first, first + n))
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            headers = {"Content-Type": "application/x-ndjson"}
            connection.request("POST", f"/v1/streams/{self.stream}/events", body, headers)
            found = connection.getresponse()
            content = found.read()
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()
        if found.status == 503:
            return None
        if found.status != 200:
            self.wrong.append(f"{found.status}: {content[:200]!r}")
        answer: dict[str, Any] = json.loads(content)
        return answer


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def is_up(port: int) -> bool:
    try:
        return Client(port).ask("/healthz").status == 200
    except (OSError, http.client.HTTPException):
        return False


def test_every_acknowledged_event_counts_once(tmp_path: Path, torture_scale: float) -> None:
    n_kills = max(5, int(N_KILLS * torture_scale))
    rng = random.Random(0)
    port = free_port()
    path = tmp_path / "service.toml"
    path.write_text(CONFIG.format(port=port))
    nursery = Nursery()
    streams = ["chain", "filter", "drawn", "shared", "shared"]
    senders = [Sender(i, stream, port) for i, stream in enumerate(streams)]
    stop = threading.Event()
    threads = [threading.Thread(target=sender.run, args=(stop,)) for sender in senders]
    complaints = tmp_path / "complaints"
    n_while_running = 0
    for thread in threads:
        thread.start()
    try:
        for _ in range(n_kills):
            process = nursery.start(["serve", str(path)], stderr=complaints)
            if rng.random() < 0.9:  # else it is killed while it starts
                for _ in range(2000):
                    if is_up(port) or not os.path.exists(f"/proc/{process}"):
                        break
                    time.sleep(0.005)
                n_while_running += 1
                time.sleep(rng.random() * 0.4)
            else:
                time.sleep(rng.random() * 0.5)
            os.kill(process, signal.SIGKILL)
            assert nursery.wait(process) == -9, complaints.read_text()
        process = nursery.start(["serve", str(path)], stderr=complaints)
        for _ in range(2000):
            if is_up(port):
                break
            time.sleep(0.005)
        time.sleep(0.3)
        stop.set()
        for thread in threads:
            thread.join(60)
        os.kill(process, signal.SIGTERM)
        assert nursery.wait(process) == 0, complaints.read_text()
    finally:
        stop.set()
        nursery.close()
    assert not any(thread.is_alive() for thread in threads)
    assert [sender.wrong for sender in senders] == [[]] * len(senders)
    assert n_while_running > n_kills / 2
    assert all(sender.n_acknowledged > 50 for sender in senders)
    assert sum(sender.n_repeated for sender in senders) > 0
    check(tmp_path, senders)


def check(folder: Path, senders: list[Sender]) -> None:
    config = ServiceConfig.from_toml((folder / "service.toml").read_text(), folder)
    for sender in senders:
        state = StreamState.load(folder / "state" / "streams" / f"{sender.stream}.mdvpf")
        if sender.stream == "shared":
            both = sum(each.n_acknowledged for each in senders if each.stream == "shared")
            assert state.monitor.n_lines == both
            continue
        monitor = config.streams[sender.stream].new_monitor()
        for i in range(sender.n_acknowledged):
            monitor.read(json.dumps(event(sender.number, i)))
        assert state.monitor.n_lines == sender.n_acknowledged
        assert b"".join(encoded(state.monitor)) == b"".join(encoded(monitor)), sender.stream


def test_hostile_requests_never_bring_it_down(tmp_path: Path, torture_scale: float) -> None:
    n = int(N_HOSTILE * torture_scale)
    given = {"requests_per_second": 1e6, "request_seconds": 0.1, "max_body_bytes": 20_000}
    with running(tmp_path, MARKOV, **given) as (client, engine):
        codes: dict[int, int] = {}
        for seed in range(0, n, 100):
            for code, count in attack(client, 100, seed).items():
                codes[code] = codes.get(code, 0) + count
            assert is_alive(client)
        assert engine.error is None
        assert {400, 404, 405, 413, 415, 422} <= set(codes)
        before = client.ask("/v1/streams/clicks").json["events"]
        assert client.send("clicks", [{"symbol": 1, "key": "a"}]).json["accepted"] == 1
        assert client.ask("/v1/streams/clicks").json["events"] == before + 1
