"""Real processes for tests: started cheaply, killed for sure.

They are forked from a process that has imported everything once, so one costs milliseconds. Whatever
happens to the test, its children end: it kills them by pid, and they die with their parent.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

from tests.waiting import HANG_SECONDS

_PR_SET_PDEATHSIG = 1

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(
    ["pandas", "tests.state.lives", "tests.state.sigkill_life", "tests.kafka.bench"]  # pyarrow uses pandas
)


class Child:
    """A process and the pipe to it."""

    def __init__(self, life: Callable[..., None], *args: Any) -> None:
        self._pipe, theirs = _processes.Pipe()
        self._process = _processes.Process(target=_live, args=(theirs, life, args), daemon=True)
        self._process.start()
        theirs.close()

    def receive(self) -> Any:
        """The next message of the child."""
        assert self._pipe.poll(HANG_SECONDS), "the child sends nothing"
        message = self._pipe.recv()
        assert not isinstance(message, BaseException), repr(message)
        return message

    def received(self) -> list[Any]:
        """All messages that were not received yet; for a child that is dead."""
        message = []
        try:
            while self._pipe.poll():
                message.append(self._pipe.recv())
        except EOFError:
            pass
        return message

    def send(self, what: Any = "go on") -> None:
        self._pipe.send(what)

    def stop(self) -> None:
        """SIGSTOP, and wait until it stands."""
        self._signal(signal.SIGSTOP)
        self.wait_until_stopped()

    def wait_until_stopped(self) -> None:
        deadline = time.monotonic() + HANG_SECONDS
        while (state := self._state()) != "T":
            assert state != "Z", f"the child is dead, and sent {self.received()[-1:]}"
            assert time.monotonic() < deadline, (
                f"the child is in state {state}, and sent {self.received()[-1:]}"
            )
            time.sleep(0.001)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self._process.kill()
        self._process.join()

    def killed(self) -> bool:
        """Wait for its end; whether that was a SIGKILL."""
        self._process.join(HANG_SECONDS)
        return self._process.exitcode == -signal.SIGKILL

    def end(self) -> None:
        """Gone for sure. Twice is fine."""
        if not self._pipe.closed:
            self.kill()
            self._process.close()
            self._pipe.close()

    def _signal(self, number: signal.Signals) -> None:
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    def _state(self) -> str:
        with open(f"/proc/{self._process.pid}/stat", encoding="ascii") as file:  # noqa: PTH123 - no real file
            return file.read().rpartition(")")[2].split()[0]


@contextmanager
def child(life: Callable[..., None], *args: Any) -> Iterator[Child]:
    """A process that runs `life(pipe, *args)`; it is gone at the end of the block."""
    running = Child(life, *args)
    try:
        yield running
    finally:
        running.end()


def _live(pipe: Connection, life: Callable[..., None], args: tuple[Any, ...]) -> None:
    _die_with_parent()
    try:
        life(pipe, *args)
    except BaseException as error:  # noqa: BLE001 - the test hears of it
        pipe.send(RuntimeError(repr(error)))
        sys.exit(1)


def _die_with_parent() -> None:
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
