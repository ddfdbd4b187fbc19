"""A child process that is killed when this process ends.

Linux can signal a child when its parent dies, but it means the parent *thread*, and setting it between fork
and exec is unsafe beside threads. So a small guard process holds a pipe to this one: when this process
ends for any reason, the pipe closes, and the guard kills the child. It holds the child by a pidfd, so a
reused pid is never hit; it ends by itself when the child has ended.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

_WATCH = """
import os, select, signal, sys
held = os.pidfd_open(int(sys.argv[1]))
print(flush=True)
ready, _, _ = select.select([held, 0], [], [])
if held not in ready:
    signal.pidfd_send_signal(held, signal.SIGKILL)
"""


class GuardedProcess:
    """A command in a session of its own (no Ctrl-C reaches it), killed when this process ends.

    `wait` closes the guard too; both are safe to call again.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        stdout: IO[bytes] | int,
        stderr: IO[bytes] | int,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        with _signals_wait():
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                command,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                env=env,
                cwd=cwd,
                start_new_session=True,
            )
            self.pid = self._process.pid
            self._guard = _guard_of(self._process)

    @property
    def running(self) -> bool:
        """Whether it has not ended yet; a frozen process runs."""
        return self._process.poll() is None

    def signal(self, number: int) -> None:
        """Send a signal; nothing happens if it has ended."""
        self._process.send_signal(number)

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, once it has ended. Raises `subprocess.TimeoutExpired`."""
        code = self._process.wait(timeout)
        if self._guard.stdin and self._guard.stdout:
            self._guard.stdin.close()
            self._guard.stdout.close()
        self._guard.wait()
        return code


@contextmanager
def _signals_wait() -> Iterator[None]:
    """Delay signals that end this process until the child has its guard: a handler that raised during Popen,
    or right after it, would leave an orphan."""
    if threading.current_thread() is not threading.main_thread():
        yield  # handlers run in the main thread alone
        return
    received: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _frame: received.append(number))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) not in (signal.SIG_IGN, None)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for one in received:
            signal.raise_signal(one)


def _guard_of(process: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
    """Start the guard and wait until it holds the process: from here on nothing is orphaned."""
    command = [sys.executable, "-I", "-S", "-c", _WATCH, str(process.pid)]
    guard = subprocess.Popen(  # noqa: S603 - our own command
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    if guard.stdout:
        guard.stdout.readline()
    return guard
