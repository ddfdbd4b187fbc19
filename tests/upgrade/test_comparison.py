"""The comparison of recalculated rows with live ones: equal to a plain one, in bounded memory, read once."""

from __future__ import annotations

import multiprocessing
import tracemalloc
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.upgrade.plain_comparison import Different, compare

from tidegate.log.protocol import Log
from tidegate.log.records import APPEND_SCHEMA, Headers, ReadRow, Row, rows_of, to_batch
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.sqlite.reader import SqliteReader
from tidegate.log.topic import TopicSpec
from tidegate.runtime.output.origin import (
    ORIGIN,
    OWNER,
    header_of_each,
    origin_column,
    origin_header,
    owner_headers,
)
from tidegate.types import Offset, TopicPartition
from tidegate.upgrade import table_publication
from tidegate.upgrade.compared_rows import Compared
from tidegate.upgrade.comparison import DIFFERENCES, PartitionComparison, counted
from tidegate.upgrade.kept_differences import KeptDifferences
from tidegate.upgrade.spill import Spill
from tidegate.upgrade.table_publication import corrections, transactions

MINE, STAGED, OTHER = b"shop/out", b"shop.upgrade.g0/out", b"other/out"
LIVE_AT, STAGED_AT = TopicPartition("out", 0), TopicPartition("staging", 0)


@pytest.fixture(scope="module", name="shared")
def shared_log() -> Iterator[SqliteLog]:
    """Hypothesis needs hundreds of logs: topics are created faster."""
    with closing(SqliteLog()) as log:
        yield log


