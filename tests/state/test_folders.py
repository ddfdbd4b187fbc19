"""Which folder a task works in: one owner at a time, without waiting."""

from __future__ import annotations

import fcntl
import shutil
from itertools import count
from pathlib import Path
from unittest import mock

import pytest
from tests.state.children import child
from tests.state.lives import claim_again_and_again, claim_and_wait

from tidegate.errors import StateError
from tidegate.state.environment import Environment
from tidegate.state.folders import claim, empty, remove_older


def names(home: Path) -> list[str]:
    return sorted(path.name for path in home.iterdir())


def test_a_new_home_gets_its_first_folder(tmp_path: Path) -> None:
    folder = claim(tmp_path / "deep" / "home")
    assert folder.path == tmp_path / "deep" / "home" / "0"
    assert folder.held is None
    assert names(tmp_path / "deep" / "home") == ["0", "0.lock"]
    folder.release()


def test_a_free_folder_is_used_again(tmp_path: Path) -> None:
    first = claim(tmp_path)
    (first.path / "row").touch()
    first.release()
    first.release()
    again = claim(tmp_path)
    assert names(again.path) == ["row"]
    assert again.held is None
    again.release()


def test_a_held_folder_is_left_alone_and_the_next_number_is_taken(tmp_path: Path) -> None:
    folders = [claim(tmp_path) for _ in range(4)]
    assert [folder.path.name for folder in folders] == ["0", "1", "2", "3"]
    assert [folder.held and folder.held.name for folder in folders] == [None, "0", "1", "2"]
    for folder in folders:
        folder.release()


def test_numbers_rise_as_numbers(tmp_path: Path) -> None:
    for number in ("2", "9", "10", "notes", "11.lock"):
        (tmp_path / number).mkdir()
    (tmp_path / "12").touch()
    folder = claim(tmp_path)
    assert folder.path.name == "10"
    folder.release()


def test_the_newest_folder_is_taken_though_an_older_one_is_free(tmp_path: Path) -> None:
    first, second = claim(tmp_path), claim(tmp_path)
    first.release()
    second.release()
    third = claim(tmp_path)
    assert third.path.name == "1"
    third.release()


def test_older_folders_are_removed_once_no_process_holds_them(tmp_path: Path) -> None:
    zombie, dead, mine = claim(tmp_path), claim(tmp_path), claim(tmp_path)
    dead.release()
    remove_older(mine)
    assert names(tmp_path) == ["0", "0.lock", "2", "2.lock"]
    zombie.release()
    remove_older(mine)
    assert names(tmp_path) == ["2", "2.lock"]
    mine.release()


def test_a_folder_that_this_process_still_has_open_is_not_removed(tmp_path: Path) -> None:
    old = claim(tmp_path)
    environment = Environment(old.path, ["rows"])
    mine = claim(tmp_path)
    old.release()
    remove_older(mine)
    assert (tmp_path / "0").exists()
    environment.close()
    remove_older(mine)
    assert not (tmp_path / "0").exists()
    mine.release()


def test_an_emptied_folder_still_belongs_to_the_app(tmp_path: Path) -> None:
    mine = claim(tmp_path)
    (mine.path / "row").touch()
    (mine.path / "store").mkdir()
    empty(mine)
    assert names(mine.path) == []
    other = claim(tmp_path)
    assert other.path.name == "1"
    mine.release()
    other.release()


def test_a_lock_file_that_was_deleted_is_no_lock(tmp_path: Path) -> None:
    """Somebody cleaned up by hand: the owner keeps its file, and the next one makes a new lock."""
    owner = claim(tmp_path)
    (tmp_path / "0.lock").unlink()
    shutil.rmtree(tmp_path / "0")
    other = claim(tmp_path)
    assert other.path.name == "0"
    assert claimed_by_others(tmp_path) == "1"
    owner.release()
    other.release()


def test_a_lock_on_a_file_that_was_just_removed_is_taken_again(tmp_path: Path) -> None:
    """Its former owner removed the folder between our opening of the lock file and our lock on it."""
    lock_for_real, calls = fcntl.flock, count()

    def removed_meanwhile(handle: int, how: int) -> None:
        if next(calls) == 0:
            (tmp_path / "0.lock").unlink()
        lock_for_real(handle, how)

    with mock.patch.object(fcntl, "flock", removed_meanwhile):
        mine = claim(tmp_path)
    assert mine.path.name == "0"
    assert claimed_by_others(tmp_path) == "1", "the lock is one that others meet"
    mine.release()


def test_a_home_that_is_a_file_is_reported_by_name(tmp_path: Path) -> None:
    (tmp_path / "home").touch()
    with pytest.raises(StateError) as error:
        claim(tmp_path / "home")
    assert error.value.code == "state-io"
    assert error.value.hint


@pytest.mark.slow
def test_the_lock_of_a_living_process_holds_and_that_of_a_killed_one_does_not(tmp_path: Path) -> None:
    with child(claim_and_wait, tmp_path) as process:
        assert process.receive() == "0"
        assert claimed_by_others(tmp_path) == "1"
        process.stop()
        assert claimed_by_others(tmp_path) == "1", "a stopped one lives"
        shutil.rmtree(tmp_path / "1")
        process.kill()
        assert claimed_by_others(tmp_path) == "0"


@pytest.mark.slow
def test_processes_that_claim_and_clean_at_once_never_share_a_folder(tmp_path: Path) -> None:
    """Three of them take, use, leave and remove folders as fast as they can."""
    with (
        child(claim_again_and_again, tmp_path, 51, 1.5) as first,
        child(claim_again_and_again, tmp_path, 51, 1.5) as second,
        child(claim_again_and_again, tmp_path, 51, 1.5) as third,
    ):
        turns = [process.receive() for process in (first, second, third)]
    assert min(turns) > 50


def claimed_by_others(home: Path) -> str:
    """The name of the folder that the next one gets."""
    folder = claim(home)
    folder.release()
    return folder.path.name
