"""A program in a process of its own that prints JSON lines on stdout and logs on stderr."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tidegate.errors import LogError
from tidegate.testing.broker.guard import GuardedProcess


class Program:
    """It runs from construction until it ends, `stop` or `kill`; it dies with this process.

    Its lines are kept in `<folder>/<name>.out`, its log in `<folder>/<name>.log`, both replaced by the next
    program of that name in the folder.
    """

    def __init__(
        self, name: str, command: Sequence[str], folder: Path, *, env: Mapping[str, str] | None = None
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.out_file = folder / f"{name}.out"
        self.log_file = folder / f"{name}.log"
        with self.out_file.open("wb") as out, self.log_file.open("wb") as log:
            self._process = GuardedProcess(command, stdout=out, stderr=log, env=env)
        self.pid = self._process.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.running

    def events(self) -> list[dict[str, Any]]:
        """The events printed so far; an incomplete line is left out."""
        lines = self.out_file.read_bytes().split(b"\n")[:-1]
        return [json.loads(line) for line in lines]

    def wait_for(self, wanted: Callable[[dict[str, Any]], bool], timeout: float = 180.0) -> dict[str, Any]:
        """The first event for which `wanted` is true; raises with the end of the log if it does not come."""
        end = time.monotonic() + timeout
        while True:
            running = self.running  # read first: an ended program has written all its lines
            for event in self.events():
                if wanted(event):
                    return event
            if not running or time.monotonic() > end:
                raise self.failed(
                    "ended early" if not running else f"printed no such event in {timeout:.0f} s"
                )
            time.sleep(0.05)

    def stop(self, timeout: float = 60.0) -> int:
        """SIGTERM, and its exit code; killed if it does not end in time."""
        self._process.signal(signal.SIGTERM)
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return self.kill()

    def kill(self) -> int:
        """SIGKILL, and its exit code."""
        self._process.signal(signal.SIGKILL)
        return self._process.wait()

    def failed(self, what: str) -> LogError:
        """An error that carries the end of the program's log."""
        tail = "\n".join(self.log_file.read_text(errors="replace").splitlines()[-20:])
        hint = f"read {self.log_file}"
        return LogError("program-failed", f"{self.name} {what}:\n{tail}", hint, retryable=True)
