"""Servers and workers that are started and killed often, forked from one process that has imported all code.

`python -m tests.server.model_processes`: a line of stdin `["start", folder, command, *arguments]` forks a
process and prints its id and its first line of output; `["kill", id]` kills it and prints its id once it is
gone. When stdin ends, all of them are killed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import traceback
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).parents[2]


class Processes:
    """The process that forks the others."""

    def __init__(self) -> None:
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
        pipe = subprocess.PIPE
        command = [sys.executable, "-m", "tests.server.model_processes"]
        self._process = subprocess.Popen(command, env=environ, stdin=pipe, stdout=pipe, text=True)
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def call(self, *given: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            self._process.stdin.write(json.dumps(given) + "\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())


class Process:
    """A process that is killed and started again."""

    def __init__(self, processes: Processes, *command: str, folder: Path, ready: str) -> None:
        self._processes = processes
        self._command = command
        self._folder = folder
        self._ready = ready
        self.start()

    def start(self) -> None:
        self._id, first_line = self._processes.call("start", str(self._folder), *self._command)
        assert self._ready in first_line

    def kill(self) -> None:
        assert self._processes.call("kill", self._id) == self._id


def main() -> None:
    running: dict[int, int] = {}
    for line in sys.stdin:
        match json.loads(line):
            case ["start", folder, *command]:
                process, output = _fork(folder, command)
                running[process] = output
                answer: Any = [process, _first_line(output)]
            case ["kill", process]:
                _kill(process, running.pop(process))
                answer = process
            case other:
                raise ValueError(other)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    for process, output in running.items():
        _kill(process, output)


def _fork(folder: str, command: list[str]) -> tuple[int, int]:
    """Return the id of a new process, and where its output can be read."""
    reading, writing = os.pipe()
    if process := os.fork():
        os.close(writing)
        return process, reading
    try:
        os.dup2(writing, sys.stdout.fileno())
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.chdir(folder)
        _run(command)
    except BaseException:  # noqa: BLE001 - a forked process must not go on with the loop
        traceback.print_exc()
    finally:
        os._exit(1)


def _run(command: list[str]) -> None:
    from tests.server import model_worker

    from tidegate.cli.main import app

    match command:
        case ["worker", url, folder]:
            model_worker.main(url, folder)
        case ["tidegate", *arguments]:
            app(arguments, standalone_mode=False)


def _first_line(output: int) -> str:
    found = b""
    while not found.endswith(b"\n") and (data := os.read(output, 1)):
        found += data
    return found.decode()


def _kill(process: int, output: int) -> None:
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    os.close(output)


if __name__ == "__main__":
    import tidegate.cli.main
    import tidegate.server.serve  # noqa: F401 - the forked processes find all of it imported

    main()
