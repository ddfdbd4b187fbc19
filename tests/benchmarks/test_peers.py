"""The table of peers: what it must not get wrong, without an engine."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest
from benchmarks.peers.__main__ import main
from benchmarks.peers.records import PARTITIONS, append, first_of_each_partition, partition_of
from benchmarks.peers.restore import Starts
from benchmarks.peers.tidegate import Tidegate
from benchmarks.peers.usage import Seen, Usage, family
from benchmarks.peers.verify import WrongResultError, check_counts

from tidegate import TableTopic
from tidegate.connect.connection import Connection
from tidegate.log.sqlite.log import SqliteLog

COUNTS = TableTopic("counts", int)


def test_counts_that_do_not_add_up_fail_the_benchmark() -> None:
    connection = Connection(SqliteLog(None), partitions=PARTITIONS)
    for key, count in (("a", 1), ("a", 2), ("b", 1)):
        connection.send(COUNTS, key, count)
    check_counts(connection.log, "counts", Tidegate(), 3, 2)
    for records, keys in ((4, 2), (2, 2), (3, 3)):
        with pytest.raises(WrongResultError, match="counted 3 records of 2 keys"):
            check_counts(connection.log, "counts", Tidegate(), records, keys)


def test_a_restore_is_what_a_start_takes_longer_than_those_with_state() -> None:
    assert Starts([2.0, 9.0, 3.0], [5.0, 6.0, 2.5]).restores() == [2.0, 3.0, -0.5]


def test_every_partition_has_a_key() -> None:
    keys = first_of_each_partition()
    assert [partition_of(key) for key in keys] == list(range(PARTITIONS))


def test_records_lie_where_their_keys_belong() -> None:
    topic = TableTopic("source", bytes, key=bytes, partitions=PARTITIONS)
    connection = Connection(SqliteLog(None))
    connection.send(topic, b"first", b"")
    append(connection.log, "source", list(first_of_each_partition()))
    found = {record.key: record.partition for record in connection.read(topic)}
    assert all(found[key] == number for number, key in enumerate(first_of_each_partition()))


def test_a_family_is_all_that_was_started_and_no_one_else() -> None:
    seen = {pid: Seen(parent, 0.0, 0) for pid, parent in ((1, 0), (2, 1), (3, 2), (4, 1), (5, 0))}
    assert family([2], seen) == {2, 3}
    assert family([1, 3], seen) == {1, 2, 3, 4}
    assert family([9], seen) == set()


def test_cpu_and_memory_are_those_of_the_process() -> None:
    with Usage(lambda: [os.getpid()]) as usage:
        begin = time.monotonic()
        _spin(time.process_time, 0.6)
        end = time.monotonic()
        time.sleep(0.3)
    assert 0.2 < usage.cpu_seconds(begin, end) < 5
    assert usage.peak > 1 << 20


def _spin(clock: Callable[[], float], seconds: float) -> None:
    end = clock() + seconds
    while clock() < end:
        pass


@pytest.mark.parametrize("argument", ["--parts=speed", "--engines=flink"])
def test_an_unknown_part_or_engine_is_refused(argument: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([argument])
    assert "is none of" in capsys.readouterr().err
