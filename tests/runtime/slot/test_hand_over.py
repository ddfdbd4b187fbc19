"""What a task wrote to an internal topic reaches the next task of its slot in memory, as if it was read."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gate.app import EVENTS, PASSED, gated

from tidegate import App
from tidegate.clock import ManualClock, SystemClock
from tidegate.connect.connection import Connection
from tidegate.gate.query import GateQuery
from tidegate.log.protocol import Fetched
from tidegate.log.reads import read_between
from tidegate.log.records import READ_SCHEMA, Row, to_batch
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.topic import TopicSpec
from tidegate.runtime.driver.prepare import prepare
from tidegate.runtime.driver.run import Run
from tidegate.runtime.output.origin import with_times, without_times
from tidegate.runtime.slot.hand_over import with_offsets
from tidegate.runtime.slot.pace import LIVE
from tidegate.runtime.slot.slot import Slot
from tidegate.types import Offset, TopicPartition

ADMITTED = TopicPartition("gated-door-admitted", 0)


class Bench:
    """An app on a log, with slots in this process and one partition."""

    def __init__(self, folder: Path, app: App) -> None:
        self.folder = folder
        self.log = SqliteLog(folder / "log.db")
        self.run: Run = prepare(app.build(), self.log, SystemClock(), partitions=1)
        self.connection = Connection(self.log, owned=False)

    def slots(self, count: int = 1) -> list[Slot]:
        """Slots whose tasks run."""
        slots = self.run.slots(self.folder / "state", count)
        for slot in slots:
            while not slot.tasks or slot.restoring:
                slot.step()
        return slots

    def passed(self) -> list[int]:
        return [record.value for record in self.connection.read(PASSED)]

    def gate(self, name: str) -> GateQuery:
        return GateQuery(self.log, self.run.manifest, name, SystemClock())

    def close(self) -> None:
        self.log.close()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Callable[..., Bench]]:
    opened: list[Bench] = []

    def open_bench(app: App | None = None) -> Bench:
        opened.append(Bench(tmp_path, gated() if app is None else app))
        return opened[-1]

    yield open_bench
    for one in opened:
        one.close()


def waiting(slot: Slot, partition: TopicPartition = ADMITTED) -> int:
    """How many records of a partition wait in memory."""
    [found] = [task.merge.buffered_in(partition) for task in slot.tasks if partition in task.partitions()]
    return found


def work_off(*slots: Slot) -> None:
    busy = True
    while busy or not all(slot.drained() for slot in slots):
        busy = False
        for slot in slots:
            busy |= slot.step()
            slot.commit()


def test_admitted_events_are_in_memory_once_they_are_committed(bench: Callable[..., Bench]) -> None:
    one = bench()
    [slot] = one.slots()
    one.connection.send(EVENTS, "ada", *range(5))
    slot.step()
    assert waiting(slot) == 0, "nothing is handed over before it is committed"
    slot.commit()
    assert waiting(slot) == 5
    work_off(slot)
    assert one.passed() == list(range(5))
    assert slot.committed()[ADMITTED] == 5
    slot.close()


def test_a_slot_that_had_nothing_to_do_processes_at_once_what_is_handed_over(
    bench: Callable[..., Bench],
) -> None:
    one = bench()
    [slot] = one.slots()
    one.connection.send(EVENTS, "ada", 1)
    while slot.step():
        pass
    slot.commit()
    began = time.monotonic()
    assert slot.step(60.0)
    assert time.monotonic() - began < 30, "it does not wait for more records"
    slot.commit()
    assert one.passed() == [1]
    slot.close()


def test_records_of_another_writer_in_between_are_read_and_in_order(bench: Callable[..., Bench]) -> None:
    """As of another slot that writes to the same partition."""
    one = bench()
    [slot] = one.slots()
    for turn in range(3):
        one.connection.send(EVENTS, "ada", turn)
        slot.step()
        value = EVENTS.value_serde.encode(10 + turn)
        one.log.append(ADMITTED, to_batch([Row(b"bob", value, SystemClock().now())]))
        slot.commit()
        assert waiting(slot) == 0, "the reader is not there yet"
        work_off(slot)
        assert one.passed() == [number for done in range(turn + 1) for number in (10 + done, done)]
    one.connection.send(EVENTS, "ada", 3)
    slot.step()
    slot.commit()
    assert waiting(slot) == 1, "the reader has caught up"
    slot.close()


def test_more_than_a_task_takes_is_left_to_its_reader(bench: Callable[..., Bench]) -> None:
    one = bench()
    [slot] = one.slots()
    slot.pace = LIVE._replace(commit_bytes=2_000)
    slot.records_per_step = 1
    [behind] = [task for task in slot.tasks if ADMITTED in task.partitions()]
    handed: dict[bool, int] = {True: 0, False: 0}
    for turn in range(40):
        one.connection.send(EVENTS, "ada", *range(turn * 10, turn * 10 + 10))
        slot.step()
        room, before = behind.merge.buffered_bytes <= 2_000, waiting(slot)
        slot.commit()
        handed[room] += waiting(slot) - before
    assert handed[True] > 0
    assert handed[False] == 0
    work_off(slot)
    assert one.passed() == list(range(400))
    slot.close()


def test_a_pause_between_commit_and_the_next_step_holds_what_was_handed_over(
    bench: Callable[..., Bench],
) -> None:
    """Two gates: what the first admitted is in memory before the second, which is paused only then."""
    app = App("gated")
    app.stream(EVENTS).gate("door").gate("inner").to(PASSED)
    one = bench(app)
    [slot] = one.slots()
    one.connection.send(EVENTS, "ada", *range(3))
    slot.step()
    slot.commit()
    assert waiting(slot) == 3
    one.gate("inner").commander.pause(b"ada")
    work_off(slot)
    assert one.passed() == []
    one.gate("inner").commander.resume(b"ada")
    work_off(slot)
    assert one.passed() == [0, 1, 2]
    slot.close()


def test_what_was_handed_over_and_not_processed_is_read_by_the_next_slot(bench: Callable[..., Bench]) -> None:
    one = bench()
    [slot] = one.slots()
    one.connection.send(EVENTS, "ada", *range(7))
    slot.step()
    slot.commit()
    assert waiting(slot) == 7
    slot.drop()
    [slot] = one.slots()
    work_off(slot)
    assert one.passed() == list(range(7))
    slot.close()


def test_between_two_slots_everything_is_read(bench: Callable[..., Bench]) -> None:
    one = bench()
    slots = one.slots(2)
    one.connection.send(EVENTS, "ada", *range(7))
    work_off(*slots)
    assert one.passed() == list(range(7))
    for slot in slots:
        slot.close()


# --- the records themselves -----------------------------------------------------------------------------

texts = st.none() | st.binary(max_size=5)
headers = st.lists(st.tuples(st.sampled_from(["a", "tidegate.origin"]), texts), max_size=2)
rows = st.builds(Row, texts, texts, st.integers(0, 1_000), headers)
transactions = st.lists(
    st.lists(st.tuples(st.integers(0, 1), st.lists(rows, max_size=4), st.booleans())), max_size=4
)


@given(transactions)
def test_records_with_offsets_are_what_a_reader_returns(given_transactions: Any) -> None:
    with closing(SqliteLog(None, clock=ManualClock())) as log, closing(log.writer("w")) as writer:
        log.create(TopicSpec("t", 2))
        read_to = {TopicPartition("t", number): 0 for number in range(2)}
        for transaction in given_transactions:
            kept: list[tuple[TopicPartition, pa.RecordBatch]] = []
            for number, written, timed in transaction:
                batch = to_batch(written)
                if timed:
                    batch = with_times(batch, batch.column(0))
                writer.append(TopicPartition("t", number), without_times(batch))
                kept.append((TopicPartition("t", number), batch))
            found = list(with_offsets(kept, writer.commit()))
            for partition, start in list(read_to.items()):
                end = log.ends([partition])[partition]
                handed = [one for one in found if one.partition == partition]
                assert _rows(handed) == _read(log, partition, start, end)
                assert [one.next for one in handed][-1:] == ([end] if end > start else [])
                assert all(one.batch.column(5).equals(one.batch.column(1)) for one in handed if _timed(one))
                read_to[partition] = end


def _timed(fetched: Fetched) -> bool:
    columns: int = fetched.batch.num_columns
    return columns > len(READ_SCHEMA)


def _rows(fetched: list[Fetched]) -> list[dict[str, Any]]:
    return [row for one in fetched for row in one.batch.select(READ_SCHEMA.names).to_pylist()]


def _read(log: SqliteLog, partition: TopicPartition, start: int, end: Offset) -> list[dict[str, Any]]:
    batches = read_between(log, partition, start, end)
    return [row for batch in batches for row in batch.to_pylist()]
