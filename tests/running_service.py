"""A service that runs in this process, and a client for it."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mdvpf.streams.service import Engine, ServiceConfig

MARKOV = """
[streams.clicks]
symbols = 6
method = "Markov 1"
key = "key"
id = "id"
"""


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Client:
    """Asks a service at a port of this machine."""

    port: int
    token: str | None = None

    def ask(
        self,
        path: str,
        body: bytes | str | None = None,
        method: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        given = {"Content-Type": "application/x-ndjson"} if body is not None else {}
        if self.token is not None:
            given["Authorization"] = f"Bearer {self.token}"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            verb = method or ("GET" if body is None else "POST")
            connection.request(verb, path, body, {**given, **(headers or {})})
            found = connection.getresponse()
            return Answer(found.status, dict(found.getheaders()), found.read())
        finally:
            connection.close()

    def send(self, stream: str, events: list[dict[str, Any]], wait: bool = True) -> Answer:
        body = "".join(json.dumps(event) + "\n" for event in events)
        return self.ask(f"/v1/streams/{stream}/events?wait={str(wait).lower()}", body)


@contextmanager
def running(folder: Path, text: str = MARKOV, **given: Any) -> Iterator[tuple[Client, Engine]]:
    """Yield a client and the engine of a service that runs meanwhile."""
    from mdvpf.streams.service import server

    token = given.pop("token", None)
    if token is not None:
        (folder / "token").write_text(token)
        given["token_file"] = str(folder / "token")
    config = ServiceConfig.from_toml(text, folder=str(folder / "state"), **given)
    engine = Engine(config).start()
    listening = server.listening_socket("127.0.0.1", 0)
    stops: list[Any] = []
    is_ready = threading.Event()

    def ready(stop: Any) -> None:
        stops.append(stop)
        is_ready.set()

    thread = threading.Thread(target=server.serve, args=(engine, listening, ready))
    thread.start()
    assert is_ready.wait(30)
    try:
        yield Client(listening.getsockname()[1], token), engine
    finally:
        stops[0]()
        thread.join(30)
        engine.stop()
        listening.close()
        assert not thread.is_alive()
