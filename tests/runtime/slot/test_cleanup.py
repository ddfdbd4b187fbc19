"""A run keeps the state folder of its host small, and nothing is lost by that."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.runtime.fleet import LINES, Fleet, Threads
from tests.waiting import wait_for

from tidegate.clock import SystemClock
from tidegate.log import names
from tidegate.log.reads import read_between
from tidegate.log.records import rows_of
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.driver.prepare import attach
from tidegate.runtime.slot.job import SlotIntervals, SlotJob
from tidegate.runtime.topics.slot_order import SlotOrder
from tidegate.runtime.topics.status import Status, Warned
from tidegate.state.changelog import DELETE_RETENTION_MS
from tidegate.state.inspect import find_folders
from tidegate.types import TopicPartition

pytestmark = pytest.mark.slow


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    log = SqliteLog(tmp_path / "log.db")
    yield Fleet(log, tmp_path)
    log.close()


def send(fleet: Fleet, *lines: str) -> None:
    fleet.connection.send(LINES, "k", *lines)


def homes(fleet: Fleet) -> dict[str, Path]:
    """The newest folder of each task that lies on this host."""
    found = find_folders(fleet.folder / "state", "wordcount")
    return {str(one.folder.relative_to(fleet.folder / "state" / "wordcount")): one.folder for one in found}


def warnings(fleet: Fleet) -> list[Warned]:
    status = TopicPartition(names.status("wordcount"), 0)
    batches = read_between(fleet.log, status, 0, int(fleet.log.ends([status])[status]))
    reported = [msgspec.json.decode(row.value or b"", type=Status) for one in batches for row in rows_of(one)]
    return [one for one in reported if isinstance(one, Warned)]


class Tight(Threads):
    """Slots on hosts that may hold no more than a byte of state."""

    def launch(self, order: SlotOrder) -> None:
        super().launch(msgspec.structs.replace(order, state_budget_bytes=1))


def test_a_run_removes_outdated_folders_and_the_next_ones_restore_right(fleet: Fleet) -> None:
    """One slot lands where that counts: in one process two would not let each other look into a folder."""
    send(fleet, "a b", "a")
    fleet.catch_up()
    state = fleet.folder / "state" / "wordcount"
    first = homes(fleet)
    outdated = [
        Path(shutil.copytree(path, state / name.replace(".g1", ".g0"))) for name, path in first.items()
    ]
    send(fleet, "a c")
    fleet.catch_up(slots=1)
    assert len(outdated) == 6
    assert not any(path.exists() for path in outdated)
    assert homes(fleet) == first
    shutil.rmtree(state)
    send(fleet, "c")
    fleet.catch_up()
    assert fleet.counts() == Counter("abaacc")
    assert warnings(fleet) == []


def test_state_of_a_log_that_was_deleted_is_neither_reported_nor_kept(fleet: Fleet, tmp_path: Path) -> None:
    send(fleet, "old old old")
    fleet.catch_up()
    stale = homes(fleet)
    other = SqliteLog(tmp_path / "new.db")
    new_fleet = Fleet(other, tmp_path)
    send(new_fleet, "new")
    driver, _ = new_fleet.catch_up(slots=1)
    assert [landing.folders for landing in driver.overview.landings.values()] == [{}]
    assert new_fleet.counts() == {"new": 1}
    assert homes(new_fleet).keys() == stale.keys()
    other.close()


def test_tasks_that_need_more_than_the_budget_go_on_and_that_is_reported_once(fleet: Fleet) -> None:
    send(fleet, "a b", "a")
    driver, launcher = fleet.driver(slots=1, threads=Tight)
    launcher.intervals = SlotIntervals(make_room_after_seconds=0.0, make_room_seconds=0.0)
    with fleet.during(driver):
        wait_for(lambda: bool(warnings(fleet)))
        send(fleet, "b")
        wait_for(lambda: fleet.counts() == {"a": 2, "b": 2})
    assert [warned.code for warned in warnings(fleet)] == ["over-budget"]
    fleet.catch_up()
    assert fleet.counts() == {"a": 2, "b": 2}
    assert len(homes(fleet)) == 6


def test_folders_sleep_for_half_as_long_as_tombstones_are_kept(fleet: Fleet) -> None:
    _, launcher = fleet.catch_up(slots=1)
    clock = SystemClock()
    job = SlotJob(launcher.launched[0], attach(fleet.app().build(), fleet.log, clock), fleet.log, clock)
    assert job._longest_idle_ms() == DELETE_RETENTION_MS // 2
