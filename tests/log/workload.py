"""What the writer and reader processes of `test_many_processes` share.

A transaction follows from its id alone: where it writes, how much, which bytes, and whether it is aborted.
So the parent knows what must be in the log without asking anybody.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from tidegate.log.records import Row
from tidegate.log.topic import TopicSpec
from tidegate.types import TopicPartition

SPILL_BYTES = 64 * 1024
FENCED = 3
WRITERS = ["w0", "w1", "w2", "w3"]
COMPACT = {"cleanup.policy": "compact", "max.compaction.lag.ms": "500"}
TOPICS = [
    TopicSpec("orders", 3),
    TopicSpec("audit", 2),
    TopicSpec("changelog", len(WRITERS)),
    TopicSpec("table", 2, COMPACT),
]
EVERYWHERE = [TopicPartition(spec.name, number) for spec in TOPICS for number in range(spec.partitions)]
SHARED = [one for one in EVERYWHERE if one.topic in {"orders", "audit"}]


def changelog_of(writer_id: str) -> TopicPartition:
    """The partition that only this writer appends to."""
    return TopicPartition("changelog", WRITERS.index(writer_id))


@dataclass(frozen=True, slots=True)
class Transaction:
    """What one transaction does, in the order of its appends."""

    id: str
    counts: dict[TopicPartition, int]
    size: int
    rows: list[tuple[TopicPartition, bytes, bytes | None]]
    aborts: bool
    pause: float

    @property
    def is_big(self) -> bool:
        return self.size > 1000


def plan_of(transaction_id: str) -> Transaction:
    """The transaction of this id; ids are `<writer>.<run>.<number>`."""
    dice = random.Random(transaction_id)
    writer_id = transaction_id.split(".", maxsplit=1)[0]
    big = dice.random() < 0.08
    targets = [*dice.sample(SHARED, dice.randint(2, 4)), changelog_of(writer_id)]
    counts = {target: dice.randint(8, 16) if big else dice.randint(1, 3) for target in targets}
    rows: list[tuple[TopicPartition, bytes, bytes | None]] = []
    for _ in range(dice.randint(1, 2)):
        slot = dice.randrange(20)
        value = None if dice.random() < 0.3 else transaction_id.encode()
        rows.append((TopicPartition("table", slot % 2), f"{writer_id}:{slot}".encode(), value))
    pause = dice.random() * 0.02 if dice.random() < 0.2 else 0.0
    return Transaction(transaction_id, counts, 8000 if big else 20, rows, dice.random() < 0.1, pause)


def row_of(plan: Transaction, target: TopicPartition, index: int, claim: int | None, now: int) -> Row:
    """Record `index` of a transaction in a partition. In a changelog it claims the offset of the flush."""
    mark = f"{plan.id} {index} {'-' if claim is None else claim}"
    padding = random.Random(f"{mark} {target}").randbytes(plan.size)
    return Row(plan.id.encode(), mark.encode() + b"\n" + padding, now)


def sort_key(transaction_id: str) -> tuple[int, int]:
    """Transactions of one writer in the order in which they were made."""
    _, run, number = transaction_id.split(".")
    return int(run), int(number)


def appender(path: Path) -> Callable[[str], None]:
    """Writes text at the end of a file at once: what was written survives a SIGKILL."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    return lambda text: _write_all(handle, text.encode())


def _write_all(handle: int, data: bytes) -> None:
    while data:
        data = data[os.write(handle, data) :]


def obey_parent(orders: Connection) -> threading.Event:
    """Set when the parent sends anything; this process dies at once when the parent does."""
    stop = threading.Event()

    def listen() -> None:
        with suppress(EOFError):
            orders.recv()
            stop.set()
            orders.recv()
        os._exit(1)

    threading.Thread(target=listen, daemon=True).start()
    return stop
