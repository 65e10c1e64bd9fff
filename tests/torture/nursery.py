"""A process that gives birth to others which run the command, without the time that imports take.

It reads requests, one JSON object a line, and answers each with one line. `start` forks: the child
opens its three streams by path, as a shell would, and runs the command line. `wait` waits for it.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LONGEST_LIFE = 60.0  # seconds
HUNG = 98  # exit code of a life that took longer


class Nursery:
    """The other end: starts lives of the command and waits for their ends."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.torture.nursery"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def _ask(self, **request: Any) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def start(
        self,
        arguments: list[str],
        stdin: Path | str = os.devnull,
        stdout: Path | str = os.devnull,
        stderr: Path | str = os.devnull,
        largest_file: int | None = None,
    ) -> int:
        """Start a life; return the number of its process."""
        return self._ask(
            do="start",
            arguments=arguments,
            streams=[str(stdin), str(stdout), str(stderr)],
            largest_file=largest_file,
        )

    def wait(self, process: int) -> int:
        """Wait for the end of a life; return its exit code, or minus the signal that ended it."""
        return self._ask(do="wait", process=process)

    def close(self) -> None:
        """End the nursery."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()


def _live(request: dict[str, Any]) -> None:
    """Be a life: never returns."""
    code = 99
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        modes = (os.O_RDONLY, os.O_WRONLY | os.O_APPEND, os.O_WRONLY | os.O_APPEND)
        for target, (path, mode) in enumerate(zip(request["streams"], modes, strict=True)):
            descriptor = os.open(path, mode | (os.O_CREAT if target else 0), 0o600)
            os.dup2(descriptor, target)
            os.close(descriptor)
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
        if request["largest_file"] is not None:
            _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (request["largest_file"], hard))
        from mdvpf.cli import main

        code = main(request["arguments"])
    finally:
        os._exit(code)


def _serve() -> None:
    import mdvpf.cli.app  # what all lives need

    with suppress(ImportError):  # and what those of the service need
        import mdvpf.streams.service.server  # noqa: F401
    # A child forgets signals that Python has noted and not yet handled: one that comes at once
    # must end it, and not be lost.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    for line in sys.stdin:
        request = json.loads(line)
        if request["do"] == "start":
            process = os.fork()
            if process == 0:
                _live(request)
            print(process, flush=True)
        else:
            print(_wait(request["process"]), flush=True)


def _wait(process: int) -> int:
    """Wait for the end of a life; one that hangs is killed, which its test will notice."""
    deadline = time.monotonic() + LONGEST_LIFE
    while True:
        found, status = os.waitpid(process, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            return HUNG
        time.sleep(0.001)


if __name__ == "__main__":
    _serve()
