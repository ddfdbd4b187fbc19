"""An upgrade to slow code in a process of its own: `python -m tests.dashboard.upgrading FOLDER`."""

from __future__ import annotations

import sys
import time
from contextlib import closing
from pathlib import Path

from tidegate import App, TableTopic, Topic
from tidegate.clock import SystemClock
from tidegate.log.sqlite.log import SqliteLog
from tidegate.upgrade.runners import InProcess
from tidegate.upgrade.upgrades import UpgradeResources, upgrade

ORDERS, TOTALS = Topic("orders", int), TableTopic("totals", int)
SECONDS_EACH = 0.0008


def later(cents: int) -> int:
    time.sleep(SECONDS_EACH)
    return cents + 1


def shop(*, new: bool = False) -> App:
    app = App("shop")
    orders = app.stream(ORDERS)
    (orders.map(later) if new else orders).sum("sums", int).to(TOTALS)
    return app


def main(folder: str) -> None:
    runner = InProcess(Path(folder) / "candidate", commit_seconds=0.5)
    topology, state = shop(new=True).build(), Path(folder) / "state"
    with closing(SqliteLog(Path(folder) / "log.db")) as log:
        # Record by record, so that a slow function does not take a whole batch before it commits.
        done = upgrade(UpgradeResources(topology, log, SystemClock(), lambda _: runner, state, batches=False))
    assert done is not None
    assert done.state == "done"


if __name__ == "__main__":
    main(*sys.argv[1:])
