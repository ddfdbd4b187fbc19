"""Preview version 2 of an app, and kill the process at a fault point: python -m ... FOLDER POINT"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import closing
from pathlib import Path

from tests.upgrade.versions import PARTITIONS, grouped

from tidegate.clock import SystemClock
from tidegate.log.faultpoints import installed
from tidegate.log.sqlite.log import SqliteLog
from tidegate.testing.previews import preview_here


def main(folder: Path, point: str) -> None:
    def kill(reached: str) -> None:
        if reached == point:
            os.kill(os.getpid(), signal.SIGKILL)

    with closing(SqliteLog(folder / "log.db")) as log, installed(kill):
        preview_here(grouped(2), log, SystemClock(), folder / "state", PARTITIONS, "stop")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
