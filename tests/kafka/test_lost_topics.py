"""The stories of `tests/runtime/lost_topics.py` on a broker, and what a Kafka Streams app leaves there."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from tests.kafka.clients import create
from tests.kafka.streams.oracle import Oracle
from tests.runtime.fleet import COUNTS, LINES, Fleet, expected, send
from tests.runtime.lost_topics import APP, CHANGELOG, STORIES, Story, refused

from tidegate import App
from tidegate.log.records import Row, to_batch
from tidegate.log.topic import TopicSpec
from tidegate.runtime.topics import manifests as apps
from tidegate.testing.broker import KafkaCluster
from tidegate.types import TopicPartition


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_a_start_after_a_loss(fleet: Fleet, story: Story) -> None:
    story(fleet)


def migrated() -> App:
    """The same app under a new id."""

    def words(line: str) -> list[str]:
        return line.split()

    app = App("wordcount-2")
    app.stream(LINES).flat_map(words).group_by("by-word", str).count("counts").to(COUNTS)
    return app


def test_an_app_starts_neither_beside_a_kafka_streams_app_of_its_id_nor_after_it(
    fleet: Fleet, kafka: KafkaCluster, prefix: str, tmp_path: Path
) -> None:
    """Whose store is called as ours is; a new id reads the sources."""
    send(fleet, 0, 30)
    output = f"{prefix}lines-counted"
    create(kafka.bootstrap, output, 3, retention_ms="-1")
    inputs = [f"{prefix}{LINES.name}"]
    with Oracle(kafka.bootstrap, "count", f"{prefix}{APP}", inputs, output, tmp_path / "java") as streams:
        streams.catch_up()
        assert CHANGELOG in refused(fleet, "state-without-positions").message
        streams.stop()
    assert CHANGELOG in refused(fleet, "state-without-positions").message
    fleet.app = migrated
    fleet.catch_up()
    assert fleet.counts() == expected(30)


def test_a_foreign_control_topic_that_hides_its_records_does_not_keep_an_app_from_its_first_start(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apps, "FOREIGN_TOPIC_SECONDS", 0.5)  # a time-out that the test waits for
    fleet.log.create(TopicSpec("remote-control", 1, {"cleanup.policy": "compact"}))
    partition = TopicPartition("remote-control", 0)
    with closing(fleet.log.writer("foreign")) as foreign:
        foreign.append(partition, to_batch([Row(b"k", b"v", 1)]))
        foreign.flush([partition])
        fleet.catch_up()
    assert fleet.counts() == {"up": 1}
