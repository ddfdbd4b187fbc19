"""Runs sinks again and again, each in a process of its own that is killed when it reaches a point.

`python -m tests.sinks.killed_sink` in the folder of a tidegate.toml: after a line `sink.3 2` of stdin, a sink
(`tidegate sink --until-caught-up`) is killed when it reaches that point for the second time, and its exit
code is printed. The processes are forked, so that only the first one pays for the imports.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections import Counter

import tests.sinks.app  # noqa: F401 - imported here for all forked processes

import tidegate.sinks.running  # noqa: F401
from tidegate.cli.main import app
from tidegate.log.faultpoints import installed


def run(deadly: str, arrival: int) -> int:
    """Run a sink that is killed there, or return its exit code."""
    reached: Counter[str] = Counter()

    def kill(point: str) -> None:
        reached[point] += 1
        if point == deadly and reached[point] == arrival:
            os.kill(os.getpid(), signal.SIGKILL)

    with installed(kill):
        return int(app(["sink", "--until-caught-up"], standalone_mode=False) or 0)


def main() -> None:
    for line in sys.stdin:
        point, arrival = line.split()
        child = os.fork()
        if not child:
            sys.stdout = sys.stderr  # the answers are for the parent alone
            try:
                code = run(point, int(arrival))
            except BaseException:  # noqa: BLE001 - the forked process must not go on with the loop
                traceback.print_exc()
                code = 1
            os._exit(code)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
