"""A small topology for tests that kill it: it counts in stores of every kind, and sends each count.

What it must have done after n records of a partition is known without running it: `Expected`.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from examples.stores.json_folder import JsonFolder
from tests.state.bench import Bench, Task

from tidegate import Json, stores
from tidegate.log.reads import fold, read_between
from tidegate.log.records import ReadRow, Row, rows_of, to_batch
from tidegate.log.topic import TopicSpec
from tidegate.state.key_value import Stamped
from tidegate.types import TopicPartition

TOTALS = stores.key_value("totals", int)
LATEST = stores.timestamped("latest", int)
RECENT = stores.window("recent", int, size=10, retention=50)
CACHED = stores.in_memory("cached", int)
NOTES = stores.key_value("notes", Json[int]()).backed_by(JsonFolder)
STORES = (TOTALS, LATEST, RECENT, CACHED, NOTES)
PARTITIONS = (0, 1)
GHOST = "ghost"
"""Only ever written by transactions that are aborted."""


def create(bench: Bench) -> None:
    """What a driver does before the first slot starts: the topics, and first positions for the tasks."""
    bench.create(*STORES)
    bench.log.create(TopicSpec("in", len(PARTITIONS)))
    slot = bench.slot()
    for partition in PARTITIONS:
        slot.open(*STORES, partition=partition, host="nowhere")
    slot.drop()


def send(bench: Bench, count: int, rng: random.Random) -> None:
    """More input for each partition: (key, amount), where an amount of 0 deletes the key's total."""
    for partition in PARTITIONS:
        source = TopicPartition("in", partition)
        first = bench.log.ends([source])[source]
        times = range(first, first + count)
        rows = [Row(b"key-%d" % rng.randrange(12), b"%d" % rng.randrange(4), time) for time in times]
        bench.log.append(source, to_batch(rows))


def read_input(bench: Bench, partition: int, start: int, end: int) -> list[ReadRow]:
    batches = read_between(bench.log, TopicPartition("in", partition), start, end)
    return [row for batch in batches for row in rows_of(batch)]


@dataclass
class Expected:
    """What the stores and the output hold after the records so far: plain dictionaries."""

    totals: dict[str, int] = field(default_factory=dict)
    latest: dict[str, Stamped[int]] = field(default_factory=dict)
    recent: dict[tuple[str, int], int] = field(default_factory=dict)
    outputs: list[tuple[bytes, bytes]] = field(default_factory=list)
    time: int = -1

    def take(self, record: ReadRow) -> None:
        key, amount, self.time = (record.key or b"").decode(), int(record.value or b"0"), record.timestamp
        total = self.totals.get(key, 0) + amount
        if amount:
            self.totals[key] = total
        else:
            self.totals.pop(key, None)
        self.latest[key] = Stamped(amount, record.timestamp)
        window = key, record.timestamp // 10 * 10
        self.recent[window] = self.recent.get(window, 0) + 1
        self.outputs.append((key.encode(), b"%d:%d" % (record.offset, total)))

    def visible(self) -> dict[tuple[str, int], int]:
        return {window: count for window, count in self.recent.items() if window[1] > self.time - 60}


def process(task: Task, record: ReadRow) -> None:
    """One record through all stores, and one output."""
    key, amount = (record.key or b"").decode(), int(record.value or b"0")
    moment = task.state.store_time
    moment.timestamp = moment.stream_time = record.timestamp
    totals, recent = task.state.store(TOTALS), task.state.store(RECENT)
    total = (totals.get(key) or 0) + amount
    totals.put(key, total if amount else None)
    task.state.store(CACHED).put(key, total if amount else None)
    task.state.store(NOTES).put(key, total if amount else None)
    task.state.store(LATEST).put(key, amount)
    start = record.timestamp // 10 * 10
    recent.put(key, start, (recent.get(key, start) or 0) + 1)
    task.emit(key.encode(), b"%d:%d" % (record.offset, total))
    task.offset = record.offset + 1  # on Kafka the marker of a transaction may lie between two records


def check_stores(bench: Bench, task: Task) -> None:
    """I6: the rows of each store are the fold of its changelog, and what the input makes of them."""
    partition, state = task.id.partition, task.state
    for store in STORES:
        folded = fold(bench.log, bench.changelog_of(store, partition), state.offsets[store.name])
        wanted = {key: store.layout.restored(value, time) for key, (value, time) in folded.items()}
        assert dict(state.inner(store.name).scan(None, None)) == wanted, store.name
    expected = Expected()
    for record in read_input(bench, partition, 0, task.offset):
        expected.take(record)
    state.store_time.stream_time = expected.time
    for store in (TOTALS, CACHED, NOTES):
        assert task.rows(store) == expected.totals, store.name
    assert dict(state.store(LATEST).all()) == expected.latest
    found: dict[Any, int] = {(key, start): count for key, start, count in state.store(RECENT).all()}
    assert found == expected.visible()
