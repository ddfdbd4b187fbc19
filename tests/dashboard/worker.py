"""An app with two slots, until it is killed: `python -m tests.dashboard.worker FOLDER`."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

from tests.runtime.fleet import Fleet

from tidegate.log.sqlite.log import SqliteLog


def main(folder: str) -> None:
    with closing(SqliteLog(Path(folder) / "log.db")) as log:
        driver, _ = Fleet(log, Path(folder) / "first").driver(slots=2)
        driver.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
