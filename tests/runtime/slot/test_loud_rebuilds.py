"""What a slot could not continue is reported where people look: the log, the status topic and its numbers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from tests.runtime.fleet import COUNTS, LINES, Fleet, wordcount
from tests.state.damage import damage_metadata, damage_row
from tests.waiting import wait_for

from tidegate import App, Context, Record, Topic, stores
from tidegate.errors import LogError
from tidegate.log import names
from tidegate.log.partitioner import partition_for
from tidegate.log.reads import read_between
from tidegate.log.records import rows_of
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.driver.coordinator import Coordinator
from tidegate.runtime.topics.status import Failure, Numbers, Status, Warned, decoded
from tidegate.state.builder import OnGap
from tidegate.state.environment import DAMAGED, mark_damaged
from tidegate.state.inspect import find_folders
from tidegate.types import Offset, TopicPartition

pytestmark = pytest.mark.slow

RESULT_OF_COUNT = {"a": 3, "b": 1}


@pytest.fixture
def open_fleet(tmp_path: Path) -> Iterator[Callable[[Callable[[], App]], Fleet]]:
    with closing(SqliteLog(tmp_path / "log.db")) as log:
        yield lambda app: Fleet(log, tmp_path, app)


def statuses(fleet: Fleet) -> list[Status]:
    """Everything that the slots published."""
    topic = TopicPartition(names.status(fleet.app().build().app), 0)
    batches = read_between(fleet.log, topic, 0, int(fleet.log.ends([topic])[topic]))
    return [msgspec.json.decode(row.value or b"", type=Status) for one in batches for row in rows_of(one)]


def warned(fleet: Fleet, code: str) -> list[str]:
    return [one.message for one in statuses(fleet) if isinstance(one, Warned) and one.code == code]


def numbers(fleet: Fleet, name: str) -> int:
    """The highest that any slot published of a number."""
    return max((getattr(one, name) for one in statuses(fleet) if isinstance(one, Numbers)), default=0)


def all_run(driver: Coordinator) -> bool:
    """Whether all tasks of the word count are at work in this run."""
    return sum(one.running for one in driver.overview.numbers.values()) == 6


def counted(fleet: Fleet) -> None:
    """Some words are counted, and the rows lie on disk."""
    fleet.connection.send(LINES, "k", "a b", "a")
    fleet.catch_up()


def folder_of(fleet: Fleet, word: str) -> Path:
    """Where the row of a word lies."""
    partition = partition_for(word.encode(), 3)
    [path] = [
        found.folder
        for found in find_folders(fleet.folder / "state", "wordcount")
        if "counts" in found.metadata.stores and found.metadata.task.partition == partition
    ]
    return path


def test_a_damaged_row_is_rebuilt_and_reported(
    open_fleet: Callable[[Callable[[], App]], Fleet], caplog: pytest.LogCaptureFixture
) -> None:
    fleet = open_fleet(wordcount)
    counted(fleet)
    damage_row(folder_of(fleet, "a"), "counts", b"a")
    caplog.set_level(logging.WARNING, "tidegate")
    with fleet.running():
        fleet.connection.send(LINES, "k", "a")
        wait_for(lambda: fleet.counts() == RESULT_OF_COUNT)
        wait_for(lambda: numbers(fleet, "rebuilt") == 1)
    assert [one for one in statuses(fleet) if isinstance(one, Failure)] == [], "the job goes on by itself"
    assert len(warned(fleet, "corrupt-state")) == 1
    [message] = warned(fleet, "store-rebuilt")
    assert "'counts', partition" in message
    assert "a damaged row was found in it" in message
    assert [record.levelname for record in caplog.records if message in record.getMessage()] == ["WARNING"]


def test_a_folder_that_somebody_marked_is_rebuilt_by_the_slot_that_holds_it(
    open_fleet: Callable[[Callable[[], App]], Fleet],
) -> None:
    fleet = open_fleet(wordcount)
    counted(fleet)
    folder = folder_of(fleet, "a")
    with fleet.running() as (driver, _):
        wait_for(lambda: all_run(driver))
        mark_damaged(folder)
        wait_for(lambda: bool(warned(fleet, "store-rebuilt")))
        wait_for(lambda: not (folder / DAMAGED).exists())
        fleet.connection.send(LINES, "k", "a")
        wait_for(lambda: fleet.counts() == RESULT_OF_COUNT)
    assert [one for one in statuses(fleet) if isinstance(one, Failure)] == []


def test_damaged_metadata_is_reported_and_a_new_folder_is_not(
    open_fleet: Callable[[Callable[[], App]], Fleet],
) -> None:
    fleet = open_fleet(wordcount)
    counted(fleet)
    assert warned(fleet, "store-rebuilt") == [], "nothing was there that could be discarded"
    damage_metadata(folder_of(fleet, "a"))
    fleet.catch_up()
    assert fleet.counts() == {"a": 2, "b": 1}
    [message] = warned(fleet, "store-rebuilt")
    assert "the state's metadata cannot be read" in message


class FirstWarningRefused(SqliteLog):
    """A log that is out of reach when the first warning is appended."""

    refused = 0

    def append(self, partition: TopicPartition, batch: pa.RecordBatch) -> Offset:
        values = batch.column("value").to_pylist() if partition.topic == names.status("wordcount") else []
        if not self.refused and any(isinstance(decoded(value), Warned) for value in values):
            self.refused += 1
            raise LogError("log-unreachable", "no answer", retryable=True)
        return super().append(partition, batch)


def test_a_warning_that_the_log_refused_is_published_again(tmp_path: Path) -> None:
    with closing(FirstWarningRefused(tmp_path / "log.db")) as log:
        fleet = Fleet(log, tmp_path, wordcount)
        counted(fleet)
        damage_row(folder_of(fleet, "a"), "counts", b"a")
        fleet.connection.send(LINES, "k", "a")
        fleet.catch_up()
        assert fleet.counts() == RESULT_OF_COUNT
        assert log.refused == 1
        assert len(warned(fleet, "store-rebuilt")) == 1


def remembering(on_gap: OnGap) -> Callable[[], App]:
    """An app that keeps what it saw in a store without changelog."""

    def declared() -> App:
        seen = stores.key_value("seen", int).without_changelog(on_gap=on_gap)

        def remember(record: Record[str, str], ctx: Context[str, int]) -> None:
            count = (ctx.store(seen).get(record.value) or 0) + 1
            ctx.store(seen).put(record.value, count)
            ctx.forward(Record(record.value, count, record.timestamp))

        app = App("remember")
        app.stream(LINES).process("remember", remember, stores=[seen]).to(COUNTS)
        return app

    return declared


@pytest.mark.parametrize(
    ("on_gap", "code", "number"), [("empty", "store-emptied", "emptied"), ("keep", "store-gap", "gaps")]
)
def test_a_store_without_changelog_that_missed_a_commit_is_reported(
    open_fleet: Callable[[Callable[[], App]], Fleet], on_gap: OnGap, code: str, number: str
) -> None:
    fleet = open_fleet(remembering(on_gap))
    fleet.connection.send(LINES, "k", "a")
    fleet.catch_up(slots=1)
    assert warned(fleet, code) == [], "it has missed nothing yet"
    state = fleet.folder / "state"
    state.rename(fleet.folder / "older")
    fleet.connection.send(LINES, "k", "b")
    with fleet.running(slots=1):
        wait_for(lambda: numbers(fleet, number) == 1)
    [message] = warned(fleet, code)
    assert "'seen', partition" in message, "of the one task that ever had rows"
    fleet.catch_up(slots=1)
    assert len(warned(fleet, code)) == 1, "what is at its position missed nothing"
    state.rename(fleet.folder / "newer")
    (fleet.folder / "older").rename(state)
    fleet.catch_up(slots=1)
    assert len(warned(fleet, code)) == 2


def test_batches_that_are_taken_apart_are_reported(open_fleet: Callable[[Callable[[], App]], Fleet]) -> None:
    def declared() -> App:
        def careful(line: str) -> str:
            if line == "bad":
                raise ValueError(line)
            return line

        app = App("careful")
        app.stream(LINES, on_error="skip").map(careful).aggregate("seen", int, lambda n, _: n + 1).to(COUNTS)
        return app

    fleet = open_fleet(declared)
    fleet.connection.send(LINES, "k", *["good"] * 150, "bad", *["good"] * 150)
    fleet.catch_up(slots=1)
    assert fleet.counts() == {"k": 300}
    [message] = warned(fleet, "batch-taken-apart")
    assert "record by record" in message
    fleet.connection.send(LINES, "k", *["good"] * 150, "bad", *["good"] * 150)
    with fleet.running(slots=1):
        wait_for(lambda: numbers(fleet, "batches_taken_apart") == 1)


def test_dead_letters_are_counted_with_the_numbers(
    open_fleet: Callable[[Callable[[], App]], Fleet],
) -> None:
    def app() -> App:
        def number(line: str) -> int:
            return int(line)

        made = App("numbers")
        made.stream(LINES, on_error="dead-letter").map(number).to(Topic("numbers", int))
        return made

    fleet = open_fleet(app)
    with fleet.running():
        fleet.connection.send(LINES, "k", "1", "two", "3", "four")
        wait_for(lambda: numbers(fleet, "dead_letters") == 2)
    assert numbers(fleet, "skipped") == 2
