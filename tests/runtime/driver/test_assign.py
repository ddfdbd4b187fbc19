"""Tasks go where their state lies, and evenly."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidegate.log.positions import TaskId
from tidegate.runtime.driver.assign import assign, restore_savings
from tidegate.runtime.topics.status import Landing

TASKS = [TaskId("c", 1, 0, partition) for partition in range(6)]


def landing(slot: int, host: str = "h", **folders: int) -> Landing:
    held = {str(TASKS[int(name[1:])]): size for name, size in folders.items()}
    return Landing(1, slot, 1, host, 1, "m", held)


def test_without_state_tasks_are_spread_evenly() -> None:
    given_ = assign(TASKS, {0: landing(0), 1: landing(1)})
    assert [len(mine) for mine in given_.values()] == [3, 3]


def test_a_task_goes_to_the_host_that_holds_its_state() -> None:
    given_ = assign(TASKS, {0: landing(0, "a", t5=10, t4=10), 1: landing(1, "b", t0=10, t1=10)})
    assert {TASKS[4], TASKS[5]} <= set(given_[0])
    assert {TASKS[0], TASKS[1]} <= set(given_[1])


def test_the_newest_state_counts_where_two_hosts_hold_some() -> None:
    given_ = assign(TASKS[:2], {0: landing(0, "a", t0=5, t1=50), 1: landing(1, "b", t0=9, t1=10)})
    assert given_ == {0: [TASKS[1]], 1: [TASKS[0]]}


def test_a_host_that_holds_everything_does_not_get_everything() -> None:
    everything = {f"t{number}": 10 for number in range(6)}
    given_ = assign(TASKS, {0: landing(0, "a", **everything), 1: landing(1, "b")})
    assert [len(mine) for mine in given_.values()] == [3, 3]


def test_tasks_without_room_move_to_hosts_that_hold_their_state() -> None:
    """A worker was lost and came back: the other one holds everything by now."""
    everything = {f"t{number}": 100 for number in range(6)}
    given_ = assign(TASKS, {0: landing(0, "a", **everything), 1: landing(1, "b", t0=60, t1=60, t3=60)})
    assert given_ == {0: [TASKS[2], TASKS[4], TASKS[5]], 1: [TASKS[0], TASKS[1], TASKS[3]]}


def test_slots_that_changed_hosts_save_their_restore_by_changing_tasks() -> None:
    given_ = {0: TASKS[:3], 1: TASKS[3:]}
    swapped = {0: landing(0, "b", t3=10, t4=20, t5=30), 1: landing(1, "a", t0=5, t1=5, t2=5)}
    assert restore_savings(given_, swapped, restoring={0, 1}) == 75
    assert restore_savings(given_, swapped, restoring=set()) == 0, "what runs holds all of its state"
    assert restore_savings(given_, swapped, restoring={0}) == 0, "nobody who runs makes room"


def test_nothing_is_saved_where_each_has_what_there_is() -> None:
    given_ = {0: TASKS[:3], 1: TASKS[3:]}
    assert restore_savings(given_, {0: landing(0, "a", t0=10), 1: landing(1, "b")}, restoring={0, 1}) == 0
    both = {0: landing(0, "a", t0=5, t3=9), 1: landing(1, "b", t3=9, t0=5)}
    assert restore_savings(given_, both, restoring={0, 1}) == 0


def test_a_restoring_task_goes_where_there_is_room_for_it() -> None:
    """Of five tasks on two hosts, the slot that runs has two, and once held one of the others."""
    given_ = {0: TASKS[:3], 1: TASKS[3:5]}
    landings = {0: landing(0, "c"), 1: landing(1, "b", t1=40, t2=30)}
    assert restore_savings(given_, landings, restoring={0}) == 40


@given(
    st.lists(st.dictionaries(st.sampled_from(range(6)), st.integers(0, 3)), min_size=1, max_size=8),
    st.integers(0, 6),
)
def test_every_task_is_given_once_and_no_slot_has_more_than_its_share(
    held: list[dict[int, int]], count: int
) -> None:
    landings = {
        slot: landing(slot, f"h{slot}", **{f"t{n}": size for n, size in mine.items()})
        for slot, mine in enumerate(held)
    }
    given_ = assign(TASKS[:count], landings)
    assert sorted(task for mine in given_.values() for task in mine) == TASKS[:count]
    assert max(len(mine) for mine in given_.values()) <= -(-count // len(landings))
