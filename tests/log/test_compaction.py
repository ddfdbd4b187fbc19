"""What a compaction of the embedded log keeps, however many passes and groups of records it takes."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from tidegate.clock import ManualClock
from tidegate.log.reads import read_between
from tidegate.log.records import ReadRow, Row, rows_of, to_batch
from tidegate.log.sqlite import compact, newest_offsets
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.sqlite.newest_offsets import NewestOffsets
from tidegate.log.topic import TopicSpec
from tidegate.types import TopicPartition

TABLE = TopicPartition("table", 0)
DAY = 86_400_000


def records(log: SqliteLog) -> list[ReadRow]:
    end = log.ends([TABLE])[TABLE]
    return [row for batch in read_between(log, TABLE, 0, end) for row in rows_of(batch)]


def newest(rows: list[ReadRow]) -> list[ReadRow]:
    """The last record of each key, one by one."""
    last = {row.key: row for row in rows}
    return sorted(last.values(), key=lambda row: row.offset)


@pytest.mark.parametrize("keys_per_pass", [1, 3, 40, 1000])
@pytest.mark.parametrize(
    ("limit", "most"),
    [("ROWS_AT_ONCE", 1), ("ROWS_AT_ONCE", 64), ("BYTES_AT_ONCE", 900), ("SPANS_AT_ONCE", 3)],
)
def test_the_newest_record_of_each_key_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys_per_pass: int, limit: str, most: int
) -> None:
    monkeypatch.setattr(compact, "KEYS_PER_PASS", keys_per_pass)
    monkeypatch.setattr(newest_offsets, limit, most)
    monkeypatch.setattr(compact, "TARGET_BYTES", 2000)
    chosen, clock = Random(keys_per_pass), ManualClock()
    with closing(SqliteLog(tmp_path / "log.db", clock=clock, upkeep=False)) as log:
        log.create(TopicSpec(TABLE.topic, 1, {"cleanup.policy": "compact", "delete.retention.ms": str(DAY)}))
        expected: list[ReadRow] = []
        for _ in range(3):
            for _ in range(20):
                keys = [b"key-%d" % chosen.randrange(60) for _ in range(chosen.randrange(1, 12))]
                values = [None if chosen.random() < 0.2 else chosen.randbytes(40) for _ in keys]
                rows = [Row(key, value, clock.now()) for key, value in zip(keys, values, strict=True)]
                log.append(TABLE, to_batch(rows))
            expected = newest(records(log))
            log.compact(TABLE.topic)
            assert records(log) == expected
        assert any(row.value is None for row in expected)
        clock.advance(2 * DAY)
        log.compact(TABLE.topic)
        assert records(log) == [row for row in expected if row.value is not None]


def test_a_compaction_keeps_no_values_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the records of a pass only keys and offsets are kept, whatever their values take."""
    kept: list[pa.Buffer] = []
    fold = NewestOffsets.fold

    def watched(self: NewestOffsets) -> None:
        kept.extend(one for added in self._added for column in added for one in column.buffers() if one)
        fold(self)

    monkeypatch.setattr(NewestOffsets, "fold", watched)
    with closing(SqliteLog(tmp_path / "log.db", upkeep=False)) as log:
        log.create(TopicSpec(TABLE.topic, 1, {"cleanup.policy": "compact"}))
        rows = [Row(b"key-%d" % number, b"x" * 10_000, 1) for number in range(50)]
        log.append(TABLE, to_batch(rows))
        log.compact(TABLE.topic)
    assert kept
    assert not [one for one in kept if one.parent is not None]  # part of a larger one, which then stays too


@pytest.mark.parametrize(
    ("limit", "most"), [("ROWS_AT_ONCE", 300), ("BYTES_AT_ONCE", 30_000), ("SPANS_AT_ONCE", 10)]
)
def test_what_is_collected_at_once_is_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    """Also if there are few, long keys, or many small spans."""
    monkeypatch.setattr(newest_offsets, limit, most)
    spans: list[int] = []
    fold = NewestOffsets.fold

    def watched(self: NewestOffsets) -> None:
        spans.append(len(self._added))
        fold(self)

    monkeypatch.setattr(NewestOffsets, "fold", watched)
    with closing(SqliteLog(tmp_path / "log.db", upkeep=False)) as log:
        log.create(TopicSpec(TABLE.topic, 1, {"cleanup.policy": "compact"}))
        for _ in range(40):
            log.append(TABLE, to_batch([Row(b"k" * 100, b"v", 1)] * 30))
        log.compact(TABLE.topic)
    assert sum(spans) == 40
    assert max(spans) == 10
