"""The service over HTTP: what it answers, whom it refuses, and that nothing brings it down."""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("starlette", reason="needs mdvpf[service]")
pytest.importorskip("uvicorn", reason="needs mdvpf[service]")
pytest.importorskip("prometheus_client", reason="needs mdvpf[service]")

from mdvpf.streams.service import Engine, server, views
from mdvpf.streams.service.openapi import description
from mdvpf.streams.service.state import NotedIncident
from tests.hostile_requests import attack, is_alive
from tests.running_service import MARKOV, Client, running

FILTER = """
[streams.pages]
vocabulary = ["news", "sport", "weather"]
method = "MD-VPA"
particles = 20
key = "user"
time = "at"
time_unit = "s"
id = "id"
"""
TOKEN = "0123456789abcdef0123"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Client, Engine]]:
    folder = tmp_path_factory.mktemp("service")
    with running(folder, MARKOV + FILTER, request_seconds=0.2, max_body_bytes=20_000) as found:
        yield found


def pages(first: int, last: int) -> list[dict[str, Any]]:
    names = ["news", "sport", "weather"]
    return [
        {"symbol": names[i % 3], "user": f"u{i % 5}", "at": float(i), "id": f"event {i}"}
        for i in range(first, last)
    ]


def test_a_stream_from_events_to_forecasts(service: tuple[Client, Engine]) -> None:
    client, _ = service
    answer = client.send("pages", pages(0, 150))
    assert (answer.status, answer.json["accepted"], answer.json["repeated"]) == (200, 150, 0)
    assert [report["line"] for report in answer.json["reports"]] == list(range(1, 151))
    assert client.send("pages", pages(100, 160), wait=False).json["repeated"] == 50
    client.send("pages", [])  # waits for what came before
    status = client.ask("/v1/streams/pages").json
    assert (status["events"], status["method"], status["keys"]) == (160, "MD-VPA", 5)
    assert status["memory"]["live"] > 0
    found = client.ask("/v1/streams/pages/prediction?key=u0&top=3").json["symbols"]
    assert {each["symbol"] for each in found} == {"news", "sport", "weather"}
    assert sum(each["probability"] for each in found) == pytest.approx(1.0, abs=1e-9)
    steps = client.ask("/v1/streams/pages/forecast?key=u0&horizon=3&top=3").json["steps"]
    assert steps[0] == found
    assert len(steps) == 3
    model = client.ask("/v1/streams/pages/model").json
    assert sum(state["visits"] for state in model["states"]) == pytest.approx(159, abs=1.1)
    assert len(client.ask("/v1/streams/pages/recent").json["points"]) == 160
    assert client.ask("/v1/streams/clicks/forecast").status == 409
    assert client.ask("/v1/streams/clicks/model").json["states"] == []
    names = [each["name"] for each in client.ask("/v1/streams").json["streams"]]
    assert names == ["clicks", "pages"]


def test_incidents_and_feedback(tmp_path: Path) -> None:
    text = MARKOV.replace('key = "key"\n', "")
    rng = random.Random(0)
    usual = [{"symbol": rng.randrange(5)} for _ in range(2000)]
    strange = [{"symbol": 5}] * 40
    with running(tmp_path, text) as (client, _):
        client.send("clicks", usual)
        assert client.ask("/v1/streams/clicks/incidents").json == {"incidents": []}
        client.send("clicks", strange)
        (incident,) = client.ask("/v1/streams/clicks/incidents").json["incidents"]
        assert 2000 <= incident["start"] < 2024
        assert "5" in incident["why"]
        assert incident["strange"] is None
        path = f"/v1/streams/clicks/incidents/{incident['number']}/feedback"
        assert client.ask(path, '{"strange": "yes"}').status == 422
        assert client.ask(path, '{"strange": true, "more": 1}').status == 422
        assert client.ask(path, '{"strange": true}').json["strange"] is True
        client.send("clicks", [{"symbol": 0}])
        assert client.ask(path, '{"strange": true}').status == 200  # the same again
        assert client.ask(path, '{"strange": false}').status == 409
        assert (
            client.ask(path.replace(str(incident["number"]), "99"), '{"strange": true}').status
            == 404
        )
        (incident,) = client.ask("/v1/streams/clicks/incidents").json["incidents"]
        assert incident["strange"] is True


def test_reports_are_pushed_as_they_are_made(tmp_path: Path) -> None:
    with running(tmp_path) as (client, _):
        connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=10)
        connection.request("GET", "/v1/streams/clicks/reports")
        response = connection.getresponse()
        assert response.getheader("content-type", "").startswith("text/event-stream")
        assert response.readline() == b": reports\n"
        client.send("clicks", [{"symbol": 4, "key": "a"}])
        lines = [response.readline() for _ in range(4)]
        data = next(line for line in lines if line.startswith(b"data: "))
        assert json.loads(data[6:])["symbol"] == 4
    assert response.read() == b""  # the service stops although somebody watches
    response.close()
    connection.close()


