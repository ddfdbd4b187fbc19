"""A process that should be dead and is not: it is not waited for, and nothing that it does counts."""

from __future__ import annotations

from contextlib import closing

import pytest
from tests.state.bench import AT_EVERY_COMMIT, Bench, Task
from tests.state.children import Child, child
from tests.state.faults import at
from tests.state.ground import Ground
from tests.state.lives import COUNTS, holder, newcomer, zombie

from tidegate.errors import FencedError
from tidegate.log.faultpoints import installed

TEN = {f"key-{number}": number for number in range(10)}
TWENTY = {f"key-{number}": number for number in range(20)}
THIRTY = {f"key-{number}": number for number in range(30)}


@pytest.mark.parametrize("step", ["commit.6", "commit.7"])
def test_i8_a_zombie_that_wakes_up_in_a_commit_works_in_a_folder_of_its_own(bench: Bench, step: str) -> None:
    """In one process: the environment cannot be opened twice, so the new task is restored from the log."""
    sleeper = bench.start(COUNTS, limits=AT_EVERY_COMMIT)
    sleeper.put(COUNTS, "ada", 1)
    sleeper.commit()
    sleeper.put(COUNTS, "ada", 2)
    newer: list[Task] = []

    def take_over() -> None:
        newer.append(bench.start(COUNTS, limits=AT_EVERY_COMMIT))
        newer[0].put(COUNTS, "ada", 3)
        newer[0].put(COUNTS, "bob", 3)
        newer[0].commit()

    with installed(at(step, take_over)):
        sleeper.commit()
    [task] = newer
    assert (sleeper.state.folder.name, task.state.folder.name) == ("0", "1")
    assert bench.span(task, COUNTS) == (0, 2)
    sleeper.put(COUNTS, "ghost", 1)
    with pytest.raises(FencedError):
        sleeper.commit()
    sleeper.drop()
    assert task.rows(COUNTS) == {"ada": 3, "bob": 3} == bench.fold(COUNTS)
    task.drop()

    again = bench.start(COUNTS)
    assert again.state.folder.name == "1"
    assert bench.span(again, COUNTS) == (4, 4)
    assert again.rows(COUNTS) == {"ada": 3, "bob": 3}
    assert not (again.state.folder.parent / "0").exists(), "what the zombie left is swept"


@pytest.mark.slow
@pytest.mark.parametrize("step", ["commit.6", "commit.7"])
def test_i8_a_zombie_process_that_wakes_up_in_a_commit_changes_nothing(ground: Ground, step: str) -> None:
    with child(zombie, ground, step) as sleeper:
        assert sleeper.receive() == "asleep"
        with child(newcomer, ground) as task:
            check_newcomer(task)
            sleeper.send()
            assert sleeper.receive() == "fenced"
            task.send()
            assert task.receive() == "closed"
    check_what_is_left(ground)


@pytest.mark.slow
def test_a_stopped_holder_of_the_folder_is_not_waited_for(ground: Ground) -> None:
    """SIGSTOP inside an open write transaction: the folder's lock and LMDB's write mutex stay held."""
    with child(holder, ground) as stopped:
        assert stopped.receive() == "in a write transaction"
        stopped.stop()
        with child(newcomer, ground) as task:
            check_newcomer(task)
            stopped.go_on()
            stopped.send()
            assert stopped.receive() == "fenced"
            task.send()
            assert task.receive() == "closed"
    check_what_is_left(ground)


def check_newcomer(task: Child) -> None:
    """It took the next folder, copied what the holder had persisted, and restored the tail alone."""
    assert task.receive() == ("1", TEN)
    assert task.receive() == ((10, 20), 10, TWENTY)
    assert task.receive() == "at work"


def check_what_is_left(ground: Ground) -> None:
    """The newcomer's folder, and what the newcomer did."""
    with closing(ground.bench()) as bench:
        again = bench.start(COUNTS)
        assert again.state.folder.name == "1"
        assert bench.span(again, COUNTS) == (30, 30)
        assert again.listener.discards() == {}
        assert again.rows(COUNTS) == THIRTY == bench.fold(COUNTS)
