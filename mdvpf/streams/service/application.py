"""The service over HTTP: what each path does. `openapi` describes the same for clients."""

from __future__ import annotations

import asyncio
import json
import time
import traceback
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import suppress
from importlib import resources
from typing import Any

from mdvpf._support.extras import needed
from mdvpf.streams.report import Report, finite
from mdvpf.streams.service import views
from mdvpf.streams.service.engine import Contradiction, Engine, Unavailable, check_answer
from mdvpf.streams.service.guards import Guards
from mdvpf.streams.service.ingest import LONGEST_LABEL, Batch, MalformedBatch, Overloaded
from mdvpf.streams.service.metrics import CONTENT_TYPE, Metrics
from mdvpf.streams.service.openapi import description
from mdvpf.streams.service.stream import Stream

with needed("mdvpf serve", "starlette", "service"):
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import JSONResponse, Response, StreamingResponse
    from starlette.routing import Route

JSON_TYPES = ("application/json", "application/x-ndjson", "application/jsonl")
PAGE_TYPES = {
    "index.html": "text/html; charset=utf-8",
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
MOST_WAITING = 200  # groups of reports that wait for a slow watcher; more are dropped
HEARTBEAT = 15.0  # seconds
LARGE = 50_000  # bytes; a longer body is parsed in another thread
MOST_FEEDBACK = 10_000  # bytes


class Application:
    """The ASGI application of an engine.

    Parameters
    ----------
    engine : Engine
        A started engine.

    Attributes
    ----------
    asgi : callable
        What the server calls.
    metrics : Metrics
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._config = engine.config
        self.metrics = Metrics(engine)
        self._watchers: set[asyncio.Queue[list[Report] | None]] = set()
        self._is_stopping = False
        self._description = description(engine.config)
        folder = resources.files("mdvpf.streams.service").joinpath("page")
        self._files = {name: folder.joinpath(name).read_bytes() for name in PAGE_TYPES}
        stream = "/v1/streams/{stream}"
        routes = [
            Route("/", self._index),
            Route("/static/{name}", self._static),
            Route("/healthz", self._health),
            Route("/metrics", self._metrics),
            Route("/openapi.json", self._openapi),
            Route("/v1/streams", self._streams),
            Route(stream, self._status),
            Route(f"{stream}/events", self._events, methods=["POST"]),
            Route(f"{stream}/prediction", self._prediction),
            Route(f"{stream}/forecast", self._forecast),
            Route(f"{stream}/incidents", self._incidents),
            Route(f"{stream}/incidents/{{number}}/feedback", self._feedback, methods=["POST"]),
            Route(f"{stream}/model", self._model),
            Route(f"{stream}/recent", self._recent),
            Route(f"{stream}/reports", self._reports),
        ]
        handlers: Any = {
            HTTPException: _http_error,
            Unavailable: _unavailable,
            Overloaded: _unavailable,
            Exception: self._unexpected,
        }
        inner = Starlette(routes=routes, exception_handlers=handlers)
        inner.router.redirect_slashes = False
        self.asgi = Guards(inner, engine.config, self.metrics)

    def stop(self) -> None:
        """End the reports of all watchers."""
        self._is_stopping = True
        for waiting in self._watchers:
            while not waiting.empty():
                waiting.get_nowait()
            waiting.put_nowait(None)

    async def _unexpected(self, request: Request, error: Exception) -> Response:
        where = traceback.extract_tb(error.__traceback__)[-1]
        self._engine.warn(
            f"a request failed: {type(error).__name__} in {where.name}, line {where.lineno}"
        )
        return JSONResponse({"error": "internal error"}, 500)

    # -- the service -----------------------------------------------------------------------

    async def _index(self, request: Request) -> Response:
        return Response(self._files["index.html"], media_type=PAGE_TYPES["index.html"])

    async def _static(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self._files:
            raise HTTPException(404, "no such file")
        return Response(self._files[name], media_type=PAGE_TYPES[name])

    async def _health(self, request: Request) -> Response:
        if self._engine.error is not None or self._is_stopping:
            return JSONResponse({"status": "stopping"}, 503)
        lag = sum(stream.ingest.lag for stream in self._engine.streams.values())
        return JSONResponse({"status": "ok", "lag": lag})

    async def _metrics(self, request: Request) -> Response:
        text = await run_in_threadpool(self.metrics.text)
        return Response(text, headers={"content-type": CONTENT_TYPE})

    async def _openapi(self, request: Request) -> Response:
        return JSONResponse(self._description)

    async def _streams(self, request: Request) -> Response:
        found = [
            await run_in_threadpool(views.status, each) for each in self._engine.streams.values()
        ]
        return JSONResponse({"streams": found, "log_bytes": self._engine.log.n_bytes})

    # -- one stream ------------------------------------------------------------------------

    def _stream(self, request: Request) -> Stream:
        name = request.path_params["stream"]
        if name not in self._engine.streams:
            raise HTTPException(404, "no such stream")
        return self._engine.streams[name]

    async def _status(self, request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(views.status, self._stream(request)))

    async def _events(self, request: Request) -> Response:
        start = time.perf_counter()
        stream = self._stream(request)
        wait = _flag(request, "wait")
        body = await self._body(request, self._config.max_body_bytes)
        try:
            read = stream.ingest.read_batch
            if len(body) < LARGE:
                batch = read(body, self._config.max_events)
            else:
                batch = await run_in_threadpool(read, body, self._config.max_events)
        except MalformedBatch as error:
            lines = [{"line": line, "error": text} for line, text in error.errors]
            return JSONResponse({"error": "malformed events", "lines": lines}, 422)
        batch.wants_reports = wait
        batch.absorbed.add_done_callback(
            lambda done: self.metrics.absorbed.observe(time.perf_counter() - start)
        )
        self._engine.submit(stream, batch)
        await _result(batch.synced)
        self.metrics.synced.observe(time.perf_counter() - start)
        found = {
            "accepted": len(batch),
            "repeated": batch.n_repeated,
            "record": batch.number or None,
        }
        if not wait:
            return JSONResponse(found)
        await _result(batch.absorbed)
        return await run_in_threadpool(_with_reports, found, batch)

    async def _prediction(self, request: Request) -> Response:
        stream, key = self._stream(request), _key(request)
        top = _integer(request, "top", 5, 1, 100)
        return JSONResponse(await run_in_threadpool(views.prediction, stream, key, top))

    async def _forecast(self, request: Request) -> Response:
        stream, key = self._stream(request), _key(request)
        horizon = _integer(request, "horizon", 5, 1, 50)
        size = _integer(request, "size", 100, 1, 2000)
        top = _integer(request, "top", 5, 1, 100)
        try:
            found = await run_in_threadpool(views.forecast, stream, key, horizon, size, top)
        except views.NoForecast as error:
            raise HTTPException(409, str(error)) from None
        return JSONResponse(found)

    async def _incidents(self, request: Request) -> Response:
        found = await run_in_threadpool(views.incidents, self._stream(request))
        return JSONResponse({"incidents": found})

    async def _feedback(self, request: Request) -> Response:
        stream = self._stream(request)
        text = request.path_params["number"]
        if not (text.isascii() and text.isdecimal() and len(text) < 16):
            raise HTTPException(404, "no such incident")
        number = int(text)
        try:
            given = json.loads(await self._body(request, MOST_FEEDBACK))
        except (ValueError, RecursionError):
            given = None
        if not isinstance(given, dict) or set(given) != {"strange"}:
            raise HTTPException(422, 'expected {"strange": true} or {"strange": false}')
        strange = given["strange"]
        if not isinstance(strange, bool):
            raise HTTPException(422, "strange: expected true or false")
        is_known, before = await run_in_threadpool(views.feedback, stream, number)
        if not is_known:
            raise HTTPException(404, "no such incident")
        try:
            if before is None:
                await _result(self._engine.submit_feedback(stream, number, strange))
            else:
                check_answer(before, strange)
        except Contradiction as error:
            raise HTTPException(409, str(error)) from None
        return JSONResponse({"number": number, "strange": strange})

    async def _model(self, request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(views.model, self._stream(request)))

    async def _recent(self, request: Request) -> Response:
        return JSONResponse({"points": views.recent(self._stream(request))})

    async def _reports(self, request: Request) -> Response:
        stream = self._stream(request)
        brief, alarms_only = _flag(request, "brief"), _flag(request, "alarms_only")
        if len(self._watchers) >= self._config.max_watchers or self._is_stopping:
            raise HTTPException(503, "too many watchers already", {"retry-after": "10"})
        content = self._watched(stream, brief, alarms_only)
        return StreamingResponse(content, media_type="text/event-stream")

    async def _watched(
        self, stream: Stream, brief: bool, alarms_only: bool
    ) -> AsyncIterator[bytes]:
        """Yield reports as they are made; tell a slow watcher how many it missed."""
        loop, n_missed = asyncio.get_running_loop(), 0
        waiting: asyncio.Queue[list[Report] | None] = asyncio.Queue(MOST_WAITING)

        def offer(reports: list[Report]) -> None:
            nonlocal n_missed
            try:
                waiting.put_nowait(reports)
            except asyncio.QueueFull:
                n_missed += len(reports)

        def listen(reports: list[Report]) -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(offer, reports)

        unlisten = stream.listen(listen)
        self._watchers.add(waiting)
        try:
            yield b": reports\n\n"
            while True:
                try:
                    reports = await asyncio.wait_for(waiting.get(), HEARTBEAT)
                except TimeoutError:
                    yield b": still here\n\n"
                    continue
                if reports is None:
                    return
                if n_missed:
                    yield b"event: missed\ndata: %d\n\n" % n_missed
                    n_missed = 0
                if alarms_only:
                    reports = [each for each in reports if each.alarm]
                if reports:
                    yield _messages(reports, brief)
        finally:
            unlisten()
            self._watchers.discard(waiting)

    # -- bodies ----------------------------------------------------------------------------

    async def _body(self, request: Request, limit: int) -> bytes:
        """Return the body of a request, or refuse it."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in JSON_TYPES:
            raise HTTPException(415, f"expected a Content-Type among {', '.join(JSON_TYPES)}")
        if request.headers.get("content-encoding", "identity").lower() != "identity":
            raise HTTPException(415, "expected a body that is not compressed")
        length = request.headers.get("content-length", "")
        too_long = HTTPException(413, f"expected a body of at most {limit} bytes")
        if length.isdecimal() and (len(length) > 12 or int(length) > limit):
            raise too_long
        parts, size = [], 0
        try:
            async with asyncio.timeout(self._config.request_seconds):
                async for part in request.stream():
                    size += len(part)
                    if size > limit:
                        raise too_long
                    parts.append(part)
        except TimeoutError:
            raise HTTPException(408, "the body took too long", {"connection": "close"}) from None
        except ClientDisconnect:
            raise HTTPException(400, "the body was cut off") from None
        return b"".join(parts)


# --- Requests


def _key(request: Request) -> Any:
    text, as_json = request.query_params.get("key"), request.query_params.get("key_json")
    for value in (text, as_json):
        if value is not None and len(value) > LONGEST_LABEL:
            raise HTTPException(422, f"key: expected at most {LONGEST_LABEL} characters")
    try:
        return views.read_query_key(text, as_json)
    except (TypeError, ValueError) as error:
        raise HTTPException(422, str(error)) from None


def _integer(request: Request, name: str, default: int, low: int, high: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    if text.isascii() and text.isdecimal() and len(text) < 10 and low <= int(text) <= high:
        return int(text)
    raise HTTPException(422, f"{name}: expected an integer in {low}..{high}")


def _flag(request: Request, name: str) -> bool:
    text = request.query_params.get(name, "false")
    if text not in ("true", "false"):
        raise HTTPException(422, f"{name}: expected true or false")
    return text == "true"


async def _result(future: Future[None]) -> None:
    # If the client disconnects, only the wait ends: an accepted batch is logged all the same.
    await asyncio.shield(asyncio.wrap_future(future))


# --- Answers


def _with_reports(found: dict[str, Any], batch: Batch) -> Response:
    reports = ", ".join(report.to_json() for report in batch.reports)
    head = json.dumps(found)[:-1]
    return Response(f'{head}, "reports": [{reports}]}}', media_type="application/json")


def _messages(reports: list[Report], brief: bool) -> bytes:
    """Return server-sent events: one for each report, or if brief one for all of them."""
    if brief:
        points = [
            {"line": each.line, "surprise": finite(each.surprise), "alarm": each.alarm}
            for each in reports
        ]
        return b"id: %d\ndata: %s\n\n" % (reports[-1].line, json.dumps(points).encode())
    return b"".join(
        b"id: %d\ndata: %s\n\n" % (each.line, each.to_json().encode()) for each in reports
    )


async def _http_error(request: Request, error: Any) -> Response:
    return JSONResponse({"error": error.detail}, error.status_code, headers=error.headers)


async def _unavailable(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 503, headers={"retry-after": "1"})
