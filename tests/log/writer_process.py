"""A writer that may be killed at any time, in a process of its own.

The journal says what this process knows: `open`, then `ack <number>` behind each commit that returned and
`fenced <number>` for the transaction that failed so. After SIGUSR1 it suspends itself right before its next
commit, which it journals as `asleep <number>`. It leaves with 0 when it is stopped, with FENCED when fenced;
anything else is a bug.
"""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path

from tests.log.workload import (
    FENCED,
    SPILL_BYTES,
    Transaction,
    appender,
    changelog_of,
    obey_parent,
    plan_of,
    row_of,
)

from tidegate.errors import FencedError, LogError
from tidegate.log.records import Row, to_batch
from tidegate.log.sqlite import upkeep
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.sqlite.writer import SqliteWriter


def write(orders: Connection, path: Path, writer_id: str, run: int, journal_path: Path) -> int:
    """Commit transactions until it is stopped, or fenced. Returns what the process leaves with."""
    upkeep.ROUND_SECONDS = 1.0  # so that several rounds fall into a test
    journal = appender(journal_path)
    stop, sleep = obey_parent(orders), threading.Event()
    signal.signal(signal.SIGUSR1, lambda *_: sleep.set())
    with closing(SqliteLog(path, spill_bytes=SPILL_BYTES)) as log, closing(log.writer(writer_id)) as writer:
        journal("open\n")
        for number in itertools.count():
            if stop.is_set():
                return 0
            plan = plan_of(f"{writer_id}.{run}.{number}")
            try:
                reported = _append(writer, plan)
                if plan.aborts:
                    writer.abort()
                    continue
                time.sleep(plan.pause)
                if sleep.is_set():
                    sleep.clear()
                    journal(f"asleep {number}\n")
                    os.kill(os.getpid(), signal.SIGSTOP)
                writer.commit()
            except FencedError:
                journal(f"fenced {number}\n")
                _insist(writer, writer_id, run, number)
                return FENCED
            journal(f"ack {number}\n")
            assert log.ends([changelog_of(writer_id)])[changelog_of(writer_id)] >= reported
    raise AssertionError("unreachable")


def _append(writer: SqliteWriter, plan: Transaction) -> int:
    """Append everything. Returns what flush returned: the next offset of its own changelog."""
    own, now = changelog_of(plan.id.split(".")[0]), time.time_ns() // 1_000_000
    base = writer.flush([own])[own]
    for target, count in plan.counts.items():
        for index in range(count):
            claim = base + index if target == own else None
            writer.append(target, to_batch([row_of(plan, target, index, claim, now)]))
    for target, key, value in plan.rows:
        writer.append(target, to_batch([Row(key, value, now, [("tx", plan.id.encode())])]))
    reported = writer.flush([own])[own]
    assert reported == base + plan.counts[own]
    return reported


def _insist(writer: SqliteWriter, writer_id: str, run: int, fenced: int) -> None:
    """A fenced writer that does not give up must be refused again and again."""
    for number in range(fenced + 1, fenced + 4):
        try:
            _append(writer, plan_of(f"{writer_id}.{run}.{number}"))
            writer.commit()
        except LogError as error:
            if error.code not in {"fenced", "writer-spent"}:
                raise
        else:
            raise AssertionError("a fenced writer committed")
