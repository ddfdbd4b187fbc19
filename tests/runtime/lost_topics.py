"""Starts of the word count on a log that has lost a topic, or holds topics of another app: on any log."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.runtime.fleet import COUNTS, Fleet, expected, send

from tidegate.errors import LogError, TidegateError
from tidegate.log import names
from tidegate.log.faultpoints import installed
from tidegate.log.positions import Position, position_row, read_positions
from tidegate.log.protocol import Log
from tidegate.log.records import Row, to_batch
from tidegate.log.topic import TopicSpec
from tidegate.state.changelog import changelog_spec
from tidegate.types import Offset, TopicPartition

APP = "wordcount"
CHANGELOG = names.changelog(APP, "counts")
REPARTITION = names.repartition(APP, "by-word")
MAX_BYTES = 1 << 20
Story = Callable[[Fleet], None]


def refused(fleet: Fleet, code: str) -> TidegateError:
    """The next start ends by name; nothing that anybody reads was written by it."""
    before = fleet.counts() if COUNTS.name in fleet.log.names() else {}
    with pytest.raises(TidegateError) as error:
        fleet.catch_up()
    assert error.value.code == code, error.value
    after = fleet.counts() if COUNTS.name in fleet.log.names() else {}
    assert after == before
    return error.value


def lost_positions(fleet: Fleet) -> None:
    """Started over on top of old state, all that was counted would be counted again."""
    send(fleet, 0, 30)
    fleet.catch_up()
    fleet.log.delete(names.positions(APP))
    error = refused(fleet, "positions-missing")
    assert names.positions(APP) in error.message
    assert f"tidegate reset {APP}" in error.hint
    assert refused(fleet, "positions-missing"), "a second start finds the topic, and nothing in it"


def one_lost_position(fleet: Fleet) -> None:
    send(fleet, 0, 30)
    fleet.catch_up()
    lost = max(read_positions(fleet.log, APP))
    partition = TopicPartition(names.positions(APP), 0)
    row = position_row(lost, Position(), 1)
    fleet.log.append(partition, to_batch([Row(row.key, None, 1)]))
    assert str(lost) in refused(fleet, "positions-missing").message


def lost_control(fleet: Fleet) -> None:
    send(fleet, 0, 30)
    fleet.catch_up()
    fleet.log.delete(names.control(APP))
    error = refused(fleet, "control-missing")
    assert names.control(APP) in error.message
    assert names.control(APP) not in fleet.log.names(), "nothing was made"


def lost_control_and_positions(fleet: Fleet) -> None:
    send(fleet, 0, 30)
    fleet.catch_up()
    fleet.log.delete(names.control(APP))
    fleet.log.delete(names.positions(APP))
    assert CHANGELOG in refused(fleet, "state-without-positions").message


def lost_changelog(fleet: Fleet) -> None:
    send(fleet, 0, 30)
    fleet.catch_up()
    fleet.log.delete(CHANGELOG)
    assert CHANGELOG in refused(fleet, "topic-recreated").message


def foreign_changelog(fleet: Fleet) -> None:
    """Such as one that a Kafka Streams app of the same id left, or writes to at this time."""
    _foreign(fleet.log, changelog_spec(CHANGELOG, 3, {}, MAX_BYTES), b"up", bytes(7) + b"\x22")
    error = refused(fleet, "state-without-positions")
    assert CHANGELOG in error.message
    assert "app id" in error.hint


def foreign_repartition(fleet: Fleet) -> None:
    """Of another partition count than ours would have."""
    _foreign(fleet.log, TopicSpec(REPARTITION, 2, {"cleanup.policy": "delete"}), b"up", b"up")
    assert REPARTITION in refused(fleet, "state-without-positions").message


def truncated_repartition(fleet: Fleet) -> None:
    """Emptied by its readers, as repartition topics are: it belonged to an app all the same."""
    _foreign(fleet.log, TopicSpec(REPARTITION, 3, {"cleanup.policy": "delete"}), b"up", b"up")
    for number in range(3):
        partition = TopicPartition(REPARTITION, number)
        fleet.log.purge(partition, Offset(fleet.log.ends([partition])[partition]))
    assert REPARTITION in refused(fleet, "state-without-positions").message


def foreign_while_it_starts(fleet: Fleet) -> None:
    """The manifest is there already; the first plan is not."""
    fleet.prepared()
    fleet.log.append(TopicPartition(CHANGELOG, 0), to_batch([Row(b"up", b"x", 1)]))
    assert f"tidegate reset {APP}" in refused(fleet, "state-without-positions").hint


def crashed_first_start(fleet: Fleet) -> None:
    """Between its topics and its plan nothing is written in them: the next start goes on."""
    send(fleet, 0, 30)
    for step in (1, 2, 3, 5):
        with installed(_crash(f"driver.{step}")), pytest.raises(LogError, match="killed"):
            fleet.catch_up()
    fleet.catch_up()
    assert fleet.counts() == expected(30)


def crashed_before_the_manifest(fleet: Fleet) -> None:
    """All topics are there, and empty."""
    fleet.prepared()
    fleet.log.delete(names.control(APP))
    send(fleet, 0, 30)
    fleet.catch_up()
    assert fleet.counts() == expected(30)


STORIES: list[Story] = [
    lost_positions,
    one_lost_position,
    lost_control,
    lost_control_and_positions,
    lost_changelog,
    foreign_changelog,
    foreign_repartition,
    truncated_repartition,
    foreign_while_it_starts,
    crashed_first_start,
    crashed_before_the_manifest,
]


def _crash(at: str) -> Callable[[str], None]:
    def crash(point: str) -> None:
        if point == at:
            raise LogError("killed", "killed", "")

    return crash


def _foreign(log: Log, spec: TopicSpec, key: bytes, value: bytes) -> None:
    log.create(spec)
    for number in range(spec.partitions):
        log.append(TopicPartition(spec.name, number), to_batch([Row(key, value, 1)]))
