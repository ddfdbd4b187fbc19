"""Internal topics do not grow: what their readers have behind them goes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.runtime.fleet import LINES, Fleet
from tests.waiting import wait_for

from tidegate.errors import LogError
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.sqlite.writer import SqliteWriter
from tidegate.runtime.driver.coordinator import DriverState
from tidegate.runtime.slot.job import SlotIntervals
from tidegate.runtime.slot.purger import Purger
from tidegate.types import Offset, TopicPartition

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
    launcher.intervals = SlotIntervals(purge_seconds=0.2)
    with fleet.during(driver):
        for turn in range(1, 6):
            fleet.connection.send(LINES, "k", *["a b"] * 100)
            wait_for(lambda turn=turn: fleet.counts().get("b") == 100 * turn)  # type: ignore[misc]
            wait_for(lambda: kept(log) <= 3)  # a slot may have sent its time since
    assert fleet.counts() == {"a": 501, "b": 500}
    log.close()


class Refusing(SqliteLog):
    """A log that drops nothing, as a broker without the right for it."""

    code, retryable = "not-allowed", False

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.purged: list[TopicPartition] = []
        self.events: list[str] = []

    def purge(self, partition: TopicPartition, before: Offset) -> None:
        self.purged.append(partition)
        self.events.append("purge")
        raise LogError(
            self.code, f"{partition} cannot be purged below {before}", "", retryable=self.retryable
        )

    def writer(self, writer_id: str, *, open_seconds: float | None = None) -> SqliteWriter:
        made = super().writer(writer_id, open_seconds=open_seconds)
        close = made.close

        def closed() -> None:
            self.events.append(f"close {writer_id}")
            close()

        made.close = closed  # type: ignore[method-assign]
        return made


def test_a_refused_purge_is_warned_of_once_and_the_app_goes_on(tmp_path: Path) -> None:
    log = Refusing(tmp_path / "log.db")
    fleet = Fleet(log, tmp_path)
    fleet.connection.send(LINES, "k", "a")
    driver, launcher = fleet.driver(slots=1)
    launcher.intervals = SlotIntervals(report_seconds=0.1, purge_seconds=0.05)
    with fleet.during(driver):
        for turn in range(1, 4):
            fleet.connection.send(LINES, "k", *["a b"] * 10)
            wait_for(lambda turn=turn: fleet.counts().get("b") == 10 * turn)  # type: ignore[misc]
            wait_for(lambda turn=turn: len(log.purged) >= 4 * turn)  # type: ignore[misc]
        assert driver.state is DriverState.RUNNING
        wait_for(lambda: bool(driver.overview.warnings))
    assert not driver.overview.failures
    assert len(launcher.launched) == 1, "no slot started again"
    assert fleet.counts() == {"a": 31, "b": 30}
    (warned,) = driver.overview.warnings
    assert (warned.code, INTERNAL in warned.message) == ("not-allowed", True)
    assert "continues" in warned.hint
    log.close()


def test_a_slot_that_is_stopped_closes_before_it_purges(tmp_path: Path) -> None:
    log = Refusing(tmp_path / "log.db")
    fleet = Fleet(log, tmp_path)
    fleet.connection.send(LINES, "k", *["a b"] * 10)
    driver, launcher = fleet.catch_up(slots=1)
    assert driver.state is DriverState.STOPPED
    assert fleet.counts() == {"a": 10, "b": 10}
    writer = f"close {launcher.launched[0].writer}"
    assert "purge" in log.events
    assert log.events.index(writer) < log.events.index("purge")
    log.close()


@pytest.mark.parametrize(("retryable", "calls"), [(False, 3), (True, 1)])
def test_of_a_log_that_does_not_answer_only_one_partition_is_purged(
    tmp_path: Path, retryable: bool, calls: int
) -> None:
    log = Refusing(tmp_path / "log.db")
    log.retryable = retryable
    purger = Purger(log)
    behind = {TopicPartition("t", number): Offset(5) for number in range(3)}
    assert [problem.code for problem in purger.run(behind)] == ["not-allowed"]
    assert len(log.purged) == calls
    assert purger.run(behind) == [], "reported once"
    log.close()