def test_only_so_many_watch_at_a_time(tmp_path: Path) -> None:
    with running(tmp_path, max_watchers=1) as (client, _):
        first = http.client.HTTPConnection("127.0.0.1", client.port, timeout=10)
        first.request("GET", "/v1/streams/clicks/reports")
        response = first.getresponse()
        assert response.readline() == b": reports\n"
        assert client.ask("/v1/streams/clicks/reports").status == 503
        assert client.ask("/v1/streams/clicks/reports?brief=maybe").status == 422
    response.close()
    first.close()


def test_metrics_count_what_happened(tmp_path: Path) -> None:
    with running(tmp_path) as (client, _):
        client.send("clicks", [{"symbol": i % 6, "key": "k", "id": i} for i in range(30)])
        client.send("clicks", [{"symbol": 0, "key": "k", "id": 3}])
        client.ask("/v1/streams/none")
        text = client.ask("/metrics").body.decode()
        found = dict(line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#")
        assert float(found['mdvpf_symbols_total{stream="clicks"}']) == 30
        assert float(found['mdvpf_repeated_total{stream="clicks"}']) == 1
        assert float(found['mdvpf_lag_events{stream="clicks"}']) == 0
        assert float(found['mdvpf_surprise_nats_bucket{le="+Inf",stream="clicks"}']) == 30
        assert float(found["mdvpf_batch_synced_seconds_count"]) == 2
        assert float(found['mdvpf_requests_total{code="404"}']) == 1
        assert float(found["mdvpf_log_bytes"]) > 1000


def test_every_answer_has_the_security_headers(service: tuple[Client, Engine]) -> None:
    client, _ = service
    for path in ("/", "/static/page.js", "/healthz", "/v1/streams", "/nothing"):
        headers = client.ask(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers


def test_strangers_need_the_token(tmp_path: Path) -> None:
    with running(tmp_path, token=TOKEN) as (client, _):
        assert client.ask("/v1/streams").status == 200
        for token in (None, "", TOKEN[:-1], TOKEN + "0", "x" * 5000):
            other = Client(client.port, token)
            for path in ("/v1/streams", "/metrics", "/v1/streams/clicks/reports", "/openapi.json"):
                assert other.ask(path).status == 401
            assert other.send("clicks", [{"symbol": 1, "key": "a"}]).status == 401
            assert other.ask("/healthz").status == 200
        assert client.ask("/v1/streams/clicks").json["events"] == 0


def test_other_sites_are_refused(service: tuple[Client, Engine]) -> None:
    client, _ = service
    line = '{"symbol": 1, "key": "a"}'
    path = "/v1/streams/clicks/events"
    before = client.ask("/v1/streams/clicks").json["events"]
    assert client.ask("/v1/streams", headers={"Host": "evil.example"}).status == 421
    assert client.ask(path, line, headers={"Origin": "http://evil.example"}).status == 403
    assert client.ask(path, line, headers={"Content-Type": "text/plain"}).status == 415
    assert client.ask(path, line, headers={"Content-Encoding": "gzip"}).status == 415
    assert client.ask(path, method="OPTIONS").status == 405
    assert client.ask("/v1/streams/clicks").json["events"] == before


def test_limits_on_bodies_and_rates(tmp_path: Path) -> None:
    with running(tmp_path, max_body_bytes=1000, requests_per_second=5.0) as (client, _):
        path = "/v1/streams/clicks/events"
        assert client.ask(path, b" " * 1001).status == 413

        def chunks() -> Iterator[bytes]:
            yield from [b" " * 300] * 4

        assert client.ask(path, chunks(), "POST").status == 413  # type: ignore[arg-type]
        codes = [client.ask("/healthz").status for _ in range(30)]
        assert 429 in codes
        assert set(codes) == {200, 429}


def test_slow_clients_are_let_go(service: tuple[Client, Engine]) -> None:
    client, _ = service
    for start in (b"GET /healthz HTTP/1.1\r\nHost: 127", b""):
        with socket.create_connection(("127.0.0.1", client.port), timeout=10) as connection:
            connection.sendall(start)
            assert connection.recv(1000) == b""  # closed, after a moment
    head = b"POST /v1/streams/clicks/events HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    head += b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n"
    with socket.create_connection(("127.0.0.1", client.port), timeout=10) as connection:
        connection.sendall(head + b'{"symbol"')
        assert connection.recv(1000).startswith(b"HTTP/1.1 408")
    assert is_alive(client)


def test_clients_that_read_nothing_are_let_go(
    service: tuple[Client, Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, _ = service
    monkeypatch.setattr(server, "STALLED", 0.1)
    asked = b"GET /static/page.js HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 400
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 5000)
        connection.settimeout(10)
        connection.connect(("127.0.0.1", client.port))
        connection.sendall(asked)
        with pytest.raises(ConnectionError):
            for _ in range(500):
                connection.send(b"\r\n")
                time.sleep(0.02)
    assert is_alive(client)


def test_feedback_that_is_on_its_way_is_not_contradicted(tmp_path: Path) -> None:
    with running(tmp_path) as (client, engine):
        stream = engine.streams["clicks"]
        noted = NotedIncident(7, 0, 1, 0, None, None, 1, None, None, "", [0, 1, 1, 1, 1, True, 1])
        with stream.look() as state:
            state.incidents[7] = noted
        path = "/v1/streams/clicks/incidents/7/feedback"
        with stream._record_lock:  # nothing is absorbed meanwhile
            assert client.ask(path, '{"strange": true}').status == 200
            assert client.ask(path, '{"strange": false}').status == 409
            assert client.ask(path, '{"strange": true}').status == 200
            assert noted.strange is None
            assert len(stream._waiting) == 1


def test_what_went_wrong_here_is_told_to_the_operator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(stream: Any) -> None:
        raise ZeroDivisionError("a secret\nforged line")

    with running(tmp_path) as (client, engine):
        told: list[str] = []
        engine.warn = told.append
        monkeypatch.setattr(views, "status", fail)
        answer = client.ask("/v1/streams/clicks")
        assert (answer.status, "secret" in answer.body.decode()) == (500, False)
        (line,) = told
        assert "ZeroDivisionError in fail" in line
        assert "secret" not in line


def test_hostile_requests_get_an_error_code_each(service: tuple[Client, Engine]) -> None:
    client, _ = service
    assert set(attack(client, 150, seed=0)) > {404, 422}
    assert is_alive(client)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)
FIELDS = st.sampled_from(["symbol", "key", "user", "at", "id", "strange"])
EVENTS = st.lists(st.dictionaries(FIELDS, JSON | st.integers(0, 5), max_size=5), max_size=4)


def drawn(data: st.DataObject, schema: dict[str, Any]) -> str:
    """Draw a parameter: as its schema says, or any text."""
    if data.draw(st.booleans()):
        if "enum" in schema:
            return str(data.draw(st.sampled_from(schema["enum"])))
        if schema["type"] == "integer":
            return str(data.draw(st.integers(-1, 3000)))
        if schema["type"] == "boolean":
            return data.draw(st.sampled_from(["true", "false"]))
    return data.draw(st.text(max_size=30))


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])  # it sends requests
@given(data=st.data())
def test_requests_drawn_from_the_description_get_a_code_of_it(
    service: tuple[Client, Engine], data: st.DataObject
) -> None:
    client, engine = service
    paths = description(engine.config)["paths"]
    path = data.draw(st.sampled_from([each for each in paths if not each.endswith("reports")]))
    ((method, operation),) = paths[path].items()
    query = []
    for parameter in operation["parameters"]:
        value = quote(drawn(data, parameter["schema"]), safe="", errors="replace")
        if parameter["in"] == "path":
            path = path.replace("{" + parameter["name"] + "}", value)
        elif data.draw(st.booleans()):
            query.append(f"{parameter['name']}={value}")
    body = None
    if method == "post":
        events = EVENTS.map(lambda found: "\n".join(map(json.dumps, found)).encode())
        body = data.draw(events | st.binary(max_size=50) | JSON.map(json.dumps).map(str.encode))
    answer = client.ask(f"{path}?{'&'.join(query)}", body)
    assert str(answer.status) in operation["responses"], (path, query, body)
    assert engine.error is None


