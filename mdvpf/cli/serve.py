"""`mdvpf serve`: many streams behind HTTP, with a page to watch them."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from mdvpf.cli import shared
from mdvpf.streams.service.config import ServiceConfig
from mdvpf.streams.service.engine import Engine


def serve(
    config: Annotated[
        Path,
        typer.Argument(
            metavar="CONFIG", exists=True, dir_okay=False, help="The configuration, in TOML."
        ),
    ],
    host: Annotated[
        str | None, typer.Option(help="The address to listen on. \\[default: 127.0.0.1]")
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="The port; 0 takes a free one. \\[default: 8765]")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(file_okay=False, help="Where the log and the checkpoints are.")
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, help="The file with the token that clients must send."
        ),
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Only check the configuration.")] = False,
) -> int:
    r"""Serve streams over HTTP: events in, predictions, incidents, metrics and a page out.

    A batch of events is acknowledged when it is on the disk. A sender repeats a batch until it is
    acknowledged: events with ids count once, even after a crash. On SIGTERM all streams are saved
    and the exit code is 0.

    For example, with this in service.toml:

    folder = "state"

    \[streams.clicks]
    symbols = 17
    method = "MD-VPA"
    key = "user"
    id = "id"

    mdvpf serve service.toml

    curl -H 'Content-Type: application/x-ndjson' --data-binary @clicks.jsonl
    http://127.0.0.1:8765/v1/streams/clicks/events
    """
    with shared.usage():
        try:
            text = config.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{config}: expected text in UTF-8 ({error.reason})") from error
        try:
            found = ServiceConfig.from_toml(
                text,
                config.parent,
                host=host,
                port=port,
                folder=None if folder is None else folder.absolute(),
                token_file=None if token_file is None else token_file.absolute(),
            )
            for stream in found.streams.values():
                stream.new_monitor()
        except (OSError, TypeError, ValueError) as error:
            raise ValueError(f"{config}: {error}") from error
    from mdvpf.streams.service import server

    if check:
        print(f"{config}: {_count(found)}, nothing wrong")
        return shared.DONE
    engine = Engine(found, shared.complain).start()
    try:
        listening = server.listening_socket(found.host, found.port)
        address, number = listening.getsockname()[:2]
        shown = f"[{address}]" if ":" in address else address

        def ready(stop: Callable[[], None]) -> None:
            where = f"http://{shown}:{number}/"
            print(f"mdvpf: serving {_count(found)} on {where}", flush=True)

        server.tune_process()
        with listening:
            ended_by = server.serve(engine, listening, ready)
    finally:
        engine.stop()
    if engine.error is not None:
        raise OSError(engine.error)
    return shared.INTERRUPTED if ended_by == signal.SIGINT else shared.DONE


def _count(config: ServiceConfig) -> str:
    n = len(config.streams)
    return "1 stream" if n == 1 else f"{n} streams"
