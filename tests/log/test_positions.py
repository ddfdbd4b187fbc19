"""Positions: written with what they speak of, read to the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tidegate.errors import LogError
from tidegate.log.positions import Position, TaskId, position_row, positions_topic, read_positions
from tidegate.log.records import Row, to_batch
from tidegate.log.sqlite.log import SqliteLog
from tidegate.types import TopicPartition

PARTITION = TopicPartition("shop-positions", 0)
TASK = TaskId("totals", 1, 0, 2)


@pytest.fixture
def log() -> Iterator[SqliteLog]:
    with closing(SqliteLog()) as log:
        log.create(positions_topic("shop"))
        yield log


def position(offset: int) -> Position:
    return Position(
        sources={"orders": {2: offset}},
        stream_times={"orders": {2: 1000 + offset}},
        changelogs={"totals": offset * 2},
        progress={"timer": "7"},
    )


def test_the_newest_position_of_each_task_is_read_back(log: SqliteLog) -> None:
    other = TaskId("totals", 1, 0, 3)
    with closing(log.writer("w")) as writer:
        for offset in (1, 2, 3):
            writer.append(PARTITION, to_batch([position_row(TASK, position(offset), 5)]))
            writer.append(PARTITION, to_batch([position_row(other, position(offset * 10), 5)]))
            writer.commit()
        writer.append(PARTITION, to_batch([position_row(TASK, position(99), 5)]))
        assert read_positions(log, "shop") == {TASK: position(3), other: position(30)}


def test_a_generation_has_positions_of_its_own(log: SqliteLog) -> None:
    later = TaskId("totals", 2, 0, 2)
    log.append(PARTITION, to_batch([position_row(TASK, position(1), 5), position_row(later, position(2), 5)]))
    assert read_positions(log, "shop") == {TASK: position(1), later: position(2)}


def test_positions_survive_compaction(log: SqliteLog) -> None:
    for offset in range(50):
        log.append(PARTITION, to_batch([position_row(TASK, position(offset), 5)]))
    log.compact(PARTITION.topic)
    assert read_positions(log, "shop") == {TASK: position(49)}


def test_a_removed_position_is_gone(log: SqliteLog) -> None:
    put = position_row(TASK, position(1), 5)
    log.append(PARTITION, to_batch([put, Row(put.key, None, 6)]))
    assert read_positions(log, "shop") == {}


@pytest.mark.parametrize(
    ("key", "value", "code"),
    [
        (b"garbage", b"{}", "bad-position"),
        (position_row(TASK, position(1), 5).key, b"\xff", "bad-position"),
        (position_row(TASK, position(1), 5).key, b'{"format": 2}', "unknown-format"),
    ],
)
def test_a_position_that_cannot_be_read_is_refused_by_name(
    log: SqliteLog, key: bytes, value: bytes, code: str
) -> None:
    log.append(PARTITION, to_batch([Row(key, value, 5)]))
    with pytest.raises(LogError) as error:
        read_positions(log, "shop")
    assert error.value.code == code
    assert error.value.hint
