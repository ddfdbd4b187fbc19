"""Internal topics do not grow: what their readers have behind them goes."""

from __future__ import annotations

from pathlib import Path

from tests.runtime.fleet import LINES, Fleet
from tests.waiting import wait_for

from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.slot_job import Chores
from tidegate.types import TopicPartition

INTERNAL = "wordcount-by-word-repartition"


def kept(log: SqliteLog) -> int:
    """Records that are still in the internal topic."""
    info = log.describe(INTERNAL)
    partitions = [TopicPartition(INTERNAL, number) for number in range(info.partitions)]
    ends = log.ends(partitions)
    return sum(ends[partition] - info.starts[partition.partition] for partition in partitions)


def test_short_runs_leave_nothing_behind(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.db")
    fleet = Fleet(log, tmp_path)
    for turn in (1, 2):
        fleet.connection.send(LINES, "k", *["a b"] * 100)
        fleet.catch_up()
        assert fleet.counts() == {"a": 100 * turn, "b": 100 * turn}
        assert kept(log) == 0
    log.close()


def test_a_long_run_purges_on_its_way(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.db")
    fleet = Fleet(log, tmp_path)
    fleet.connection.send(LINES, "k", "a")
    driver, launcher = fleet.driver()
    launcher.chores = Chores(purge_seconds=0.2)
    with fleet.during(driver):
        for turn in range(1, 6):
            fleet.connection.send(LINES, "k", *["a b"] * 100)
            wait_for(lambda turn=turn: fleet.counts().get("b") == 100 * turn)  # type: ignore[misc]
            wait_for(lambda: kept(log) <= 3)  # a slot may have told its time since
    assert fleet.counts() == {"a": 501, "b": 500}
    log.close()
