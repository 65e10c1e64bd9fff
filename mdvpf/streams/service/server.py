"""Sockets and signals: run the application with uvicorn until a signal comes."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from typing import Any

from mdvpf._support.extras import needed
from mdvpf.streams.service.application import Application
from mdvpf.streams.service.engine import Engine

with needed("mdvpf serve", "uvicorn", "service"):
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

LONGEST_HEAD = 16_384  # bytes of a request line and headers
KEEP_ALIVE = 5  # seconds that a connection may be idle between two requests
# A request changes threads a few times, and each time may wait this long for a busy worker.
SWITCH_SECONDS = 0.0005
GARBAGE_OBJECTS = 20_000  # between two collections; events and reports are never in cycles
STALLED = 60  # seconds without reading, after which a client is disconnected
LAST_REQUESTS = 5  # seconds that open requests get when the service stops


class Server(uvicorn.Server):
    """A server that leaves signals to its caller."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


def timed_protocol(seconds: float) -> type[H11Protocol]:
    """Return a protocol that closes connections of clients that stop sending or reading."""

    class TimedProtocol(H11Protocol):
        _timer: asyncio.TimerHandle | None = None
        _stalled: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            transport.set_write_buffer_limits(high=0)  # notice any unread byte
            super().connection_made(transport)
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            self._unwatch()
            self._read_on()
            super().connection_lost(exc)

        def pause_writing(self) -> None:
            super().pause_writing()
            self._stalled = self.loop.call_later(STALLED, self.transport.abort)

        def resume_writing(self) -> None:
            self._read_on()
            super().resume_writing()

        def _read_on(self) -> None:
            if self._stalled is not None:
                self._stalled.cancel()
                self._stalled = None

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.cycle is not None and not self.cycle.response_complete:
                self._unwatch()  # the application has a time limit for the body
            elif not self.transport.is_closing():
                self._watch()

        def _watch(self) -> None:
            if self._timer is None:
                self._timer = self.loop.call_later(seconds, self.transport.close)

        def _unwatch(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    return TimedProtocol


def listening_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address, or raise."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
    except OSError as error:
        found.close()
        raise OSError(error.errno, error.strerror, f"{host}:{port}") from error
    return found


def tune_process() -> None:
    """Set up a process that is the service and nothing else."""
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.freeze()  # modules and streams stay; do not visit them again
    gc.set_threshold(GARBAGE_OBJECTS)


def serve(
    engine: Engine, listening: socket.socket, ready: Callable[[Callable[[], None]], None]
) -> int | None:
    """Serve until a signal comes or the engine fails; return the signal, None without.

    Parameters
    ----------
    engine : Engine
        A started engine. It is not stopped here.
    listening : socket
        Where to listen.
    ready : callable
        Called once requests are taken, with a function that stops the service from any thread.
    """
    return asyncio.run(_serve(engine, listening, ready))


async def _serve(
    engine: Engine, listening: socket.socket, ready: Callable[[Callable[[], None]], None]
) -> int | None:
    config = engine.config
    application = Application(engine)
    server = Server(
        uvicorn.Config(
            application.asgi,
            http=timed_protocol(config.request_seconds),
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=config.max_connections,
            timeout_keep_alive=KEEP_ALIVE,
            timeout_graceful_shutdown=LAST_REQUESTS,
            h11_max_incomplete_event_size=LONGEST_HEAD,
        )
    )
    loop = asyncio.get_running_loop()
    signals: list[int] = []

    def stop(number: int | None = None) -> None:
        if number is not None:
            signals.append(number)
        application.stop()
        server.should_exit = True

    def stop_soon() -> None:
        loop.call_soon_threadsafe(stop)

    engine.on_failure = stop_soon
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None:
            with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
                loop.add_signal_handler(number, stop, number)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    while not server.started and not serving.done():
        await asyncio.sleep(0.005)
    if server.started:
        ready(stop_soon)
    if engine.error is not None:
        stop()
    await serving
    return signals[0] if signals else None