def test_the_description_names_every_path_and_code(service: tuple[Client, Engine]) -> None:
    client, _ = service
    found = client.ask("/openapi.json").json
    for path, methods in found["paths"].items():
        for method, operation in methods.items():
            assert "200" in operation["responses"]
            if path.endswith("/reports"):
                continue
            asked = path.replace("{stream}", "clicks").replace("{number}", "0")
            body = "{}" if method == "post" else None
            status = client.ask(asked, body, method.upper()).status
            assert str(status) in operation["responses"], (path, status)


# --- The command


def test_the_command_serves_and_stops_with_0_on_sigterm(tmp_path: Path) -> None:
    pytest.importorskip("typer")
    if sys.platform == "win32":
        pytest.skip("SIGTERM ends a process at once there")
    (tmp_path / "service.toml").write_text(f'folder = "state"\nport = 0\n{MARKOV}')
    process = subprocess.Popen(
        [sys.executable, "-m", "mdvpf", "serve", str(tmp_path / "service.toml")],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        client = Client(int(line.rsplit(":", 1)[1].strip().strip("/")))
        assert client.ask("/healthz").status == 200
        client.send("clicks", [{"symbol": 1, "key": "a", "id": 1}], wait=False)
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        assert process.stdout is not None
        process.stdout.close()
    state = tmp_path / "state"
    assert (state / "streams" / "clicks.mdvpf").exists()
    assert not (state / "service.lock").exists()


def test_the_command_refuses_a_bad_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("typer")
    from mdvpf.cli import main

    path = tmp_path / "service.toml"
    path.write_text('folder = "state"\nhost = "0.0.0.0"\n' + MARKOV)
    assert main(["serve", str(path)]) == 2
    assert "expected a token_file" in capsys.readouterr().err
    path.write_text('folder = "state"\n' + MARKOV)
    assert main(["serve", str(path), "--check"]) == 0
    assert "1 stream, nothing wrong" in capsys.readouterr().out
    assert not (tmp_path / "state").exists()
