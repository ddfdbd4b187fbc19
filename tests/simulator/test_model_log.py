"""The log that the simulator runs on passes the suite of all logs, and hides as a broker does."""

from __future__ import annotations

import pytest
from tests.simulator.model_log import ModelLog

from tidegate.clock import ManualClock, SystemClock
from tidegate.errors import FencedError
from tidegate.log.reads import read_to_end
from tidegate.log.records import Row, rows_of, to_batch
from tidegate.log.topic import TopicSpec
from tidegate.testing.conformance import LogConformance
from tidegate.types import Offset, TopicPartition

AT = TopicPartition("t", 0)


class ModelBench:
    """All handles are one."""

    def __init__(self) -> None:
        self._log = ModelLog(SystemClock())

    def open(self) -> ModelLog:
        return self._log

    def compact(self, topic: str) -> None:
        self._log.compact(topic)


class TestModelLog(LogConformance):
    @pytest.fixture
    def bench(self) -> ModelBench:
        return ModelBench()


def log_with_a_topic(**config: str) -> tuple[ModelLog, ManualClock]:
    clock = ManualClock()
    log = ModelLog(clock, patience=3)
    log.create(TopicSpec(AT.topic, 1, {name.replace("_", "."): text for name, text in config.items()}))
    return log, clock


def read(log: ModelLog) -> list[tuple[int, bytes | None]]:
    end = {AT: Offset(0)}
    return [(row.offset, row.value) for fetched in read_to_end(log, end) for row in rows_of(fetched.batch)]


def test_an_open_transaction_hides_what_is_committed_behind_it_until_it_is_timed_out() -> None:
    log, _ = log_with_a_topic()
    sleeper, other = log.writer("sleeper"), log.writer("other")
    sleeper.append(AT, to_batch([Row(b"k", b"open", 1)]))
    other.append(AT, to_batch([Row(b"k", b"committed", 2)]))
    other.commit()
    reader = log.reader({AT: Offset(0)})
    assert reader.poll(0) == []
    assert (log.ends([AT])[AT], log.ends([AT], committed=False)[AT]) == (0, 3)
    assert read(log) == [(1, b"committed")]
    with pytest.raises(FencedError):
        sleeper.commit()


def test_markers_and_aborted_records_take_offsets_that_a_reader_steps_over() -> None:
    log, _ = log_with_a_topic()
    writer = log.writer("w")
    writer.append(AT, to_batch([Row(b"k", b"1", 1)]))
    assert writer.flush([AT]) == {AT: 1}
    writer.commit()
    writer.append(AT, to_batch([Row(b"k", b"aborted", 1)]))
    writer.abort()
    writer.append(AT, to_batch([Row(b"k", b"2", 1)]))
    assert writer.flush([AT]) == {AT: 5}
    writer.commit()
    assert read(log) == [(0, b"1"), (4, b"2")]
    reader = log.reader({AT: Offset(1)})
    [fetched] = reader.poll(0)
    assert (fetched.batch.num_rows, fetched.next, reader.position(AT)) == (1, 6, 6)


def test_opening_the_id_of_a_writer_aborts_what_it_has_open() -> None:
    log, _ = log_with_a_topic()
    zombie = log.writer("w")
    zombie.append(AT, to_batch([Row(b"k", b"zombie", 1)]))
    log.writer("w").append(AT, to_batch([Row(b"k", b"open", 1)]))
    log.append(AT, to_batch([Row(b"k", b"plain", 1)]))
    assert log.ends([AT])[AT] == 2
    with pytest.raises(FencedError):
        zombie.flush([AT])


def test_a_tombstone_is_removed_in_the_first_compaction_past_its_horizon() -> None:
    log, clock = log_with_a_topic(cleanup_policy="compact", delete_retention_ms="100")
    log.append(AT, to_batch([Row(b"k", b"1", 1), Row(b"k", None, 1), Row(b"l", b"1", 1)]))
    kept = []
    for _ in range(3):
        log.compact(AT.topic)
        kept.append(read(log))
        clock.advance(99 if len(kept) == 1 else 1)
    assert kept == [[(1, None), (2, b"1")], [(1, None), (2, b"1")], [(2, b"1")]]
