"""A slot's job that starts again in the same epoch, while the one before it still lives."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

from examples.stores.sqlite_table import SqliteTable
from tests.waiting import HANG_SECONDS, wait_for

from tidegate import App, Context, Record, Topic, stores
from tidegate.clock import SystemClock
from tidegate.connect.connection import Connection
from tidegate.errors import TidegateError
from tidegate.log.faultpoints import installed
from tidegate.log.protocol import Log
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.driver.prepare import attach, prepare
from tidegate.runtime.driver.takeover import Claim, request_stop, take_over
from tidegate.runtime.slot.job import SlotJob
from tidegate.runtime.topics.slot_order import SlotOrder

IN = Topic("in", int)


def shared(folder: Path) -> App:
    """Keeps the newest value of each key in a table that all hosts share."""
    made = stores.key_value("stock", int).backed_by(lambda: SqliteTable(folder / "stock.db"))
    stock = made.without_changelog()

    def keep(record: Record[str, int], ctx: Context[str, int]) -> None:
        ctx.store(stock).put(record.key, record.value)

    app = App("shared")
    app.stream(IN).process("keep", keep, stores=[stock])
    return app


def values(folder: Path) -> list[int]:
    """What the table holds now."""
    with closing(sqlite3.connect(folder / "stock.db")) as table:
        return [int.from_bytes(value) - 2**63 for (value,) in table.execute("SELECT value FROM stock")]


def ordered(claim: Claim, log: Log, folder: Path, attempt: int) -> SlotOrder:
    return SlotOrder(
        app="",
        app_id=claim.app,
        settings={},
        fingerprint="",
        log=log.location,
        folder=str(folder),
        state_dir=f"host-{attempt}",
        epoch=claim.epoch,
        slot=0,
        attempt=attempt,
        writer=claim.writer_id(0),
        commit_interval_ms=20,
    )


def test_a_zombie_of_the_same_epoch_and_offset_is_refused_by_a_shared_store(tmp_path: Path) -> None:
    """It has committed to the log, and goes on to the table when the next attempt has emptied that and stands
    at the same offset."""
    clock, errors = SystemClock(), dict[str, TidegateError]()
    reached, awake, restored = threading.Event(), threading.Event(), threading.Event()

    def sleep(point: str) -> None:
        name = threading.current_thread().name
        if (name, point) == ("1", "commit.6"):
            reached.set()
            awake.wait(HANG_SECONDS)
        elif (name, point) == ("2", "commit.1"):
            restored.set()

    with closing(SqliteLog(tmp_path / "log.db")) as log:
        connection = Connection(log, partitions=1, clock=clock, owned=False)
        connection.send(IN, "ada", 1)
        run = prepare(shared(tmp_path).build(), log, clock, partitions=1)

        def work(attempt: int) -> None:
            try:
                order = ordered(claim, log, tmp_path, attempt)
                list(SlotJob(order, attach(shared(tmp_path).build(), log, clock), log, clock).run())
            except TidegateError as error:
                errors[threading.current_thread().name] = error

        def start(attempt: int) -> threading.Thread:
            claim.begin_attempt(0, attempt, clock.now())
            thread = threading.Thread(target=work, args=(attempt,), name=f"{attempt}")
            thread.start()
            return thread

        with installed(sleep), closing(take_over(log, "shared", 1, clock)) as claim:
            run.plan(claim, {0: [task for _, task in run.tasks()]}, {0: ""})
            zombie = start(1)
            assert reached.wait(HANG_SECONDS)
            second = start(2)
            assert restored.wait(HANG_SECONDS)
            awake.set()
            zombie.join(HANG_SECONDS)
            assert values(tmp_path) == []
            connection.send(IN, "ada", 2)
            wait_for(lambda: values(tmp_path) == [2])
            request_stop(log, "shared", "test", clock.now())
            second.join(HANG_SECONDS)
    assert [(name, error.code) for name, error in errors.items()] == [("1", "users-store-failed")]
