"""A command of tidegate as a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import IO

from tests.waiting import HANG_SECONDS, wait_for

from tidegate.config.config import Config

TIDEGATE = (sys.executable, "-m", "tidegate")


class Command:
    """`tidegate run`, or another program; its words on stderr are kept, and shown if the test fails."""

    def __init__(self, config: Config, *arguments: str, program: Sequence[str] = (*TIDEGATE, "run")) -> None:
        self.process = subprocess.Popen(
            [*program, *arguments],
            cwd=config.folder,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env={name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_")},
        )
        assert self.process.stderr is not None
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, args=(self.process.stderr,), daemon=True)
        self._reader.start()

    def wait_until(self, text: str) -> None:
        wait_for(lambda: any(text in line for line in self.lines), every=0.4)

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.process.wait(HANG_SECONDS)

    def kill(self) -> None:
        """The whole driver at once: Python and Java."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(HANG_SECONDS)

    def close(self) -> None:
        if self.process.poll() is None:
            self.kill()
        self._reader.join()

    def _read(self, stream: IO[bytes]) -> None:
        with stream:
            for line in stream:
                self.lines.append(line.decode(errors="replace"))
                sys.stderr.write(self.lines[-1])
