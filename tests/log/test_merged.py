"""Several partitions as one sequence: order, bounds, memory."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.log import merged, reads
from tidegate.log.merged import ReadRange, follow, read_merged
from tidegate.log.protocol import Fetched
from tidegate.log.records import Row, to_batch
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.sqlite.reader import SqliteReader
from tidegate.log.topic import TopicSpec
from tidegate.types import Offset, TopicPartition


@pytest.fixture
def log() -> Iterator[SqliteLog]:
    with closing(SqliteLog()) as log:
        yield log


def fill(log: SqliteLog, name: str, times: list[list[int]], size: int = 1) -> dict[TopicPartition, ReadRange]:
    log.create(TopicSpec(name, len(times)))
    spans = {}
    for number, listed in enumerate(times):
        partition = TopicPartition(name, number)
        if listed:
            log.append(partition, to_batch([Row(None, b"v" * size, time) for time in listed]))
        spans[partition] = ReadRange(0, len(listed))
    return spans


def read(log: SqliteLog, spans: dict[TopicPartition, ReadRange], **memory: int) -> list[tuple[int, int, int]]:
    return [(part.partition, row.offset, row.timestamp) for part, row in read_merged(log, spans, **memory)]


def test_the_earlier_timestamp_goes_first_then_the_lower_partition(log: SqliteLog) -> None:
    spans = fill(log, "t", [[1, 5, 9], [2, 5], [], [5]])
    assert read(log, spans) == [(0, 0, 1), (1, 0, 2), (0, 1, 5), (1, 1, 5), (3, 0, 5), (0, 2, 9)]


def test_a_partition_keeps_its_order_whatever_its_timestamps_are(log: SqliteLog) -> None:
    spans = fill(log, "t", [[9, 1], [5]])
    assert read(log, spans) == [(1, 0, 5), (0, 0, 9), (0, 1, 1)]


def test_a_merged_read_starts_and_ends_at_the_given_offsets(log: SqliteLog) -> None:
    spans = fill(log, "t", [[1, 2, 3, 4], [1, 2]])
    [zero, one] = spans
    assert read(log, {zero: ReadRange(1, 3), one: ReadRange(1, 1)}) == [(0, 1, 2), (0, 2, 3)]


times = st.lists(st.lists(st.integers(0, 20), max_size=30), min_size=1, max_size=6)


@given(times=times, share=st.sampled_from([1, 7, 10_000]))
@settings(deadline=None, max_examples=60)
def test_many_partitions_that_share_memory_read_the_same_as_few(times: list[list[int]], share: int) -> None:
    with closing(SqliteLog()) as log:
        spans = fill(log, "t", times, size=3)
        streamed = read(log, spans)
        assert read(log, spans, open_readers=0, shared_bytes=share * len(times)) == streamed
        assert sorted(streamed) == [(p, o, t) for p, listed in enumerate(times) for o, t in enumerate(listed)]


class CountedReaders(SqliteLog):
    """Counts how many readers are open at once."""

    now = most = 0

    def reader(self, positions: Mapping[TopicPartition, Offset], *, brief: bool = False) -> SqliteReader:
        reader = super().reader(positions, brief=brief)
        close = reader.close

        def counted() -> None:
            self.now -= 1
            close()

        reader.close = counted  # type: ignore[method-assign]
        self.now += 1
        self.most = max(self.most, self.now)
        return reader


def test_hundreds_of_partitions_need_few_readers() -> None:
    with closing(CountedReaders()) as log:
        spans = fill(log, "t", [[number] for number in range(200)])
        assert [time for _, _, time in read(log, spans)] == list(range(200))
        assert 0 < log.most <= merged.OPEN_READERS
        assert log.now == 0


class Hasty:
    """A clock on which a minute passes between any two looks."""

    def __init__(self) -> None:
        self._now = 0.0

    def monotonic(self) -> float:
        self._now += 60.0
        return self._now


def test_a_slow_reader_is_not_taken_for_an_end_that_does_not_come(
    log: SqliteLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    spans = fill(log, "t", [[1, 2], [3]])
    # The only clock of a read that nobody passes in: a real minute is too long for a test.
    monkeypatch.setattr(reads, "time", Hasty())
    assert len(read(log, spans)) == 3


def test_a_reader_that_is_given_up_is_closed(log: SqliteLog) -> None:
    spans = fill(log, "t", [[1, 2], [3]])
    found = read_merged(log, spans)
    next(found)
    found.close()
    log.close()


def test_follow_returns_what_comes_and_ends_when_nothing_does(log: SqliteLog) -> None:
    [partition] = fill(log, "t", [[1, 2]])
    found = follow(log, {partition: Offset(1)}, timeout=0.05)
    assert [(placed[1].offset, placed[1].timestamp) for placed in found if placed] == [(1, 2)]


def test_follow_reports_that_nothing_came_for_a_while(log: SqliteLog) -> None:
    [partition] = fill(log, "t", [[1]])
    with closing(follow(log, {partition: Offset(1)})) as found:
        assert next(found) is None
        log.append(partition, to_batch([Row(b"k", b"v", 7)]))
        live = next(found)
    assert live is not None
    assert live[1].timestamp == 7


class LateLog(SqliteLog):
    """A record comes only while a reader waits for one."""

    def reader(self, positions: Mapping[TopicPartition, Offset], *, brief: bool = False) -> SqliteReader:
        reader = super().reader(positions, brief=brief)
        poll = reader.poll

        def late(timeout: float) -> list[Fetched]:
            if not (fetched := poll(0.0)) and timeout:
                self.append(next(iter(positions)), to_batch([Row(b"k", b"v", 7)]))
            return fetched or poll(timeout)

        reader.poll = late  # type: ignore[method-assign]
        return reader


def test_follow_does_not_count_the_time_that_its_caller_takes() -> None:
    with closing(LateLog()) as log:
        [partition] = fill(log, "t", [[1]])
        with closing(follow(log, {partition: Offset(0)}, timeout=0.1)) as found:
            next(found)
            time.sleep(0.12)
            later = next(found)
    assert later is not None
    assert later[1].timestamp == 7
