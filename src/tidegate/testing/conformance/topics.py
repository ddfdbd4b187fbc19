"""Topics: created, described, deleted."""

from __future__ import annotations

import pytest

from tidegate.errors import LogError
from tidegate.log.records import to_batch
from tidegate.log.topic import TopicSpec
from tidegate.testing.conformance.bench import (
    LogBench,
    make,
    name,
    read_all,
    row,
)
from tidegate.types import TopicPartition


class TopicConformance:
    """Topics: created, described, deleted."""

    def test_a_created_topic_is_described_as_requested(self, bench: LogBench) -> None:
        log = bench.open()
        topic = make(log, 3, cleanup_policy="compact")
        info = log.describe(topic)
        assert (info.name, info.partitions, info.policy, info.compacts) == (topic, 3, "compact", True)
        assert info.starts == (0, 0, 0)
        assert not info.history_cut
        assert topic in log.names()

    def test_creating_a_topic_again_as_it_is_changes_nothing(self, bench: LogBench) -> None:
        log = bench.open()
        topic = make(log, 2)
        log.append(TopicPartition(topic, 1), to_batch([row(b"k", b"v")]))
        assert log.create(TopicSpec(topic, 2)).uid == log.describe(topic).uid
        assert len(read_all(log, TopicPartition(topic, 1))) == 1

    def test_another_partition_count_than_the_topic_has_is_refused(self, bench: LogBench) -> None:
        log = bench.open()
        topic = make(log, 2)
        with pytest.raises(LogError, match="2 partitions") as error:
            log.create(TopicSpec(topic, 3))
        assert error.value.code == "partition-count"
        assert error.value.hint

    def test_another_cleanup_policy_than_the_topic_has_is_refused(self, bench: LogBench) -> None:
        log = bench.open()
        topic = make(log)
        with pytest.raises(LogError) as error:
            log.create(TopicSpec(topic, 1, {"cleanup.policy": "compact"}))
        assert error.value.code == "other-policy"

    def test_a_topic_that_is_not_there_is_named(self, bench: LogBench) -> None:
        log = bench.open()
        missing = name()
        with pytest.raises(LogError, match=missing) as error:
            log.describe(missing)
        assert error.value.code == "no-such-topic"
        with pytest.raises(LogError):
            log.ends([TopicPartition(missing, 0)])

    def test_a_recreated_topic_is_empty_and_has_another_uid(self, bench: LogBench) -> None:
        log = bench.open()
        topic = make(log)
        partition = TopicPartition(topic, 0)
        log.append(partition, to_batch([row(b"k", b"old")]))
        before = log.describe(topic).uid
        log.delete(topic)
        assert topic not in log.names()
        log.create(TopicSpec(topic, 1))
        assert log.describe(topic).uid != before
        assert read_all(log, partition) == []
        assert log.append(partition, to_batch([row(b"k", b"new")])) == 0

    def test_the_id_of_a_log_stays(self, bench: LogBench) -> None:
        assert bench.open().id == bench.open().id != ""
