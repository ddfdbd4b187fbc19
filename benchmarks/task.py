"""`python -m benchmarks.task`: the stream task on one core, with no Spark, in one run.

per record   JSON decode, get, put, forward, changelog: at most 2.5 times the same work as a bare loop on LMDB
whole batch  a count: at least 5 times the per-record path
chains       1, 5 and 20 stateless steps
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lmdb
import msgspec

from benchmarks.report import Report, median, run
from tidegate import App, TableTopic, Topic
from tidegate.clock import SystemClock
from tidegate.log.partitioner import partition_for
from tidegate.log.records import columns_to_batch
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.topic import TopicSpec
from tidegate.runtime.driver.prepare import prepare
from tidegate.types import TopicPartition


class Order(msgspec.Struct, frozen=True):
    id: int
    cents: int
    note: str = ""


ORDERS = Topic("orders", Order, partitions=1)
TOTALS = TableTopic("totals", int, partitions=1)
COPIES = Topic("copies", Order, partitions=1)
BATCH, KEYS = 10_000, 10_000
COMMIT_SECONDS = 0.1
SOURCE = TopicPartition("orders", 0)


def fill(log: SqliteLog, count: int) -> tuple[list[bytes], list[bytes]]:
    """Orders of about 60 bytes for ten thousand customers."""
    log.create(TopicSpec("orders", 1, {"cleanup.policy": "delete"}))
    keys = [b"customer-%d" % (n * 7919 % KEYS) for n in range(count)]
    values = [msgspec.json.encode(Order(n, n % 1000, "a note of some length")) for n in range(count)]
    writer = log.writer("filler")
    for at in range(0, count, BATCH):
        part = slice(at, at + BATCH)
        times = [1_700_000_000_000] * len(keys[part])
        writer.append(TopicPartition("orders", 0), columns_to_batch(times, keys[part], values[part]))
        writer.commit()
    writer.close()
    return keys, values


def run_task(
    log: SqliteLog,
    folder: Path,
    declare: Callable[[App], None],
    name: str,
    *,
    batches: bool,
    commit_every: int | None = None,
) -> float:
    """Seconds from the first record to the last commit, committing every 100 ms as a slot does, or after so
    many records."""
    app = App(name)
    declare(app)
    ready = prepare(app.build(), log, SystemClock(), batches=batches)
    [slot] = ready.slots(folder / name, 1)
    while not slot.tasks:
        slot.step()
    end = int(log.ends([SOURCE])[SOURCE])
    begun = time.perf_counter()
    due, done = begun + COMMIT_SECONDS, 0
    while (at := slot.tasks[0].read_from()[SOURCE]) < end:
        if time.perf_counter() >= due if commit_every is None else at - done >= commit_every:
            slot.commit()
            due, done = time.perf_counter() + COMMIT_SECONDS, at
        slot.step()
    slot.close()
    return time.perf_counter() - begun


def bare(keys: list[bytes], values: list[bytes], log: SqliteLog, folder: Path, name: str) -> float:
    """The same work by hand: decode, get, add, put, an output with its header and a changelog record,
    committed to the log every ten thousand records."""
    for topic in ("totals", "changelog"):
        log.create(TopicSpec(f"{name}-{topic}", 1, {"cleanup.policy": "compact"}))
    env = lmdb.open(str(folder / f"{name}-bare"), map_size=1 << 30)
    decoder, owner = msgspec.json.Decoder(Order), (("owner", b"app/totals"),)
    writer = log.writer(name)
    begun = time.perf_counter()
    txn = env.begin(write=True)
    for at in range(0, len(keys), BATCH):
        out: list[tuple[bytes, bytes, Any]] = []
        changed: dict[bytes, bytes] = {}
        for key, value in zip(keys[at : at + BATCH], values[at : at + BATCH], strict=True):
            order = decoder.decode(value)
            found = changed.get(key) or txn.get(key)
            total = (int.from_bytes(found, "big") if found else 0) + order.cents
            changed[key] = total.to_bytes(8, "big")
            partition_for(key, 1)
            out.append((key, changed[key], owner))
        times = [1_700_000_000_000] * len(out)
        batch = columns_to_batch(times, [o[0] for o in out], [o[1] for o in out], [o[2] for o in out])
        writer.append(TopicPartition(f"{name}-totals", 0), batch)
        log_batch = columns_to_batch(times[: len(changed)], list(changed), list(changed.values()))
        writer.append(TopicPartition(f"{name}-changelog", 0), log_batch)
        writer.commit()
        txn.cursor().putmulti(list(changed.items()))
    txn.commit()
    writer.close()
    env.close()
    return time.perf_counter() - begun


def count(app: App) -> None:
    app.stream(ORDERS).count("counts").to(TOTALS)


def total(app: App) -> None:
    app.stream(ORDERS).sum("sums", _cents).to(TOTALS)


def _cents(order: Order) -> int:
    return order.cents


def _unchanged(order: Order) -> Order:
    return order


def chain_of(length: int) -> Callable[[App], None]:
    def declare(app: App) -> None:
        stream = app.stream(ORDERS)
        for _ in range(length):
            stream = stream.map(_unchanged)
        stream.to(COPIES)

    return declare


@contextmanager
def fresh(count: int) -> Iterator[tuple[SqliteLog, Path, list[bytes], list[bytes]]]:
    """A log of its own for each run: the upkeep of one does not weigh on the next."""
    with tempfile.TemporaryDirectory(prefix=".benchmark-", dir=Path.cwd()) as name:
        log = SqliteLog(Path(name) / "log.db")
        keys, values = fill(log, count)
        yield log, Path(name), keys, values
        log.close()


def timed(count: int, declare: Callable[[App], None], *, batches: bool, every: int | None = None) -> float:
    with fresh(count) as (log, folder, _, _):
        return run_task(log, folder, declare, "app", batches=batches, commit_every=every)


def timed_bare(count: int) -> float:
    with fresh(count) as (log, folder, keys, values):
        return bare(keys, values, log, folder, "bare")


def measure(report: Report, quick: bool) -> None:
    records, turns = (50_000, 3) if quick else (300_000, 5)
    costs, gains, singles, wholes = [], [], [], []
    for turn in range(turns):
        report.progress(f"per record, bare and whole batch, turn {turn + 1} of {turns}")
        by_hand = timed_bare(records)
        single = timed(records, total, batches=False, every=BATCH)
        counted = timed(records, count, batches=False)
        whole = timed(records, count, batches=True)
        costs.append(single / by_hand)
        gains.append(counted / whole)
        singles.append(records / single)
        wholes.append(records / whole)
    report.measured("per-record path", median(singles), "records/s")
    report.at_most("per-record path, times a bare loop", costs, "x", 2.5)
    report.measured("whole-batch count", median(wholes), "records/s")
    report.at_least("whole-batch count, times per record", gains, "x", 5)
    for length in (1, 5, 20):
        report.progress(f"a chain of {length} steps")
        for batches, how in ((False, "record by record"), (True, "whole batches")):
            seconds = timed(records, chain_of(length), batches=batches)
            report.measured(f"chain of {length}, {how}", records / seconds, "records/s")


if __name__ == "__main__":
    run("task", measure)
