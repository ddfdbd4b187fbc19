"""Restore, steps 5 and 6: in bounded steps, with progress that is kept and reported to a listener."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest
from tests.state.bench import AT_EVERY_COMMIT, AT_EVERY_TURN, PAGE_BY_PAGE, Bench, Task
from tests.state.children import child
from tests.state.faults import Failure, failing_at
from tests.state.ground import PAGE, Ground
from tests.state.lives import COUNTS, restore_a_little

from tidegate import stores
from tidegate.errors import StateError
from tidegate.log.faultpoints import installed

NAMES = stores.key_value("names", str)


def fill(task: Task, commits: int) -> None:
    for number in range(commits):
        task.put(COUNTS, f"key-{number % 7}", number)
        task.commit()


@pytest.mark.usefixtures("small_pages")
def test_a_huge_changelog_takes_many_steps_and_other_tasks_work_between_them(
    open_bench: Callable[..., Bench],
) -> None:
    bench = open_bench(partitions=2)
    fill(bench.start(COUNTS, host="a"), 60)
    before = bench.fold(COUNTS)
    slot = bench.slot()
    healthy = slot.start(COUNTS, partition=1)
    restoring = slot.open(COUNTS, partition=0, host="b", limits=PAGE_BY_PAGE)
    pages = 0
    while not restoring.restore.step():
        restored = restoring.listener.restored("counts")
        if restored == PAGE * pages:
            continue  # nothing had come yet
        pages += 1
        healthy.put(COUNTS, "ada", pages)
        slot.commit()
        assert bench.fold(COUNTS, partition=1) == {"ada": pages}, "the healthy task goes on"
        assert restored == PAGE * pages, "a step is one page"
    assert pages == 19
    assert restoring.rows(COUNTS) == before == bench.fold(COUNTS, partition=0)
    restoring.put(COUNTS, "bob", 1)
    slot.commit()
    assert bench.stands(COUNTS) == 61


def test_a_store_cannot_be_used_before_it_is_restored(bench: Bench) -> None:
    fill(bench.start(COUNTS, host="a"), 3)
    task = bench.open(COUNTS, host="b")
    with pytest.raises(StateError) as error:
        task.rows(COUNTS)
    assert error.value.code == "not-open"


class TestTheListener:
    """Told of every restore, store by store: start, batches, and end or suspended; before that, discards."""

    def test_gets_the_start_and_the_end_though_there_is_nothing_to_restore(self, bench: Bench) -> None:
        task = bench.start(COUNTS, NAMES)
        assert task.listener.events == [
            ("start", "counts", 0, 0, 0),
            ("start", "names", 0, 0, 0),
            ("end", "counts", 0, 0),
            ("end", "names", 0, 0),
        ]

    @pytest.mark.usefixtures("small_pages")
    def test_gets_each_batch_and_the_total(self, bench: Bench) -> None:
        fill(bench.start(COUNTS, host="a"), 4)
        assert bench.stands(COUNTS) == 4, "all of it shows"
        moved = bench.start(COUNTS, host="b", limits=PAGE_BY_PAGE)
        assert bench.restore_events(moved, COUNTS) == [
            ("start", 0, 4),
            ("batch", 3, 3),
            ("batch", 4, 1),
            ("end", 4),
        ]

    def test_gets_the_events_of_every_store(self, bench: Bench) -> None:
        task = bench.start(COUNTS, NAMES, host="a")
        fill(task, 4)
        task.put(NAMES, "ada", "Ada")
        task.commit()
        assert (bench.stands(COUNTS), bench.stands(NAMES)) == (4, 1), "all of it shows"
        moved = bench.start(COUNTS, NAMES, host="b")
        assert bench.restore_events(moved, COUNTS) == [("start", 0, 4), ("batch", 4, 4), ("end", 4)]
        assert bench.restore_events(moved, NAMES) == [("start", 0, 1), ("batch", 1, 1), ("end", 1)]

    def test_gets_a_discard_before_the_start(self, bench: Bench) -> None:
        task = bench.start(COUNTS, limits=AT_EVERY_COMMIT)
        fill(task, 1)
        before = bench.position()
        fill(task, 2)
        task.close()
        again = bench.start(COUNTS, at=before)
        assert [event[0] for event in again.listener.events] == ["discard", "start", "batch", "end"]

    @pytest.mark.usefixtures("small_pages")
    def test_gets_the_suspension_of_a_restore(self, bench: Bench) -> None:
        fill(bench.start(COUNTS, host="a"), 10)
        assert bench.stands(COUNTS) == 10, "all of it shows"
        moved = bench.open(COUNTS, host="b", limits=AT_EVERY_TURN)
        while not moved.listener.restored("counts"):
            assert not moved.restore.step()
        moved.restore.suspend()
        assert bench.restore_events(moved, COUNTS)[1:] == [("batch", 3, 3), ("suspended", 3)]
        again = bench.start(COUNTS, host="b")
        assert bench.span(again, COUNTS) == (3, 10), "the next one goes on"
        assert again.rows(COUNTS) == bench.fold(COUNTS)

    @pytest.mark.usefixtures("small_pages")
    @pytest.mark.parametrize("step", ["restore.3", "restore.4", "restore.5"])
    def test_gets_the_failure_of_a_restore(self, bench: Bench, step: str) -> None:
        fill(bench.start(COUNTS, host="a"), 10)
        moved = bench.open(COUNTS, host="b", limits=AT_EVERY_TURN)
        with pytest.raises(Failure), installed(failing_at(step, number=2)):
            moved.restore.run()
        assert moved.listener.events[-1][0] == "suspended"
        assert bench.start(COUNTS, host="b").rows(COUNTS) == bench.fold(COUNTS)

    def test_gets_no_suspension_when_only_the_last_step_failed(self, bench: Bench) -> None:
        """Each store had its end; the task is dropped and opened again all the same."""
        fill(bench.start(COUNTS, host="a"), 3)
        moved = bench.open(COUNTS, host="b")
        with pytest.raises(Failure), installed(failing_at("restore.6")):
            moved.restore.run()
        assert moved.listener.events[-1] == ("end", "counts", 0, 3)
        assert bench.start(COUNTS, host="b").rows(COUNTS) == bench.fold(COUNTS)


@pytest.mark.parametrize("step", ["restore.1", "restore.2"])
def test_a_restore_that_fails_early_releases_its_folder(bench: Bench, step: str) -> None:
    fill(bench.start(COUNTS, host="a"), 3)
    with pytest.raises(Failure), installed(failing_at(step)):
        bench.start(COUNTS, host="b")
    again = bench.start(COUNTS, host="b")
    assert again.state.folder.name == "0"
    assert again.rows(COUNTS) == bench.fold(COUNTS)


def test_a_folder_that_cannot_be_opened_is_released(bench: Bench) -> None:
    fill(bench.start(COUNTS, host="a"), 3)
    in_the_way = bench.folder / "b" / "0" / "0" / "data.mdb"
    in_the_way.mkdir(parents=True)
    with pytest.raises(StateError) as error:
        bench.start(COUNTS, host="b")
    assert error.value.code == "state-io"
    in_the_way.rmdir()
    assert bench.start(COUNTS, host="b").state.folder.name == "0"


@pytest.mark.slow
def test_i12_a_restore_that_is_killed_five_times_goes_on_each_time(ground: Ground) -> None:
    with closing(ground.bench()) as bench:
        fill(bench.start(COUNTS, host="elsewhere"), 50)
        spans = []
        for _ in range(5):
            with child(restore_a_little, ground) as process:
                spans.append(process.receive())
                assert process.receive() == "in the third page"
                process.kill()
        assert [bench.count(COUNTS, start) for start, _ in spans] == [0, 6, 12, 18, 24], "two pages each"
        assert {end for _, end in spans} == {bench.position().changelogs["counts"]}
    with closing(ground.bench()) as bench:
        task = bench.start(COUNTS)
        assert bench.span(task, COUNTS) == (30, 50)
        assert task.rows(COUNTS) == bench.fold(COUNTS)
