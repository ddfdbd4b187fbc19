"""The time limit of a test: what happens when it is reached. pytest-timeout decides when that is.

1 the stacks of all threads are printed; 2 the processes that the test started are killed, those too that
were left by their parents; 3 the test fails, its teardown runs, and the suite goes on.

The exception is no `Exception`, and not the one of `pytest.fail`: Hypothesis takes both for a result and runs
the example again, which hangs again and with no limit. A fixture gets that of `pytest.fail`: pytest tears
down the others after no other one. A call into C that never returns can be interrupted by nobody: after two
more minutes the stacks are printed and the whole run ends.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
import traceback
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from _pytest._io import TerminalWriter
from pytest_timeout import is_debugging

SLOW_SECONDS = 600.0
SOAK_SECONDS = 3600.0
AGAIN_SECONDS = 60.0
"""Until it strikes once more, where the test caught the exception and goes on."""
RUN = "TIDEGATE_TEST_RUN"
"""What this run starts carries its number in the environment."""

PROCESSES = Path("/proc")


class TimeLimitReached(BaseException):
    """Fails a test that takes too long."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Slow tests get more time, and all of them in a soak. Whoever gives a limit by hand gets that."""
    os.environ[RUN] = str(os.getpid())
    if config.getoption("timeout") is not None or os.environ.get("PYTEST_TIMEOUT"):
        return
    soak = bool(os.environ.get("TIDEGATE_SOAK"))
    for item in items:
        more = soak or item.get_closest_marker("slow") is not None
        if more and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SOAK_SECONDS if soak else SLOW_SECONDS))


def pytest_timeout_set_timer(item: Any, settings: Any) -> bool | None:
    """In place of pytest-timeout's own timer."""
    if settings.method != "signal" or threading.current_thread() is not threading.main_thread():
        return None
    item.limit_seconds = settings.timeout
    _arm(item)
    item.cancel_timeout = _disarm
    return True


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: Any) -> Generator[None, Any, Any]:
    """A teardown has a limit of its own: pytest-timeout ends its timer when a test has failed."""
    with _limited(item):
        return (yield)


@contextmanager
def _limited(item: Any) -> Iterator[None]:
    if hasattr(item, "limit_seconds"):
        _arm(item)
    try:
        yield
    finally:
        _disarm()


def _arm(item: Any) -> None:
    def strike(signum: int, frame: object) -> None:
        __tracebackhide__ = True
        if is_debugging():
            return
        _await_c_code(item, AGAIN_SECONDS)
        _print_stacks(item)
        reported = f"{item.nodeid} took longer than {item.limit_seconds:g} s"
        if not os.environ.get("PYTEST_CURRENT_TEST", "").endswith("(call)"):
            pytest.fail(reported)
        _kill_processes()
        raise TimeLimitReached(reported)

    _await_c_code(item, item.limit_seconds)
    signal.signal(signal.SIGALRM, strike)
    signal.setitimer(signal.ITIMER_REAL, item.limit_seconds, AGAIN_SECONDS)


def _disarm() -> None:
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    faulthandler.cancel_dump_traceback_later()


def _await_c_code(item: Any, seconds: float) -> None:
    """Only a signal that is never handled lets this come true."""
    stderr = item.config.stash.get(_stderr_key(), 2)
    faulthandler.dump_traceback_later(seconds + 2 * AGAIN_SECONDS, file=stderr, exit=True)


def _stderr_key() -> Any:
    from _pytest.faulthandler import fault_handler_stderr_fd_key

    return fault_handler_stderr_fd_key


def _print_stacks(item: Any) -> None:
    """To the terminal, at once, past whatever captures what tests print."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    terminal = _terminal(item)
    terminal.line()
    terminal.sep("+", title=f"time limit of {item.nodeid}")
    for number, frame in sys._current_frames().items():
        terminal.sep("~", title=f"stack of {names.get(number, 'an unnamed thread')} ({number})")
        terminal.write("".join(traceback.format_stack(frame)))
    terminal.sep("+")
    terminal.flush()


def _terminal(item: Any) -> Any:
    """A worker of a run has no terminal of its own; what it writes to stderr is shown by the run."""
    if not hasattr(item.config, "workerinput"):
        return item.config.get_terminal_writer()
    stderr = item.config.stash.get(_stderr_key(), 2)
    return TerminalWriter(os.fdopen(os.dup(stderr), "w"))


def _kill_processes() -> None:
    """What this run started since the test was called. What a fixture started is the fixture's."""
    mine = {
        f"{RUN}={os.environ.get(RUN, '')}".encode(),
        f"PYTEST_CURRENT_TEST={os.environ['PYTEST_CURRENT_TEST']}".encode(),
    }
    for folder in PROCESSES.glob("[0-9]*"):
        with suppress(OSError):
            environment = set((folder / "environ").read_bytes().split(b"\0"))
            if mine <= environment and int(folder.name) != os.getpid():
                os.kill(int(folder.name), signal.SIGKILL)
