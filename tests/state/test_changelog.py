"""Every store has a changelog, and comes back from it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest
from examples.stores.json_folder import JsonFolder
from hypothesis import given
from hypothesis import strategies as st
from tests.state.bench import AT_EVERY_COMMIT, OUT, Bench
from tests.state.children import child
from tests.state.ground import Ground
from tests.state.lives import COUNTS, a_hundred_records, ten_of_a_hundred_records

from tidegate import Json, stores
from tidegate.state.changelog import to_records
from tidegate.state.checkpoint import Checkpoint
from tidegate.state.environment import Environment
from tidegate.state.formats import PLAIN, TIMESTAMPED, with_time
from tidegate.types import TopicPartition


def test_changelog_dual_write(bench: Bench) -> None:
    task = bench.start(COUNTS)
    task.state.store_time.timestamp = 1234
    task.put(COUNTS, "ada", 1)
    assert task.rows(COUNTS) == {"ada": 1}, "a task reads its own writes"
    assert bench.changelog(COUNTS) == [], "nobody else does before the commit"
    task.put(COUNTS, "bob", 7)
    task.put(COUNTS, "ada", 2)
    task.commit()
    assert bench.changelog(COUNTS) == [("ada", 2), ("bob", 7)], "one record for each key that changed"
    assert task.rows(COUNTS) == {"ada": 2, "bob": 7} == bench.fold(COUNTS)
    assert bench.position().changelogs == {"counts": 2}
    topic = bench.log.describe("shop-counts-changelog")
    assert (topic.policy, topic.config["delete.retention.ms"]) == ("compact", str(30 * 24 * 3600 * 1000))


def test_changelog_restoration(bench: Bench) -> None:
    task = bench.start(COUNTS, host="a")
    for number in range(20):
        task.put(COUNTS, f"key-{number % 7}", number)
        task.commit()
    before = task.rows(COUNTS)
    task.drop()
    assert "in" not in bench.log.names(), "there is no input to recompute anything from"
    moved = bench.start(COUNTS, host="b")
    assert moved.rows(COUNTS) == before == bench.fold(COUNTS)
    assert bench.span(moved, COUNTS) == (0, 20)
    assert moved.offset == 20, "the task goes on where it stood"


def test_changelog_deletion(bench: Bench) -> None:
    task = bench.start(COUNTS, host="a")
    task.put(COUNTS, "ada", 1)
    task.put(COUNTS, "bob", 2)
    task.commit()
    task.delete(COUNTS, "ada")
    task.commit()
    assert bench.changelog(COUNTS)[2:] == [("ada", None)], "a delete is a null value"
    moved = bench.start(COUNTS, host="b")
    assert moved.rows(COUNTS) == {"bob": 2}
    bench.compact(COUNTS)
    assert bench.start(COUNTS, host="c").rows(COUNTS) == {"bob": 2}


def test_checkpoint_persistence(bench: Bench) -> None:
    """A store of ours keeps its offset in its own transaction; a user's has it in a file."""
    notes = stores.key_value("notes", Json[int]()).backed_by(JsonFolder)
    task = bench.start(COUNTS, notes, limits=AT_EVERY_COMMIT)
    for number in range(5):
        task.put(COUNTS, f"key-{number}", number)
    task.put(notes, "ada", 1)
    task.commit()
    folder, known = task.state.folder, task.state.checkpoint_file().read()
    assert known == {
        "notes": Checkpoint(
            1, bench.position(), bench.log.describe("shop-notes-changelog").uid, bench.clock.now()
        )
    }
    task.drop()

    environment = Environment(folder, ["counts"])
    metadata = environment.metadata()
    environment.close()
    assert metadata is not None
    assert metadata.offsets["counts"] == 5
    assert metadata.position == bench.position()

    again = bench.start(COUNTS, notes)
    assert again.listener.span("counts") == (5, 5)
    assert again.listener.span("notes") == (1, 1)
    assert again.rows(notes) == {"ada": 1}


@pytest.mark.slow
def test_restoration_from_checkpoint(ground: Ground) -> None:
    """After a SIGKILL the changelog is read from where the store stands."""
    expected = {f"key-{number % 30}": number for number in range(70, 100)}

    first, second = ground.part("first"), ground.part("second")
    with child(a_hundred_records, first) as process:
        process.receive()
        process.kill()
    with closing(first.bench()) as bench:
        task = bench.start(COUNTS)
        assert bench.span(task, COUNTS) == (100, 100)
        assert task.listener.restored("counts") == 0
        assert task.rows(COUNTS) == expected == bench.fold(COUNTS)

    with child(ten_of_a_hundred_records, second) as process:
        process.receive()
        process.kill()
    with closing(second.bench()) as bench:
        task = bench.start(COUNTS)
        assert bench.span(task, COUNTS) == (10, 100)
        assert task.listener.restored("counts") == 90
        assert task.rows(COUNTS) == expected == bench.fold(COUNTS)


def test_changelog_disabled(bench: Bench) -> None:
    plain = COUNTS.without_changelog()
    task = bench.start(plain)
    task.put(plain, "ada", 1)
    task.commit()
    assert task.rows(plain) == {"ada": 1}
    assert task.state.changelogs() == {}
    assert bench.log.names() == [OUT, "shop-positions"]
    assert bench.position().changelogs == {}
    task.close()
    assert bench.start(plain).rows(plain) == {"ada": 1}, "a clean close keeps it"


def test_partition_mapping(open_bench: Callable[..., Bench]) -> None:
    """Task n writes changelog partition n, and is restored from it alone."""
    bench = open_bench(partitions=3)
    slot = bench.slot()
    tasks = [slot.start(COUNTS, partition=number) for number in range(3)]
    for number, task in enumerate(tasks):
        for turn in range(number + 1):
            task.put(COUNTS, f"key-{turn}", number)
    slot.commit()
    slot.drop()
    assert [bench.stands(COUNTS, number) for number in range(3)] == [1, 2, 3]
    slot = bench.slot()
    for number in range(3):
        task = slot.start(COUNTS, partition=number, host="elsewhere")
        assert task.state.changelogs() == {"counts": TopicPartition("shop-counts-changelog", number)}
        assert task.rows(COUNTS) == {f"key-{turn}": number for turn in range(number + 1)}
        assert task.rows(COUNTS) == bench.fold(COUNTS, number)


values = st.none() | st.binary(max_size=5)


@given(st.dictionaries(st.binary(max_size=5), st.tuples(values, st.integers(0, 99))))
def test_changelog_records_of_timed_rows_have_the_time_beside_the_value(
    rows: dict[bytes, tuple[bytes | None, int]],
) -> None:
    changes = {
        key: (None if value is None else with_time(value, at), at) for key, (value, at) in rows.items()
    }
    times, keys, records, _ = (column.to_pylist() for column in to_records(changes, TIMESTAMPED).columns)
    assert dict(zip(keys, zip(records, times, strict=True), strict=True)) == rows
    untimed = to_records(changes, PLAIN)
    assert untimed.column(2).to_pylist() == [row for row, _ in changes.values()]
