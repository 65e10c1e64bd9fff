"""Access control: checks before every request, and security headers on every answer.

A web page in a browser on this machine could send requests here too. Without CORS it cannot read
the answers, and it cannot send JSON, because the preflight request for that is refused. If the page
comes from a host name that was rebound to this address, the name is not among the allowed hosts.
"""

from __future__ import annotations

import hmac
import json
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from mdvpf.streams.service.config import ServiceConfig, is_loopback
from mdvpf.streams.service.metrics import Metrics

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

OPEN_PATHS = ("/", "/healthz")  # nothing about the streams, so no token is needed
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]
MOST_CLIENTS = 10_000  # with a bucket; the one used longest ago goes first


class Rates:
    """A rate limit for each client: a bucket that fills at a rate and holds two seconds' worth.

    Parameters
    ----------
    per_second : float
        The rate.
    clock : callable
        Returns the time, in seconds.

    Examples
    --------
    >>> from mdvpf.streams.service.guards import Rates
    >>> now = [0.0]
    >>> rates = Rates(1.0, clock=lambda: now[0])
    >>> [rates.allows("a") for _ in range(3)]
    [True, True, False]
    >>> now[0] = 1.0
    >>> rates.allows("a")
    True
    """

    def __init__(self, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = per_second
        self._most = max(1.0, 2.0 * per_second)
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def allows(self, client: str) -> bool:
        """Return whether a client may send a request now, and count it."""
        now = self._clock()
        left, then = self._left.pop(client, (self._most, now))
        left = min(self._most, left + (now - then) * self._rate)
        allowed = left >= 1.0
        self._left[client] = (left - 1.0 if allowed else left, now)
        if len(self._left) > MOST_CLIENTS:
            self._left.popitem(last=False)
        return allowed


class Guards:
    """ASGI middleware: rates, hosts, origins, the token, security headers, and counting."""

    def __init__(self, app: Any, config: ServiceConfig, metrics: Metrics) -> None:
        self._app = app
        self._token = config.token
        self._rates = Rates(config.requests_per_second)
        self._metrics = metrics
        self._hosts = {name.lower() for name in config.hosts}
        if is_loopback(config.host):
            self._hosts |= {"127.0.0.1", "localhost", "[::1]", _host(config.host)}
        elif config.host in ("0.0.0.0", "::"):
            # Any name may lead here. The token keeps out a page with a rebound name.
            self._hosts = set()
        else:
            self._hosts.add(_host(config.host))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                self._metrics.requests.labels(str(message["status"])).inc()
                message["headers"] = [*message.get("headers", []), *HEADERS]
            await send(message)

        refusal = self._refusal(scope)
        if refusal is None:
            await self._app(scope, receive, send_guarded)
            return
        status, error, headers = refusal
        body = json.dumps({"error": error}).encode()
        found = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send_guarded(
            {"type": "http.response.start", "status": status, "headers": [*found, *headers]}
        )
        await send_guarded({"type": "http.response.body", "body": body})

    def _refusal(self, scope: Scope) -> tuple[int, str, list[tuple[bytes, bytes]]] | None:
        """Return status, message and headers for a request that is refused, else None."""
        client = scope.get("client")
        if not self._rates.allows(client[0] if client else ""):
            return 429, "too many requests", [(b"retry-after", b"1")]
        headers: dict[bytes, bytes] = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if self._hosts and _without_port(host) not in self._hosts:
            return 421, "expected the name of this service in the header Host", []
        origin = headers.get(b"origin", b"").decode("latin-1").lower()
        if origin and origin.partition("://")[2] != host:
            return 403, "requests from other sites are refused", []
        path = scope["path"]
        if self._token is None or path in OPEN_PATHS or path.startswith("/static/"):
            return None
        given = headers.get(b"authorization", b"")
        if hmac.compare_digest(given, b"Bearer " + self._token.encode()):
            return None
        return 401, "expected Authorization: Bearer TOKEN", [(b"www-authenticate", b"Bearer")]


def _host(address: str) -> str:
    return f"[{address}]" if ":" in address else address.lower()


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]
