"""Restore, step 2: a store that cannot be continued is thrown away loudly, and only such a store."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.state.bench import APP, AT_EVERY_COMMIT, PAGE_BY_PAGE, SELDOM, Bench
from tests.state.faults import at
from tests.state.lives import COUNTS

from tidegate.errors import StateError
from tidegate.log.faultpoints import installed
from tidegate.log.positions import TaskId
from tidegate.log.records import Row, to_batch
from tidegate.state.changelog import DELETE_RETENTION_MS, changelog_spec
from tidegate.state.manager import Limits, Owner

CHANGELOG = "shop-counts-changelog"
FORGETFUL = replace(COUNTS, config={"delete.retention.ms": "1000"})
"""As if it had been set at the broker: `with_changelog` does not take so little."""


def write(bench: Bench, host: str, rows: dict[str, int | None]) -> None:
    """One life of the task on a host, closed cleanly."""
    task = bench.start(COUNTS, host=host, limits=AT_EVERY_COMMIT)
    for key, value in rows.items():
        task.put(COUNTS, key, value)
        task.commit()
    task.close()


def test_a_store_below_the_start_of_its_changelog_is_rebuilt(bench: Bench) -> None:
    write(bench, "a", {"old": 1, "older": 1})
    write(bench, "b", {"old": 2, "older": 2, "ada": 3})
    _, last_of_a, _, kept, _ = bench.offsets(COUNTS)
    bench.cut(COUNTS, kept)
    task = bench.start(COUNTS, host="a")
    assert task.listener.discards() == {
        "counts": f"its changelog now starts at {kept}, after its offset {last_of_a + 1}"
    }
    assert task.listener.span("counts") == (kept, bench.position().changelogs["counts"])
    assert task.rows(COUNTS) == {"older": 2, "ada": 3} == bench.fold(COUNTS)


def test_a_current_store_outlives_its_changelog(bench: Bench) -> None:
    write(bench, "a", {"ada": 1, "bob": 2})
    bench.cut(COUNTS, bench.position().changelogs["counts"])
    task = bench.start(COUNTS, host="a")
    assert task.listener.discards() == {}
    assert task.rows(COUNTS) == {"ada": 1, "bob": 2}


def test_i7_a_store_ahead_of_the_log_is_rebuilt_to_the_position(bench: Bench) -> None:
    write(bench, "a", {"ada": 1})
    before = bench.position()
    write(bench, "a", {"ada": 2, "bob": 2})
    at, ahead = before.changelogs["counts"], bench.position().changelogs["counts"]
    task = bench.start(COUNTS, host="a", at=before)
    assert task.listener.discards() == {"counts": f"it is ahead of the log ({ahead}, committed is {at})"}
    assert bench.span(task, COUNTS) == (0, 1)
    assert task.rows(COUNTS) == {"ada": 1}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"app": "another"}, "it belongs to shop totals.g1/0_0"),
        ({"log": "another"}, "it was built from another log"),
        ({"task": TaskId("totals", 2, 0, 0)}, "it belongs to shop totals.g1/0_0"),
    ],
    ids=["app", "log", "generation"],
)
def test_a_store_of_somebody_else_is_rebuilt(bench: Bench, change: dict[str, object], reason: str) -> None:
    write(bench, "a", {"ada": 1})
    mine = {"app": APP, "task": TaskId("totals", 1, 0, 0), "log": bench.log.id}
    write(bench, "elsewhere", {"ada": 2})
    task = bench.start(COUNTS, host="a", owner=Owner(**{**mine, **change}), at=bench.position())  # type: ignore[arg-type]
    assert task.listener.discards() == {"counts": reason}
    assert bench.span(task, COUNTS) == (0, 2)
    assert task.rows(COUNTS) == {"ada": 2}


def test_a_store_whose_changelog_was_recreated_is_rebuilt_from_the_new_one(bench: Bench) -> None:
    write(bench, "a", {"ada": 1, "bob": 1})
    bench.log.delete(CHANGELOG)
    bench.log.create(changelog_spec(CHANGELOG, 1, {}))
    count = bench.position().changelogs["counts"]
    copied = [Row(b"cleo", COUNTS.value.encode(number), 5) for number in range(count)]
    bench.log.append(bench.changelog_of(COUNTS), to_batch(copied))
    task = bench.start(COUNTS, host="a")
    assert task.listener.discards() == {"counts": "its changelog was recreated"}
    assert task.rows(COUNTS) == {"cleo": count - 1} == bench.fold(COUNTS)


def test_a_changelog_that_lost_its_records_is_an_error_and_not_waited_for(bench: Bench) -> None:
    write(bench, "a", {"ada": 1, "bob": 1})
    bench.log.delete(CHANGELOG)
    with pytest.raises(StateError) as error:
        bench.start(COUNTS, host="a")
    assert (error.value.code, error.value.retryable) == ("changelog-lost", False)
    count = bench.position().changelogs["counts"]
    assert f"ends at 0, but the position names offset {count}" in error.value.message


def test_a_store_that_slept_past_its_tombstones_does_not_bring_deleted_keys_back(bench: Bench) -> None:
    task = bench.start(FORGETFUL, host="a", limits=AT_EVERY_COMMIT)
    task.put(FORGETFUL, "gone", 1)
    task.put(FORGETFUL, "kept", 1)
    task.commit()
    task.drop()
    moved = bench.start(FORGETFUL, host="b")
    moved.delete(FORGETFUL, "gone")
    moved.put(FORGETFUL, "kept", 2)
    moved.commit()
    bench.forget(FORGETFUL, 1_100)
    assert bench.changelog(FORGETFUL) == [("kept", 2)], "the tombstone is gone from the log"

    back = bench.start(FORGETFUL, host="a")
    assert back.listener.discards() == {
        "counts": "it was idle for longer than tombstones are guaranteed to be kept"
    }
    assert back.rows(FORGETFUL) == {"kept": 2} == bench.fold(FORGETFUL)


def test_a_restore_that_outlasts_the_tombstones_starts_over(bench: Bench) -> None:
    task = bench.start(FORGETFUL, host="a", limits=AT_EVERY_COMMIT)
    task.put(FORGETFUL, "gone", 1)
    task.commit()
    task.drop()
    moved = bench.start(FORGETFUL, host="b")
    moved.delete(FORGETFUL, "gone")
    moved.put(FORGETFUL, "kept", 2)
    moved.commit()
    bench.compact(FORGETFUL)

    back = bench.open(FORGETFUL, host="a")
    assert back.listener.discards() == {}, "it is not too late yet"
    bench.forget(FORGETFUL, 1_100)
    back.restore.run()
    assert back.listener.discards() == {"counts": "its restore took too long"}
    assert back.rows(FORGETFUL) == {"kept": 2}


@pytest.mark.usefixtures("small_pages")
def test_a_restore_that_outlasts_the_tombstones_twice_fails_by_name(bench: Bench) -> None:
    task = bench.start(FORGETFUL, host="a")
    for number in range(30):
        task.put(FORGETFUL, f"key-{number}", number)
        task.commit()
    task.drop()
    slow = bench.open(FORGETFUL, host="b", limits=PAGE_BY_PAGE)
    turns = 0
    with pytest.raises(StateError) as error:
        while not slow.restore.step():
            bench.clock.advance(400)
            turns += 1
            assert turns < 50, "it starts over for ever"
    assert error.value.code == "restore-too-slow"
    assert "'counts'" in error.value.message
    assert "500 ms" in error.value.message
    assert CHANGELOG in error.value.hint
    assert [event[3] for event in slow.listener.events if event[0] == "discard"] == [
        "its restore took too long"
    ]
    assert bench.start(FORGETFUL, host="b").rows(FORGETFUL) == bench.fold(FORGETFUL), "a quicker one ends"


def test_a_task_that_slept_after_reading_its_position_is_as_old_as_what_it_read(bench: Bench) -> None:
    task = bench.start(FORGETFUL, host="a", limits=AT_EVERY_COMMIT)
    task.put(FORGETFUL, "gone", 1)
    task.commit()
    task.drop()

    def meanwhile() -> None:
        moved = bench.start(FORGETFUL, host="b")
        moved.delete(FORGETFUL, "gone")
        moved.put(FORGETFUL, "kept", 2)
        moved.commit()
        bench.forget(FORGETFUL, 1_100)

    with installed(at("restore.1", meanwhile)):
        zombie = bench.start(FORGETFUL, host="a")
    assert zombie.rows(FORGETFUL) == {"gone": 1}, "it is where it thinks it should be"
    zombie.close()
    back = bench.start(FORGETFUL, host="a")
    assert back.listener.discards() == {
        "counts": "it was idle for longer than tombstones are guaranteed to be kept"
    }
    assert back.rows(FORGETFUL) == {"kept": 2}


def test_a_quiet_store_that_is_current_is_kept_however_old_it_is(bench: Bench) -> None:
    write(bench, "a", {"ada": 1})
    bench.clock.advance(10 * DELETE_RETENTION_MS)
    task = bench.start(COUNTS, host="a")
    assert task.listener.discards() == {}
    assert bench.span(task, COUNTS) == (1, 1)
    assert task.rows(COUNTS) == {"ada": 1}


def test_a_store_that_was_open_all_the_time_did_not_sleep(bench: Bench) -> None:
    """Quiet for weeks, then one write and a crash: the tail is enough."""
    task = bench.start(COUNTS, host="a", limits=Limits(idle_seconds=0))
    task.put(COUNTS, "ada", 1)
    task.commit()
    task.state.persist_now()
    bench.clock.advance(DELETE_RETENTION_MS)
    task.commit()
    task.put(COUNTS, "ada", 2)
    task.commit()
    task.drop()
    again = bench.start(COUNTS, host="a")
    assert again.listener.discards() == {}
    assert bench.span(again, COUNTS) == (1, 2)
    assert again.rows(COUNTS) == {"ada": 2}


def test_a_zombie_that_stays_open_sleeps_all_the_same(bench: Bench) -> None:
    """It commits its store hourly, and asks the log first whether it still holds everything."""
    zombie = bench.start(COUNTS, host="a", limits=Limits(idle_seconds=0))
    zombie.put(COUNTS, "ada", 1)
    zombie.commit()
    zombie.state.persist_now()
    write(bench, "b", {"ada": None, "bob": 2})
    bench.clock.advance(DELETE_RETENTION_MS)
    zombie.commit()
    zombie.drop()
    again = bench.start(COUNTS, host="a")
    assert again.listener.discards() == {
        "counts": "it was idle for longer than tombstones are guaranteed to be kept"
    }
    assert again.rows(COUNTS) == {"bob": 2}


class TestWithoutChangelog:
    """Such a store belongs to one position only."""

    def test_it_is_emptied_with_a_warning_when_it_is_not_at_the_committed_position(
        self, bench: Bench
    ) -> None:
        plain = COUNTS.without_changelog()
        task = bench.start(plain, limits=SELDOM)
        task.put(plain, "ada", 1)
        task.commit()
        task.state.persist_now()
        task.put(plain, "ada", 2)
        task.commit()
        task.drop()
        again = bench.start(plain)
        assert (again.listener.gaps(), task.listener.gaps()) == ({"counts": "emptied"}, {})
        assert again.rows(plain) == {}
        assert again.state.gaps == 0

    def test_it_is_kept_and_counted_with_on_gap_keep(self, bench: Bench) -> None:
        plain = COUNTS.without_changelog(on_gap="keep")
        task = bench.start(plain, limits=SELDOM)
        task.put(plain, "ada", 1)
        task.commit()
        task.state.persist_now()
        task.put(plain, "ada", 2)
        task.commit()
        task.drop()
        again = bench.start(plain)
        assert (again.listener.discards(), again.listener.gaps()) == ({}, {"counts": "kept"})
        assert again.rows(plain) == {"ada": 1}
        assert (again.state.gaps, task.state.gaps) == (1, 0)

    def test_it_is_kept_when_it_is_at_the_committed_position(self, bench: Bench) -> None:
        plain = COUNTS.without_changelog()
        task = bench.start(plain, limits=AT_EVERY_COMMIT)
        task.put(plain, "ada", 1)
        task.commit()
        task.drop()
        again = bench.start(plain)
        assert again.listener.discards() == {}
        assert again.rows(plain) == {"ada": 1}