def filled(log: SqliteLog, live: list[Row], staged: list[Row]) -> SqliteLog:
    """The log with new topics that hold these rows, in two batches each."""
    for partition, rows in ((LIVE_AT, live), (STAGED_AT, staged)):
        if partition.topic in log.names():
            log.delete(partition.topic)
        log.create(TopicSpec(partition.topic, 1, {"cleanup.policy": "compact"}))
        for part in (rows[: len(rows) // 2], rows[len(rows) // 2 :]):
            if part:
                log.append(partition, to_batch(part))
    return log


def compared(log: Log) -> Compared:
    return Compared("out", log.describe("out"), log.describe("staging"), MINE)


def published(found: PartitionComparison) -> dict[bytes, Different]:
    """What differs, with the record that is published for it. Each key is there once."""
    rows: dict[bytes, Different] = {}
    for batch in found:
        before = dict(zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True))
        for record in (row for part in corrections(batch, MINE) for row in as_read(part)):
            assert record.key is not None
            assert record.key not in rows
            rows[record.key] = Different(before[record.key], record.value, record.timestamp, record.headers)
    return rows


def as_read(batch: pa.RecordBatch) -> Iterator[ReadRow]:
    return rows_of(
        pa.RecordBatch.from_arrays(
            [pa.arange(0, batch.num_rows), *batch.columns], names=["offset", *APPEND_SCHEMA.names]
        )
    )


keys = st.sampled_from([b"", b"a", b"b", b"\0", b"a\0b", b"cc"])
values = st.sampled_from([None, b"", b"1", b"2"])
times = st.integers(0, 3)


@st.composite
def live_rows(draw: st.DrawFn) -> Row:
    owner = draw(st.sampled_from([MINE, MINE, OTHER, None]))
    headers: Headers = () if owner is None else ((OWNER, owner), origin_header("in/0/1", "t", 1, 1))
    own = draw(st.sampled_from([(), (("mine", b"1"),)]))
    return Row(draw(keys), draw(values), draw(times), (*own, *headers))


@st.composite
def staged_rows(draw: st.DrawFn) -> Row:
    task = draw(st.sampled_from(["a/0", "b/0"]))
    headers = ((OWNER, STAGED), origin_header("in/0/1", task, draw(times), draw(times)))
    own = draw(st.sampled_from([(), (), (("mine", None),)]))
    return Row(task.encode() + b"\0" + draw(keys), draw(values), draw(times), (*own, *headers))


@given(
    st.lists(live_rows(), max_size=12), st.lists(staged_rows(), max_size=12), st.sampled_from([1, 300, 2**20])
)
@example([], [], 1)
@settings(deadline=None)
def test_the_comparison_equals_a_plain_one_whether_or_not_it_spills(
    shared: SqliteLog, live: list[Row], staged: list[Row], memory: int
) -> None:
    log = filled(shared, live, staged)
    expected = compare(log, "out", "staging", MINE, 0)
    found = PartitionComparison(log, compared(log), 0, memory=memory)
    assert published(found) == expected.rows
    assert (found.equal, found.foreign) == (expected.equal, expected.foreign)


def test_publishing_what_differs_leaves_nothing_that_differs(shared: SqliteLog) -> None:
    live = [Row(b"%d" % n, b"1", n, ((OWNER, MINE),)) for n in range(50)]
    staged = [
        Row(b"t\0%d" % n, b"%d" % (n % 3), n, ((OWNER, STAGED), origin_header("in/0/1", "t", n, n)))
        for n in range(20, 80)
    ]
    log = filled(shared, live, staged)
    for batch in PartitionComparison(log, compared(log), 0):
        for records in corrections(batch, MINE):
            log.append(LIVE_AT, records)
    again = PartitionComparison(log, compared(log), 0)
    assert published(again) == {}
    assert again.equal == 60


def large(log: Log, rows: int, size: int, differs: int = 10) -> None:
    """Every tenth row differs, or every `differs`-th; every hundredth is gone."""
    value = b"x" * size
    for start in range(0, rows, 1_000):
        numbers = range(start, start + 1_000)
        same = pa.array([value + b"%d" % n for n in numbers], pa.binary())
        other = pa.array(
            [None if n % 100 == 0 else value + b"%d" % (-n if n % differs == 0 else n) for n in numbers],
            pa.binary(),
        )
        for partition, prefix, column, owner in (
            (LIVE_AT, b"", same, MINE),
            (STAGED_AT, b"t\0", other, STAGED),
        ):
            count = len(numbers)
            named = pa.array([prefix + b"key-%d" % n for n in numbers], pa.binary())
            sequence = pa.arange(start, start + count)
            origins = origin_column(("in/0/1",), "t", sequence, sequence)
            headers = owner_headers(owner, count) if owner == MINE else header_of_each(ORIGIN, origins)
            log.append(
                partition,
                pa.RecordBatch.from_arrays([sequence, named, column, headers], schema=APPEND_SCHEMA),
            )


def compare_large(folder: Path, limit: int, rows: int) -> tuple[list[int], int, int, int]:
    """In a process of its own: what differs, rows that are equal, bytes in the file, and bytes in memory at
    most."""
    log = filled(SqliteLog(), [], [])
    large(log, rows, 800)
    tracemalloc.start()
    found = PartitionComparison(log, compared(log), 0, memory=limit, folder=folder)
    put = changed = removed = 0
    for batch in found:
        assert not list(folder.iterdir())
        one = counted(batch)
        put, changed, removed = put + one.put, changed + one.changed, removed + one.removed
    peak = pa.default_memory_pool().max_memory() + tracemalloc.get_traced_memory()[1]
    return [put, changed, removed], found.equal, found.file_bytes, peak


def test_memory_stays_below_the_limit_and_the_file_has_no_name(tmp_path: Path) -> None:
    """60,000 rows of 800 bytes on each side are three times the limit."""
    limit, rows = 32 * 2**20, 60_000
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        differs, equal, file_bytes, peak = pool.apply(compare_large, (tmp_path, limit, rows))
    assert differs == [0, rows // 10 - rows // 100, rows // 100]
    assert equal == rows - rows // 10
    assert file_bytes > 2 * limit
    assert peak < limit


def test_versions_of_a_few_keys_need_no_file(shared: SqliteLog) -> None:
    log = filled(shared, [], [])
    headers = ((OWNER, MINE),)
    for start in range(0, 2_000, 100):
        log.append(
            LIVE_AT,
            to_batch([Row(b"%d" % (n % 5), b"%d" % n * 50, n, headers) for n in range(start, start + 100)]),
        )
    found = PartitionComparison(log, compared(log), 0, memory=50_000)
    assert {row.before for row in published(found).values()} == {b"%d" % n * 50 for n in range(1_995, 2_000)}
    assert found.file_bytes == 0


class CountingLog(SqliteLog):
    """Counts readers."""

    readers = 0

    def reader(self, positions: Mapping[TopicPartition, Offset], *, brief: bool = False) -> SqliteReader:
        self.readers += 1
        return super().reader(positions, brief=brief)


def kept_of(log: Log) -> KeptDifferences:
    kept = KeptDifferences()
    assert sum(batch.num_rows for batch in kept.kept(PartitionComparison(log, compared(log), 0))) == 1
    return kept


@pytest.fixture
def log() -> Iterator[CountingLog]:
    found = CountingLog()
    for partition in (LIVE_AT, STAGED_AT):
        found.create(TopicSpec(partition.topic, 1, {"cleanup.policy": "compact"}))
    found.append(LIVE_AT, to_batch([Row(b"a", b"1", 1, ((OWNER, MINE),))]))
    yield found
    found.close()


def test_what_was_found_is_published_without_reading_again(log: CountingLog) -> None:
    kept, before = kept_of(log), log.readers
    assert [batch.column(0).to_pylist() for batch in kept.differing(log, compared(log), 0)] == [[b"a"]]
    assert log.readers == before


@pytest.mark.parametrize("topic", ["out", "staging"])
def test_what_was_found_is_compared_again_if_a_topic_changed_meanwhile(log: CountingLog, topic: str) -> None:
    kept = kept_of(log)
    row = (
        Row(b"a", b"2", 2, ((OWNER, OTHER),)) if topic == "out" else Row(b"t\0a", b"1", 2, ((OWNER, STAGED),))
    )
    log.append(TopicPartition(topic, 0), to_batch([row]))
    assert list(kept.differing(log, compared(log), 0)) == []


def test_a_second_publication_compares_again(log: CountingLog) -> None:
    """What was kept is used once: the topic has it then."""
    kept = kept_of(log)
    for batch in kept.differing(log, compared(log), 0):
        for records in corrections(batch, MINE):
            log.append(LIVE_AT, records)
    assert list(kept.differing(log, compared(log), 0)) == []


def test_a_spill_returns_batches_in_the_order_in_which_they_were_added(tmp_path: Path) -> None:
    spill = Spill(DIFFERENCES, 400, tmp_path)
    columns = {field.name: pa.nulls(1, field.type) for field in DIFFERENCES}
    for number in range(20):
        row = {**columns, "key": pa.array([b"%d" % number], pa.binary())}
        spill.add(number % 2, pa.RecordBatch.from_pydict(row, schema=DIFFERENCES))
    assert spill.file_bytes > 0
    assert spill.held_bytes <= 400
    odd = [key for batch in spill.pop(1) for key in batch.column(0).to_pylist()]
    assert odd == [b"%d" % number for number in range(1, 20, 2)]
    assert list(spill.pop(1)) == []
    spill.close()


def test_a_transaction_is_bounded_in_records_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_publication, "RECORDS_PER_TRANSACTION", 10)
    monkeypatch.setattr(table_publication, "BYTES_PER_TRANSACTION", 2_000)
    rows = [Row(b"%d" % n, b"x" * (1_500 if n > 90 else 1), n) for n in range(100)]
    parts = list(transactions([to_batch(rows)]))
    assert [row for part in parts for row in part.column(1).to_pylist()] == [row.key for row in rows]
    assert max(part.num_rows for part in parts) == 10
    assert max(part.nbytes for part in parts) <= 2_000
