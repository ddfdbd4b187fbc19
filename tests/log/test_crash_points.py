"""A crash at every numbered step of a commit and of a compaction (`writer.py` and `rewrite.py` number them).

Once as an exception, in process, where the same log must go on; and once as SIGKILL of a real process, where
the next one must find all that was acknowledged, and of the rest nothing or the whole (I1, I3).
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import pytest
from tests.log.faulty_vfs import FaultyVfs
from tests.log.history import (
    MEDIUM,
    TABLE,
    check_goes_on,
    check_holds,
    check_whole,
    commit,
    create_topics,
    files_of,
    forking,
    put,
)

from tidegate.log import faultpoints
from tidegate.log.sqlite import append as log_append
from tidegate.log.sqlite.log import SqliteLog

ACKNOWLEDGED = [0, 1, 2]
COMMIT = [f"log.commit.{step}" for step in range(1, 9)]
COMPACT = [f"log.compact.{step}" for step in range(2, 6)]
VISIBLE_FROM = "log.commit.8"
ACKS = "acknowledged"
LAST = 60


class Crash(BaseException):
    """No error that anybody may catch and go on from."""


class CrashAt:
    """Fires at the `arrival`-th time that a point is reached."""

    def __init__(self, point: str, arrival: int, fire: Callable[[], None]) -> None:
        self._point = point
        self._left = arrival
        self._fire = fire

    def __call__(self, point: str) -> None:
        if point == self._point:
            self._left -= 1
            if self._left == 0:
                self._fire()

    @property
    def fired(self) -> bool:
        return self._left <= 0


def raise_crash() -> None:
    raise Crash


def kill_this_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("base") / "log.db"
    vfs = FaultyVfs()
    with closing(SqliteLog(path, upkeep=False, vfs=vfs.name)) as log:
        create_topics(log)
        with closing(log.writer("writer")) as writer:
            for number in ACKNOWLEDGED:
                commit(writer, number)
    return path


@pytest.fixture
def vfs() -> Iterator[FaultyVfs]:
    vfs = FaultyVfs()
    yield vfs
    vfs.unregister()


@pytest.mark.parametrize("arrival", [1, 3])
@pytest.mark.parametrize("point", COMMIT)
def test_a_commit_that_breaks_off_leaves_nothing_before_its_last_step_and_all_behind_it(
    base: Path, tmp_path: Path, vfs: FaultyVfs, monkeypatch: pytest.MonkeyPatch, point: str, arrival: int
) -> None:
    monkeypatch.setattr(log_append, "PIECE_BYTES", 20_000)  # so that little data is many pieces
    path = tmp_path / "log.db"
    shutil.copy(base, path)
    crash = CrashAt(point, arrival, raise_crash)
    done = list(ACKNOWLEDGED)
    with closing(SqliteLog(path, upkeep=False, vfs=vfs.name, spill_bytes=50_000)) as log:
        writer = log.writer("writer")
        with faultpoints.installed(crash):
            while True:
                try:
                    commit(writer, MEDIUM)
                except Crash:
                    break
                done.append(MEDIUM)
        assert crash.fired
        if point == VISIBLE_FROM:
            done.append(MEDIUM)
        check_holds(log, done)
        put(tmp_path / "killed", files_of(path))
        check_goes_on(log, done, 3)
    with closing(SqliteLog(tmp_path / "killed" / "log.db", upkeep=False, vfs=vfs.name)) as log:
        check_goes_on(log, done, 3)


@pytest.mark.parametrize("arrival", [1, 2])
@pytest.mark.parametrize("point", COMPACT)
def test_a_compaction_that_breaks_off_changes_no_table_and_can_be_done_again(
    base: Path, tmp_path: Path, vfs: FaultyVfs, point: str, arrival: int
) -> None:
    path = tmp_path / "log.db"
    shutil.copy(base, path)
    crash = CrashAt(point, arrival, raise_crash)
    with closing(SqliteLog(path, upkeep=False, vfs=vfs.name)) as log:
        with faultpoints.installed(crash), pytest.raises(Crash):
            log.compact(TABLE)
        check_holds(log, ACKNOWLEDGED)
        put(tmp_path / "killed", files_of(path))
        log.compact(TABLE)
        check_goes_on(log, ACKNOWLEDGED, 3)
    with closing(SqliteLog(tmp_path / "killed" / "log.db", upkeep=False, vfs=vfs.name)) as log:
        log.compact(TABLE)
        check_goes_on(log, ACKNOWLEDGED, 3)


def live(path: Path, point: str, arrival: int, upkeep: bool = False) -> None:
    """What a child does: transactions from 3 on, each put down when acknowledged, and compactions."""
    acks = os.open(path.with_name(ACKS), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    log = SqliteLog(path, upkeep=upkeep)
    writer = log.writer("writer")
    with faultpoints.installed(CrashAt(point, arrival, kill_this_process)):
        for number in range(3, LAST + 1):
            commit(writer, number)
            os.write(acks, b"%d " % number)
            if number % 5 == 0 and not upkeep:
                log.compact(TABLE)


def started(*arguments: Any) -> ForkServerProcess:
    """A child that lives."""
    child = forking().Process(target=live, args=arguments)
    child.start()
    return child


def check_what_is_left(path: Path) -> None:
    """Opens what a killed child left behind."""
    acks = path.with_name(ACKS)
    acknowledged = [int(number) for number in acks.read_text().split()] if acks.exists() else []
    in_flight = 3 + len(acknowledged)
    with closing(SqliteLog(path, upkeep=False)) as log:
        done = check_whole(log, [*ACKNOWLEDGED, *acknowledged], in_flight)
        check_goes_on(log, done, in_flight)
        log.compact(TABLE)
        check_holds(log, [*done, in_flight])


KILLS = [
    *[(point, arrival) for point in COMMIT if not point.endswith(".2") for arrival in (1, 9)],
    ("log.commit.2", 1),
    ("log.commit.2", 4),
    *[(point, arrival) for point in COMPACT for arrival in (1, 4)],
]


@pytest.mark.slow
def test_a_killed_process_leaves_all_that_it_acknowledged_and_no_part_of_anything(
    base: Path, tmp_path: Path
) -> None:
    """All kills in one test, so that the children run side by side."""
    children = []
    for point, arrival in KILLS:
        path = tmp_path / f"{point}-{arrival}" / "log.db"
        put(path.parent, {"log.db": base.read_bytes()})
        children.append((path, started(path, point, arrival)))
    for path, child in children:
        child.join()
        assert child.exitcode == -signal.SIGKILL, path
        check_what_is_left(path)


@pytest.mark.slow
def test_a_process_killed_at_any_time_with_its_upkeep_running_loses_nothing(
    base: Path, tmp_path: Path
) -> None:
    rng = random.Random(1)
    for run in range(6):
        path = tmp_path / str(run) / "log.db"
        put(path.parent, {"log.db": base.read_bytes()})
        child = started(path, "never", 0, True)
        while not path.with_name(ACKS).exists() and child.is_alive():
            time.sleep(0.001)
        time.sleep(rng.uniform(0, 0.15))
        child.kill()
        child.join()
        check_what_is_left(path)


@pytest.mark.slow
def test_a_log_that_another_process_writes_to_can_be_opened_at_any_time(base: Path, tmp_path: Path) -> None:
    """A live WAL is not checked, and looking at the file disturbs no process."""
    path = tmp_path / "log.db"
    shutil.copy(base, path)
    child = started(path, "never", 0)
    while child.is_alive():
        with closing(SqliteLog(path, upkeep=False)) as log:
            log.describe(TABLE)
    assert child.exitcode == 0
    with closing(SqliteLog(path, upkeep=False)) as log:
        check_holds(log, range(LAST + 1))
