"""What the runtime refuses has a code of its own: those that no other test is about."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest
from tests.gate.app import gated

from tidegate.clock import ManualClock
from tidegate.errors import LogError, StateError
from tidegate.log import faultpoints, names
from tidegate.log.records import Row, to_batch
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.driver.prepare import prepare
from tidegate.runtime.driver.takeover import take_over
from tidegate.runtime.topics.control import ROLE, control_topic, read_control
from tidegate.types import TopicPartition

APP = "gated"


@pytest.fixture
def log() -> Iterator[SqliteLog]:
    with closing(SqliteLog()) as made:
        made.create(control_topic(APP))
        yield made


def test_an_epoch_that_the_log_acknowledged_and_lost_is_noticed_at_once(log: SqliteLog) -> None:
    """Whoever went on would share its epoch with the next one to take over."""

    def lose(point: str) -> None:
        if point == "driver.3":  # committed, not read back yet
            log.delete(names.control(APP))
            log.create(control_topic(APP))

    with faultpoints.installed(lose), pytest.raises(LogError) as caught:
        take_over(log, APP, 1, ManualClock())
    assert (caught.value.code, caught.value.retryable) == ("epoch-not-seen", True)
    take_over(log, APP, 1, ManualClock()).close()
    assert read_control(log, APP).epoch(ROLE) == 1


def test_what_others_wrote_to_the_control_topic_is_refused(log: SqliteLog) -> None:
    foreign = Row(f"epoch/{ROLE}".encode(), b"seven", 0)
    log.append(TopicPartition(names.control(APP), 0), to_batch([foreign]))
    with pytest.raises(LogError, match="epoch/") as caught:
        take_over(log, APP, 1, ManualClock())
    assert caught.value.code == "bad-control"


def test_a_node_without_a_topic_has_no_topic_to_read() -> None:
    with closing(SqliteLog()) as log:
        context = prepare(gated().build(), log, ManualClock()).context
        node = next(node for node in context.topology.nodes.values() if node.topic is not None)
        assert context.topic_of(node) == node.topic.name if node.topic else ""
        with pytest.raises(StateError) as caught:
            context.topic_of(replace(node, topic=None))
        assert caught.value.code == "no-topic"
