"""A replay takes more at once than a live slot, as long as a task's turn stays short."""

from __future__ import annotations

import pyarrow as pa

from tidegate.log.checks import HEADER_BYTES, RowCheck
from tidegate.log.last_of_keys import last_of_each
from tidegate.log.topic import TopicInfo
from tidegate.runtime.slot.pace import LIVE, REPLAY, next_shares


def test_a_replay_takes_more_while_turns_are_quick_and_less_when_one_is_slow() -> None:
    assert next_shares(1, 0.4, REPLAY) == 2
    assert next_shares(1, 0.1, REPLAY) == 10
    assert next_shares(1, 0.0, REPLAY) == REPLAY.most_shares
    assert next_shares(REPLAY.most_shares, 0.1, REPLAY) == REPLAY.most_shares
    assert next_shares(4, 1.0, REPLAY) == 4
    assert next_shares(4, 10.0, REPLAY) == 2
    assert next_shares(1, 10.0, REPLAY) == 1


def test_a_live_slot_keeps_its_share() -> None:
    assert next_shares(1, 0.0, LIVE) == 1


def test_the_last_record_of_each_key_is_kept() -> None:
    assert last_of_each(pa.array([0, 1, 0, 2, 1], pa.int32())).to_pylist() == [2, 4, 3]


def test_rows_are_folded_early_only_if_the_topic_surely_takes_each_of_them() -> None:
    limit = HEADER_BYTES + 100
    check = RowCheck(TopicInfo("rows", "id", {"max.message.bytes": str(limit)}, (0,)))
    times, now = pa.array([1_000, 2_000]), 10_000
    assert check.takes_all(pa.array([b"k"]), pa.array([b"v" * 50], pa.binary()), times, now)
    assert not check.takes_all(pa.array([b"k"]), pa.array([b"v" * 100], pa.binary()), times, now)
    assert not check.takes_all(pa.array([None], pa.binary()), pa.array([b"v"], pa.binary()), times, now)
    assert not check.takes_all(pa.array([b"k"]), pa.array([b"v"], pa.binary()), pa.array([-1, 2_000]), now)
