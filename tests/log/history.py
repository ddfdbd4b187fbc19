"""Numbered transactions over two topics of two partitions, and what a log must hold after them.

Whoever breaks the log in the middle of one asks two things: is each transaction there as a whole, in all of
its partitions, or not at all (I3); and are those that were acknowledged there (I1), in order, with one
value per offset (I5).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import cache
from multiprocessing import get_context
from multiprocessing.context import ForkServerContext
from pathlib import Path

from tidegate.errors import LogError
from tidegate.log.records import ReadRow, Row, rows_of, to_batch
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.sqlite.writer import SqliteWriter
from tidegate.log.topic import TopicSpec
from tidegate.types import Offset, TopicPartition

EVENTS, TABLE = "events", "table"
PARTITIONS = [TopicPartition(topic, number) for topic in (EVENTS, TABLE) for number in (0, 1)]
FROM_START = dict.fromkeys(PARTITIONS, Offset(0))
BIG, MEDIUM = 4, 9
SIZES = {BIG: (350, 4000), MEDIUM: (40, 500)}

Rows = dict[TopicPartition, list[ReadRow]]


def rows_in(number: int, partition: TopicPartition) -> list[Row]:
    """What transaction `number` appends to a partition. BIG has some 5 MiB in all, most of it zeros."""
    count, size = SIZES.get(number, (1 + (number + partition.partition) % 3, number % 40))
    rows = []
    for i in range(count):
        key = b"key-%d" % ((number * 3 + i) % 11)
        value: bytes | None = b"%d:%d:" % (number, i) + bytes(size)
        if partition.topic == TABLE and (number + i) % 7 == 0:
            value = None
        headers = [("number", b"%d" % number)] if number % 2 else []
        rows.append(Row(key, value, 1_000 + number, headers))
    return rows


def create_topics(log: SqliteLog) -> None:
    log.create(TopicSpec(EVENTS, 2))
    log.create(TopicSpec(TABLE, 2, {"cleanup.policy": "compact"}))


def append(writer: SqliteWriter, number: int) -> None:
    """Everything of a transaction but its commit."""
    for partition in PARTITIONS:
        writer.append(partition, to_batch(rows_in(number, partition)))


def commit(writer: SqliteWriter, number: int) -> None:
    append(writer, number)
    writer.commit()


def expected(done: Sequence[int]) -> Rows:
    """The rows of the transactions, one after the other, with dense offsets from 0."""
    return _expected(tuple(done))


@cache
def _expected(done: tuple[int, ...]) -> Rows:
    found: Rows = {}
    for partition in PARTITIONS:
        rows = [row for number in done for row in rows_in(number, partition)]
        found[partition] = [
            ReadRow(offset, row.timestamp, row.key, row.value, tuple(row.headers))
            for offset, row in enumerate(rows)
        ]
    return found


def read_all(log: SqliteLog, starts: Mapping[TopicPartition, Offset] = FROM_START) -> Rows:
    """Every record of the partitions, to their ends."""
    found: Rows = {partition: [] for partition in starts}
    with closing(log.reader(starts)) as reader:
        while not all(reader.at_end(partition) for partition in starts):
            for fetched in reader.poll(0):
                found[fetched.partition].extend(rows_of(fetched.batch))
    return found


def check_holds(log: SqliteLog, done: Sequence[int]) -> None:
    """The log holds these transactions and nothing else; compaction may have dropped what it may drop."""
    all_found, ends = read_all(log), log.ends(PARTITIONS)
    for partition, wanted in expected(done).items():
        found = all_found[partition]
        assert ends[partition] == len(wanted), f"{partition} after {done}"
        if partition.topic == EVENTS:
            assert found == wanted, f"{partition} after {done}"
            continue
        assert all(wanted[row.offset] == row for row in found), f"{partition} after {done}"
        assert [row.offset for row in found] == sorted({row.offset for row in found})
        assert folded(found) == folded(wanted), f"{partition} after {done}"


def folded(rows: Sequence[ReadRow]) -> dict[bytes, tuple[bytes, int]]:
    """The table that rows make: key -> (value, timestamp)."""
    table: dict[bytes, tuple[bytes, int]] = {}
    for row in rows:
        assert row.key is not None
        table.pop(row.key, None)
        if row.value is not None:
            table[row.key] = (row.value, row.timestamp)
    return table


def check_whole(log: SqliteLog, acknowledged: Sequence[int], in_flight: int | None) -> list[int]:
    """The log holds what was acknowledged, and the one in flight wholly or not at all. What it holds."""
    done = list(acknowledged)
    lead = PARTITIONS[0]
    if in_flight is not None and log.ends([lead])[lead] > len(expected(done)[lead]):
        done.append(in_flight)
    check_holds(log, done)
    return done


def check_goes_on(log: SqliteLog, done: Sequence[int], number: int, writer_id: str = "writer") -> list[int]:
    """A new writer of the id commits on top of it. What the log holds then."""
    with closing(log.writer(writer_id)) as writer:
        commit(writer, number)
    check_holds(log, [*done, number])
    return [*done, number]


def files_of(path: Path) -> dict[str, bytes]:
    """The database and its WAL as they lie there; not the shared memory, which a crash takes with it."""
    found = [path, path.with_name(path.name + "-wal")]
    return {file.name: file.read_bytes() for file in found if file.exists()}


def put(folder: Path, files: dict[str, bytes]) -> None:
    """Lay files into a new folder."""
    folder.mkdir(parents=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)


def forking() -> ForkServerContext:
    """Children are forked from one process that has imported everything, so that each costs little: pandas
    too, which pyarrow imports for the first batch."""
    context = get_context("forkserver")
    modules = ["test_crash_points", "test_disk_faults", "writer_process", "reader_process"]
    context.set_forkserver_preload(["pandas", *(f"tests.log.{module}" for module in modules)])
    return context


def code_of(error: LogError) -> str:
    """The code of an error, which must have a hint."""
    assert error.hint, f"{error} has no hint"
    return error.code
