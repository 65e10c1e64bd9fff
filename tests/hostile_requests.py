"""Hostile requests: drawn from the OpenAPI description, and bent in every way that comes to mind.

`attack` sends them one after the other. Each must get a complete answer with a status code that is
not that of a crash, or, where it is not HTTP at all, an error or a closed connection.
"""

from __future__ import annotations

import json
import random
import re
import socket
from typing import Any
from urllib.parse import quote

from tests.running_service import Client

TEXTS = ("", "0", "-1", "1e999", "NaN", "null", "true", "é", "\x00", "../..", "%", "a" * 3000)
BYTES = (b"", b"\x00", b"\xff\xfe", b"[" * 5000, b"{" * 5000, b'{"symbol":' * 500, b"\n" * 3000)
VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 10**30, 1e308, float("nan"), "", "1", "x" * 3000, "\ud800"),
    *([], [1, [2]], {}, {"a": {"b": 1}}),
)
PATHS = (
    "/../../etc/passwd",
    "/static/../../config.py",
    "/static/%2e%2e%2f%2e%2e%2fconfig.py",
    "/static//etc/passwd",
    "/v1/streams/../../metrics",
    "/v1/streams/%2e%2e",
    "/v1/streams/clicks%00",
    "/v1/streams/clicks/",
    "/v1//streams",
    "/%c3%28",
    "//",
)
RAW = (
    b"\r\n\r\n",
    b"GET\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * 20_000 + b"\r\n\r\n",
    b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    b"POST /v1/streams/clicks/events HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n",
    b"POST /v1/streams/clicks/events HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 200,  # TLS
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: 127.0.0.1\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"\x00" * 500,
)
METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE", "BREW")
CRASHES = (500, 502, 504)


def is_alive(client: Client) -> bool:
    found: bool = client.ask("/healthz").json["status"] == "ok"
    return found


def attack(client: Client, n: int, seed: int) -> dict[int, int]:
    """Send so many hostile requests; return how often each status code came, 0 for none."""
    rng = random.Random(seed)
    description = client.ask("/openapi.json").json
    operations = [
        (path, method.upper())
        for path, methods in description["paths"].items()
        for method in methods
        for _ in range(4 if method == "post" else 1)
        if not path.endswith("/reports")  # which has no end
    ]
    codes: dict[int, int] = {}
    for i in range(n):
        content = rng.choice(RAW) if rng.random() < 0.15 else _request(rng, operations)
        answer = _answer(client.port, content)
        code = _code(answer, content)
        assert code not in CRASHES, (seed, i, content[:300], answer[:300])
        codes[code] = codes.get(code, 0) + 1
    return codes


def _request(rng: random.Random, operations: list[tuple[str, str]]) -> bytes:
    path, method = rng.choice(operations)
    if rng.random() < 0.2:
        method = rng.choice(METHODS)
    stream = rng.choice(("clicks", "clicks", "pages", quote(rng.choice(TEXTS), safe="")))
    number = rng.choice(("0", "99999999999999999999", quote(rng.choice(TEXTS), safe="")))
    path = path.replace("{stream}", stream).replace("{number}", number)
    if rng.random() < 0.15:
        path = rng.choice(PATHS)
    if rng.random() < 0.5:
        names = ("key", "key_json", "top", "horizon", "size", "wait", "x")
        pairs = ((rng.choice(names), rng.choice(TEXTS)) for _ in range(rng.randrange(1, 4)))
        path += "?" + "&".join(f"{name}={quote(text)}" for name, text in pairs)
    body = _body(rng) if method == "POST" or rng.random() < 0.1 else b""
    length = len(body) if rng.random() < 0.9 else rng.choice((10**12, 30_000_000, len(body) + 1))
    kinds = ("application/json", "application/x-ndjson", "application/x-ndjson", "text/plain")
    headers = [
        f"Host: {'127.0.0.1' if rng.random() < 0.95 else 'evil.example'}",
        f"Content-Type: {rng.choice(kinds)}",
        f"Content-Length: {length}",
        "Connection: close",
    ]
    if rng.random() < 0.05:
        headers.append("Origin: null")
    head = f"{method} {path} HTTP/1.1\r\n" + "\r\n".join(headers) + "\r\n\r\n"
    return head.encode() + body


def _body(rng: random.Random) -> bytes:
    if rng.random() < 0.3:
        return rng.choice(BYTES) * rng.choice((1, 1, 10))
    lines = []
    for _ in range(rng.choice((1, 2, 20))):
        names = ("symbol", "key", "id", "user", "at", "strange", "x")
        chosen = rng.sample(names, rng.randrange(len(names)))
        lines.append(json.dumps({name: rng.choice(VALUES) for name in chosen}).encode())
    return b"\n".join(lines)


def _answer(port: int, content: bytes) -> bytes:
    """Return the answer, or what comes until the connection is closed."""
    answer = b""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        try:
            connection.sendall(content)
            while not _is_whole(answer) and (part := connection.recv(65536)):
                answer += part
        except (BrokenPipeError, ConnectionResetError):
            pass  # it had heard enough
    return answer


def _is_whole(answer: bytes) -> bool:
    head, end, body = answer.partition(b"\r\n\r\n")
    length = re.search(rb"\ncontent-length: (\d+)", head)
    return bool(end) and length is not None and len(body) >= int(length[1])


def _code(answer: bytes, content: bytes) -> int:
    if not answer:
        return 0
    assert answer.startswith(b"HTTP/1.1 "), (content[:300], answer[:300])
    return int(answer.split(b" ", 2)[1])
