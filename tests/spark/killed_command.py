"""Commands of tidegate that are killed at a fault point. Their Spark is not: it notices a little later."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.spark.cluster import of_session, send_to_session
from tests.spark.command import Command
from tests.waiting import HANG_SECONDS, wait_for

from tidegate.config.config import Config

Point = tuple[str, int]
"""A fault point, and how often it is reached until something happens; or `seconds`, and how many to wait."""
KILLED = """
import json, os, signal, sys, threading

from tidegate.log.faultpoints import installed

left = json.loads(sys.argv[1])


def kill(point):
    if left and point == left[0][0]:
        left[0][1] -= 1
        if not left[0][1]:
            left.pop(0)
            if not left:
                die()
            elif left[0][0] == "seconds":
                threading.Timer(left[0][1], die).start()


def die():
    os.kill(os.getpid(), signal.SIGKILL)


sys.argv = ["tidegate", *sys.argv[2:]]
with installed(kill):
"""
COMMAND = """
    from tidegate.cli.main import main

    main()
"""
REPAIR = """
    from tidegate.clock import SystemClock
    from tidegate.config.config import load_config
    from tidegate.log.location import LogLocation
    from tidegate.log.open import open_log
    from tidegate.upgrade.publication import complete

    complete(open_log(LogLocation.of(load_config())), sys.argv[1], SystemClock())
"""
"""What each start of an app does first."""


@contextmanager
def command(config: Config, *words: str) -> Iterator[Command]:
    """A command of tidegate. Nothing of it is left afterwards, nor of its Spark."""
    with _ended(Command(config, *words, program=(sys.executable, "-m", "tidegate"))) as found:
        yield found


def kill_at(config: Config, points: list[Point], *words: str, program: str = COMMAND) -> Command:
    """Run a command until it has reached these points, one after the other, and is killed there. Returns it
    once it is dead."""
    arguments = (sys.executable, "-c", KILLED + program, json.dumps(points))
    found = Command(config, *words, program=arguments)
    try:
        code = found.process.wait(HANG_SECONDS)
        assert code == -signal.SIGKILL, code
    except BaseException:  # else its Spark would go on beside the tests that follow
        end(found)
        raise
    return found


@contextmanager
def _ended(found: Command) -> Iterator[Command]:
    try:
        yield found
    finally:
        end(found)


def end(found: Command) -> None:
    """Kill what a command has left, and wait until it has ended."""
    leader = found.process.pid
    send_to_session(leader, signal.SIGCONT)
    send_to_session(leader, signal.SIGKILL)
    found.process.wait(HANG_SECONDS)
    wait_for(lambda: not of_session(leader))
    found.close()
