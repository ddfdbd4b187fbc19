"""The processes of the demo: `tidegate run` and `tidegate serve`.

Each has a session of its own, so that Ctrl-C reaches only the demo, which then stops them one by one. If the
demo is killed, they are killed too. Their output goes to a file.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from tidegate.config.config import PREFIX
from tidegate.errors import TidegateError
from tidegate.testing.broker.guard import GuardedProcess
from tidegate.text.render import printable

STOP_SECONDS = 30.0
LINES_SHOWN = 8


class Child:
    """A `tidegate` command that runs in the demo's folder."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.name = f"tidegate {arguments[0]}"
        self.file = folder / f"{arguments[0]}.txt"
        environ = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
        with self.file.open("wb") as output:
            self._process = GuardedProcess(
                [sys.executable, "-m", "tidegate", *arguments],
                stdout=output,
                stderr=output,
                env=environ,
                cwd=folder,
            )

    def __enter__(self) -> Child:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        return self._process.pid

    def lines(self) -> list[str]:
        """The complete lines that it has printed."""
        return self.file.read_text(errors="replace").split("\n")[:-1]

    def wait(self, seconds: float) -> None:
        """Wait until it has ended; raises `demo-failed` if it failed or takes longer."""
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise TidegateError(
                "demo-failed", f"{self.name} has not ended after {seconds:.0f} s", f"see {self.file}"
            ) from None
        if code:
            self.check()

    def check(self) -> None:
        """Raise `demo-failed` with its last lines if it has ended."""
        if not self._process.running:
            code = self._process.wait()
            last_lines = [printable(line) for line in self.lines() if line.strip()][-LINES_SHOWN:]
            raise TidegateError(
                "demo-failed",
                f"{self.name} ended with {code}: {' | '.join(last_lines) or 'it printed nothing'}",
                f"see {self.file}",
            )

    def stop(self) -> None:
        """Stop it with SIGTERM, and kill it if that takes too long. May be called again."""
        self._process.signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.signal(signal.SIGKILL)
            self._process.wait()
