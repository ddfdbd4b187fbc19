"""What is removed from a host's state folder, and what is never touched."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest
from tests.state.children import child
from tests.state.left_folders import (
    AGES,
    APP,
    FIRST,
    HOUR,
    LOG,
    NEEDS,
    NOW,
    SECOND,
    THIRD,
    TIGHT,
    clean,
    make,
    size,
    tree,
    write,
)
from tests.state.lives import claim_and_wait, clean_up_as_nobody

from tidegate.errors import StateError
from tidegate.log.positions import TaskId
from tidegate.state.checkpoint import CHECKPOINT
from tidegate.state.cleanup import Room
from tidegate.state.environment import Environment, Metadata
from tidegate.state.folders import TaskFolder, claim, task_home
from tidegate.state.inspect import find_newest

# --- foreign and outdated -------------------------------------------------------------------------------


def test_a_folder_that_its_task_may_come_back_to_stays(folder: Path) -> None:
    path = make(folder, FIRST)
    cleanup = clean(folder, AGES)
    assert (cleanup.removed, cleanup.problems) == ({}, [])
    found = find_newest(path.parent)
    assert found is not None
    assert found.metadata.task == FIRST


GONE = "the app has no such task any more"


@pytest.mark.parametrize(
    ("task", "reason"),
    [
        (TaskId("totals", 1, 0, 0), "it belongs to an older generation"),
        (TaskId("totals", 2, 0, 3), GONE),
        (TaskId("totals", 2, 1, 0), GONE),
        (TaskId("old", 2, 0, 0), GONE),
    ],
)
def test_a_task_that_the_app_no_longer_has_leaves_nothing(folder: Path, task: TaskId, reason: str) -> None:
    kept, path = make(folder, SECOND), make(folder, task)
    assert clean(folder).removed == {path: reason}
    assert not path.parent.exists()
    assert kept.exists()


def test_what_is_left_of_a_generation_is_not_even_its_name(folder: Path) -> None:
    paths = [make(folder, TaskId("totals", 1, 0, partition)) for partition in (0, 1)]
    clean(folder)
    assert not paths[0].parent.parent.exists()


def test_a_later_generation_is_not_judged_by_an_older_one(folder: Path) -> None:
    path = make(folder, TaskId("totals", 3, 9, 9), last=0)
    assert clean(folder, Room(NOW, HOUR, budget_bytes=1)).removed == {}
    assert path.exists()


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ({"log": "a-log-that-was-deleted"}, "it was built from another log"),
        ({"app": "bakery"}, "it belongs to bakery totals.g2/0_0"),
        ({"task": SECOND}, "it belongs to shop totals.g2/0_1"),
    ],
)
def test_a_folder_whose_metadata_names_another_owner_is_removed(
    folder: Path, metadata: dict[str, str], reason: str
) -> None:
    path = make(folder, **{"task": FIRST, **metadata}, at=FIRST)  # type: ignore[arg-type]
    assert clean(folder).removed == {path: reason}
    assert not path.exists()
    assert not path.with_name("0.lock").exists()


def test_the_folders_of_other_apps_are_theirs(folder: Path) -> None:
    path = make(folder, TaskId("totals", 1, 0, 0), app="bakery")
    other = shutil.move(folder / APP, folder / "bakery")
    clean(folder, Room(NOW, HOUR, budget_bytes=1))
    assert (other / path.relative_to(folder / APP) / "data.mdb").exists()


def test_older_numbers_are_removed_when_no_process_holds_them_and_the_newest_stays(folder: Path) -> None:
    home = task_home(folder, APP, FIRST)
    zombie, dead, last = claim(home), claim(home), claim(home)
    for one in (zombie, dead, last):
        write(one.path, FIRST)
    dead.release()
    last.release()
    assert clean(folder).removed == {home / "1": "a newer folder replaces it"}
    zombie.release()
    assert list(clean(folder).removed) == [home / "0"]
    assert sorted(path.name for path in home.iterdir()) == ["2", "2.lock"]


def test_numbers_count_as_numbers(folder: Path) -> None:
    home = task_home(folder, APP, FIRST)
    for number in ("9", "10"):
        write(home / number, FIRST)
    assert list(clean(folder).removed) == [home / "9"]


def test_without_any_state_nothing_is_made(folder: Path) -> None:
    cleanup = clean(folder, Room(NOW, HOUR, budget_bytes=1))
    assert (cleanup.removed, cleanup.problems, tree(folder)) == ({}, [], [])


# --- in use ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_folder_that_a_living_process_holds_survives_whatever_it_is(folder: Path) -> None:
    gone = TaskId("totals", 1, 0, 0)
    path = make(folder, gone, log="another", last=0)
    with child(claim_and_wait, task_home(folder, APP, gone)) as process:
        assert process.receive() == "0"
        assert clean(folder, TIGHT).removed == {}
        process.stop()
        assert clean(folder, TIGHT).removed == {}, "a stopped one lives"
        assert (path / "data.mdb").exists()
        process.kill()
        assert list(clean(folder, TIGHT).removed) == [path]


def test_a_folder_that_this_process_has_open_survives(folder: Path) -> None:
    path = make(folder, FIRST, log="another")
    environment = Environment(path, ["rows"])
    assert clean(folder, TIGHT).removed == {}
    environment.close()
    assert list(clean(folder, TIGHT).removed) == [path]


def before_the_lock(path: Path, act: Callable[[], object]) -> mock._patch[object]:
    """Does something once, when a lock on the folder is about to be taken."""
    lock_for_real, to_do = fcntl.flock, [act]

    def flock(handle: int, how: int) -> None:
        if to_do and Path(f"/proc/self/fd/{handle}").readlink().name == f"{path.name}.lock":
            to_do.pop()()
        lock_for_real(handle, how)

    return mock.patch.object(fcntl, "flock", flock)


@pytest.mark.parametrize("room", [None, TIGHT])
def test_a_folder_that_becomes_held_after_it_was_seen_survives(folder: Path, room: Room | None) -> None:
    path = make(folder, FIRST, log=LOG if room else "another")
    held: list[TaskFolder] = []
    with before_the_lock(path, lambda: held.append(claim(path.parent))):
        assert clean(folder, room).removed == {}
    assert [one.path for one in held] == [path]
    assert (path / "data.mdb").exists()
    held[0].release()


def test_a_folder_that_was_used_after_it_was_seen_survives(folder: Path) -> None:
    path = make(folder, FIRST, log="another")
    with before_the_lock(path, lambda: write(path, FIRST)):
        assert clean(folder).removed == {}
    assert clean(folder).removed == {}, "it is of this log now"
    assert (path / "data.mdb").exists()


def test_to_look_takes_no_lock_that_a_task_would_meet(folder: Path) -> None:
    path = make(folder, FIRST)
    met: list[Path] = []
    with before_the_lock(path, lambda: met.append(path)):
        clean(folder, Room(NOW, HOUR, budget_bytes=1 << 40))
    assert met == []


def test_one_process_of_a_host_cleans_up_at_a_time(folder: Path) -> None:
    path = make(folder, FIRST, log="another")

    def another() -> None:
        assert clean(folder).removed == {}

    with before_the_lock(path, another):
        assert list(clean(folder).removed) == [path]


# --- age and budget -------------------------------------------------------------------------------------


def test_what_slept_too_long_goes_only_when_tasks_hold_their_folders(folder: Path) -> None:
    """An app that was stopped for long finds all its state where it was."""
    old, young = make(folder, FIRST, last=NOW - HOUR - 1), make(folder, SECOND, last=NOW - HOUR)
    assert clean(folder).removed == {}
    assert clean(folder, AGES).removed == {
        old: "it was idle for longer than tombstones are guaranteed to be kept"
    }
    assert young.exists()


def test_without_a_time_in_its_metadata_a_folder_is_as_old_as_its_last_write(folder: Path) -> None:
    path = make(folder, FIRST)
    environment = Environment(path, ["rows"])
    environment.commit(Metadata(app=APP, task=FIRST, log=LOG))
    environment.close()
    os.utime(path / "data.mdb", (NOW / 1000, NOW / 1000))
    assert clean(folder, AGES).removed == {}
    os.utime(path / "data.mdb", (NOW / 1000 - 3601, NOW / 1000 - 3601))
    assert list(clean(folder, AGES).removed) == [path]


def test_over_the_budget_the_least_recently_used_is_removed_first(folder: Path) -> None:
    second, first, third = (
        make(folder, task, last=NOW - age) for task, age in ((FIRST, 20), (SECOND, 30), (THIRD, 10))
    )
    one = size(third)
    assert clean(folder, Room(NOW, HOUR, budget_bytes=3 * one)).removed == {}
    assert list(clean(folder, Room(NOW, HOUR, budget_bytes=3 * one - 1)).removed) == [first]
    assert list(clean(folder, Room(NOW, HOUR, budget_bytes=one)).removed) == [second]
    assert third.exists()


def test_folders_that_are_removed_anyway_make_room_first(folder: Path) -> None:
    kept, gone = make(folder, FIRST, last=NOW - 99), make(folder, SECOND, log="another")
    assert list(clean(folder, Room(NOW, HOUR, budget_bytes=size(kept))).removed) == [gone]


def test_state_in_use_stays_above_the_budget_and_that_is_reported(folder: Path) -> None:
    used, unused = make(folder, FIRST, last=NOW - 99), make(folder, SECOND)
    holder = claim(used.parent)
    cleanup = clean(folder, Room(NOW, HOUR, budget_bytes=size(used) - 1))
    assert list(cleanup.removed) == [unused]
    assert [problem.code for problem in cleanup.problems] == ["over-budget"]
    assert "state_budget_bytes" in cleanup.problems[0].hint
    assert used.exists()
    assert clean(folder, Room(NOW, HOUR, budget_bytes=size(used))).problems == []
    holder.release()


def test_users_own_stores_count_and_go_with_their_folder(folder: Path) -> None:
    path = make(folder, FIRST)
    (path / "store-mine").mkdir()
    (path / "store-mine" / "rows.bin").write_bytes(b"x" * 100_000)
    (path / CHECKPOINT).touch()
    assert clean(folder, Room(NOW, HOUR, budget_bytes=size(path))).removed == {}
    assert list(clean(folder, Room(NOW, HOUR, budget_bytes=size(path) - 1)).removed) == [path]
    assert not path.exists()


# --- failures -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_folder_without_write_permission_is_reported_and_the_others_are_removed(folder: Path) -> None:
    barred, other = (make(folder, TaskId("totals", 1, 0, partition)) for partition in (0, 1))
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o777)
    barred.chmod(0o555)
    with child(clean_up_as_nobody, folder, NEEDS) as process:
        removed, [(code, message)] = process.receive()
    assert removed == [other]
    assert code == "not-cleaned-up"
    assert str(barred) in message
    assert (barred / "data.mdb").exists()


@pytest.mark.slow
@pytest.mark.parametrize("mode", [0o555, 0o000])
def test_a_state_folder_that_may_not_be_used_is_reported(folder: Path, mode: int) -> None:
    path = make(folder, TaskId("totals", 1, 0, 0))
    (folder / APP).chmod(mode)
    folder.chmod(0o755)
    with child(clean_up_as_nobody, folder, NEEDS) as process:
        removed, [(code, _)] = process.receive()
    assert (removed, code) == ([], "not-cleaned-up")
    assert (path / "data.mdb").exists()


def test_a_removal_that_ends_in_the_middle_leaves_nothing_that_counts_as_sound(folder: Path) -> None:
    path = make(folder, TaskId("totals", 1, 0, 0))
    (path / CHECKPOINT).touch()
    full = OSError(errno.EIO, "the disk failed")
    with mock.patch.object(shutil, "rmtree", side_effect=full):
        cleanup = clean(folder)
    assert [problem.code for problem in cleanup.problems] == ["not-cleaned-up"]
    assert not (path / CHECKPOINT).exists()
    assert list(clean(folder).removed) == [path]


def test_a_file_that_was_cut_short_ends_nobody_and_waits_for_its_task(folder: Path) -> None:
    path = make(folder, FIRST)
    os.truncate(path / "data.mdb", 8192)
    assert clean(folder).removed == {}
    with pytest.raises(StateError, match="truncated"):
        find_newest(path.parent)
