"""Appending to a real broker outside of transactions: all records of a call or none, at the right offsets."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from tests.kafka.conftest import OpenLog

from tidegate import Topic
from tidegate.connect.connection import Connection, Sent
from tidegate.errors import LogError
from tidegate.log.records import Row, to_batch
from tidegate.log.topic import TopicSpec
from tidegate.testing.conformance.bench import now, read_all, values
from tidegate.types import TopicPartition

SMALL = {"max.message.bytes": "50000"}


def noise(count: int, size: int) -> list[Row]:
    """Records that no compression makes smaller."""
    random.seed(7)
    return [Row(b"%d" % number, random.randbytes(size), now()) for number in range(count)]


def test_a_topic_that_takes_little_at_once_takes_everything(open_own: OpenLog) -> None:
    """Twenty thousand records to a topic that takes 50 kB: 4,608 of them were lost once, with success."""
    log, partition = open_own(), TopicPartition("small", 0)
    log.create(TopicSpec("small", 1, SMALL))
    sent = noise(20_000, 60)
    last = log.append(partition, to_batch(sent))
    found = read_all(log, partition)
    assert values(found) == [one.value for one in sent]
    assert found[-1].offset == last


def test_a_record_that_is_too_large_leaves_nothing_behind(open_own: OpenLog) -> None:
    log, partition = open_own(), TopicPartition("small", 0)
    log.create(TopicSpec("small", 1, SMALL))
    sent = noise(3000, 60)
    sent[1500] = sent[1500]._replace(value=random.randbytes(50_001))
    with pytest.raises(LogError) as error:
        log.append(partition, to_batch(sent))
    assert error.value.code == "record-too-large"
    assert read_all(log, partition) == []
    log.append(partition, to_batch(sent[:10]))
    assert len(read_all(log, partition)) == 10


def test_threads_that_append_to_a_small_topic_do_not_refuse_each_other(open_own: OpenLog) -> None:
    """librdkafka joins records of several threads to one request, which the broker judges as one."""
    log, partition = open_own(), TopicPartition("small", 0)
    log.create(TopicSpec("small", 1, {"max.message.bytes": "2000"}))
    sent = noise(400, 900)
    with ThreadPoolExecutor(16) as threads:
        list(threads.map(lambda one: log.append(partition, to_batch([one])), sent))
    assert set(values(read_all(log, partition))) == {one.value for one in sent}


def test_a_transaction_in_many_appends_fits_a_small_topic(open_own: OpenLog) -> None:
    log, partition = open_own(), TopicPartition("small", 0)
    log.create(TopicSpec("small", 1, {"max.message.bytes": "2000"}))
    sent = noise(200, 900)
    with closing(log.writer("slot")) as writer:
        for one in sent:
            writer.append(partition, to_batch([one]))
        writer.commit()
    assert values(read_all(log, partition)) == [one.value for one in sent]


def test_offsets_are_right_when_threads_and_processes_interleave(open_own: OpenLog) -> None:
    numbers = Topic("numbers", int, partitions=1)
    connections = [Connection(open_own(), owned=False) for _ in range(2)]
    connections[0].send(numbers, "k", 0)

    def send(number: int) -> tuple[Sent, int]:
        count = 1 + number % 4
        first = 10 * number
        sent = connections[number % 2].send(numbers, "k", *range(first, first + count))
        return sent, first + count - 1

    with ThreadPoolExecutor(8) as threads:
        reported = list(threads.map(send, range(1, 161)))
    found = {record.offset: record.value for record in connections[0].read(numbers)}
    assert [found.get(sent.offset) for sent, _ in reported] == [value for _, value in reported]
    assert sorted(found.values()) == sorted(
        [0, *(10 * number + index for number in range(1, 161) for index in range(1 + number % 4))]
    )


def test_the_mark_of_a_transaction_is_not_found_as_a_record_by_its_time(open_own: OpenLog) -> None:
    """Marks have the time of the commit: to a broker that looks for a time they come before later records."""
    numbers = Topic("numbers", int, partitions=1)
    with closing(Connection(open_own(), owned=False)) as connection:
        for second in (1, 2, 3, 4):
            connection.send(numbers, "k", second, 10 * second, timestamp=1000 * second)
        for since, expected in ((2000, [2, 20, 3, 30, 4, 40]), (2001, [3, 30, 4, 40]), (4001, [])):
            assert [record.value for record in connection.read(numbers, since=since)] == expected


def test_a_topic_that_was_created_again_takes_records_at_once(open_own: OpenLog) -> None:
    """The writer of earlier appends knows offsets that lie behind those of the new topic."""
    log, partition = open_own(), TopicPartition("twice", 0)
    log.create(TopicSpec("twice", 1))
    log.append(partition, to_batch(noise(20, 10)))
    log.delete("twice")
    log.create(TopicSpec("twice", 1))
    last = log.append(partition, to_batch(noise(5, 10)))
    found = read_all(log, partition)
    assert (len(found), found[-1].offset) == (5, last)
