"""Users' own stores: the examples at work, and what becomes of one that fails."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar
from unittest import mock

import pytest
from examples.stores.json_folder import JsonFolder
from examples.stores.sqlite_table import SqliteTable
from tests.state.bench import AT_EVERY_COMMIT, SELDOM, Bench
from tests.state.faults import Failure, at, failing_at

from tidegate import Json, stores
from tidegate.errors import StateError
from tidegate.log.faultpoints import installed
from tidegate.log.sqlite import reader
from tidegate.state.builder import StoreBuilder
from tidegate.state.formats import window_suffix
from tidegate.state.key_value import KeyValueStore
from tidegate.state.keys import Bound
from tidegate.state.manager import Limits
from tidegate.state.protocol import RawRow, StoreContext, Token

NOTES = stores.key_value("notes", Json[int]()).backed_by(JsonFolder)


def test_a_crash_between_apply_and_checkpoint_applies_the_tail_again(bench: Bench) -> None:
    task = bench.start(NOTES, limits=AT_EVERY_COMMIT)
    task.put(NOTES, "ada", 1)
    task.put(NOTES, "gone", 1)
    task.commit()
    task.put(NOTES, "ada", 2)
    task.delete(NOTES, "gone")
    with pytest.raises(Failure), installed(failing_at("checkpoint.rename")):
        task.commit()
    assert task.state.checkpoint_file().read()["notes"].offset == 2, "the rows are ahead of what is known"
    task.drop()
    again = bench.start(NOTES)
    assert again.listener.span("notes") == (2, 4)
    assert again.rows(NOTES) == {"ada": 2} == bench.fold(NOTES)
    assert again.listener.discards() == {}


def test_a_users_store_is_committed_every_few_seconds_like_any_other(bench: Bench) -> None:
    task = bench.start(NOTES, limits=AT_EVERY_COMMIT)
    task.put(NOTES, "ada", 1)
    task.commit()
    assert task.state.checkpoint_file().read()["notes"].offset == 1


def test_what_a_users_store_got_from_its_changelog_is_kept(bench: Bench) -> None:
    task = bench.start(NOTES, host="a")
    for number in range(10):
        task.put(NOTES, f"key-{number}", number)
    task.commit()
    task.drop()
    bench.start(NOTES, host="b").drop()
    assert bench.start(NOTES, host="b").listener.span("notes") == (10, 10)


def test_an_unknown_store_is_cleared_and_restored_in_full(bench: Bench) -> None:
    task = bench.start(NOTES, limits=AT_EVERY_COMMIT)
    task.put(NOTES, "ada", 1)
    task.commit()
    (task.state.folder / "store-notes" / "stray.json").write_bytes(b"7")
    task.state.checkpoint_file().delete()
    task.drop()
    again = bench.start(NOTES)
    assert again.listener.span("notes") == (0, 1)
    assert again.rows(NOTES) == {"ada": 1}


def test_a_store_that_is_known_and_empty_is_not_cleared(bench: Bench) -> None:
    """Offset 0 is known; no offset, or no entry at all, is not."""
    bench.start(NOTES).close()
    task = bench.open(NOTES)
    assert task.state.checkpoint_file().read()["notes"].offset == 0
    kept = task.state.folder / "store-notes" / "kept.json"
    kept.write_bytes(b"7")
    task.drop()
    assert bench.start(NOTES).rows(NOTES) == {"kept": 7}, "nobody cleared what is known"


def test_a_store_that_is_ahead_of_the_log_is_cleared(bench: Bench) -> None:
    task = bench.start(NOTES, limits=AT_EVERY_COMMIT)
    task.put(NOTES, "ada", 1)
    task.commit()
    before = bench.position()
    task.put(NOTES, "bob", 2)
    task.commit()
    task.drop()
    again = bench.start(NOTES, at=before)
    assert again.listener.discards() == {"notes": "it is ahead of the log (2, committed is 1)"}
    assert again.rows(NOTES) == {"ada": 1}


def test_a_crash_after_a_clear_leaves_no_offset_of_cleared_rows(bench: Bench) -> None:
    """Else the log could catch up with the old offset, and an empty store would seem current."""
    task = bench.start(NOTES, host="a", limits=AT_EVERY_COMMIT)
    task.put(NOTES, "ada", 1)
    task.commit()
    before = bench.position()
    task.put(NOTES, "bob", 2)
    task.commit()
    task.drop()
    bench.open(NOTES, host="a", at=before).drop()
    moved = bench.start(NOTES, host="b")
    moved.put(NOTES, "cleo", 3)
    moved.commit()
    again = bench.start(NOTES, host="a")
    assert again.rows(NOTES) == {"ada": 1, "bob": 2, "cleo": 3}


@pytest.mark.parametrize("on_gap", ["empty", "keep"])
def test_a_shared_table_without_changelog_after_a_crash(bench: Bench, folder: Path, on_gap: str) -> None:
    stock = table(folder).without_changelog(on_gap="keep" if on_gap == "keep" else "empty")
    task = bench.start(stock, limits=AT_EVERY_COMMIT)
    task.put(stock, "ada", 1)
    task.commit()
    task.put(stock, "ada", 2)
    with pytest.raises(Failure), installed(failing_at("commit.6")):
        task.commit()
    task.drop()
    again = bench.start(stock)
    assert again.rows(stock) == ({"ada": 1} if on_gap == "keep" else {})
    assert again.state.gaps == (on_gap == "keep")
    assert again.listener.gaps() == {"stock": "kept" if on_gap == "keep" else "emptied"}


def test_a_shared_table_refuses_a_zombie_that_wakes_up_after_the_new_owner_wrote(
    bench: Bench, folder: Path
) -> None:
    stock = table(folder).without_changelog(on_gap="keep")
    zombie = bench.start(stock, host="a", attempt=1)
    zombie.put(stock, "ada", 1)

    def take_over() -> None:
        owner = bench.start(stock, host="b", attempt=2)
        owner.put(stock, "ada", 2)
        owner.commit()

    with pytest.raises(StateError, match="StaleWriteError") as error, installed(at("commit.6", take_over)):
        zombie.commit()
    assert error.value.code == "users-store-failed"
    assert bench.start(stock, host="b", attempt=3).rows(stock) == {"ada": 2}


def test_a_shared_table_refuses_a_zombie_as_soon_as_there_is_a_new_owner(bench: Bench, folder: Path) -> None:
    """The new owner has emptied the table and not written yet."""
    stock = table(folder).without_changelog()
    zombie = bench.start(stock, host="a", attempt=1)
    zombie.put(stock, "ada", 1)

    def take_over() -> None:
        assert bench.start(stock, host="b", attempt=2).rows(stock) == {}

    with pytest.raises(StateError, match="StaleWriteError"), installed(at("commit.6", take_over)):
        zombie.commit()
    assert bench.start(stock, host="b", attempt=3).rows(stock) == {}


def test_a_replay_in_pieces_is_not_taken_for_a_zombie(bench: Bench, folder: Path) -> None:
    """The table has seen the last change already; the changelog brings it again from further back."""
    stock = table(folder)
    task = bench.start(stock, attempt=1, limits=SELDOM)
    for number in range(10):
        task.put(stock, f"key-{number % 3}", number)
        task.commit()
    task.drop()
    with mock.patch.object(reader, "PAGE_SPANS", 2):  # ten commits in five pages
        again = bench.start(stock, attempt=1)
    assert len([event for event in again.listener.events if event[0] == "batch"]) == 5
    assert again.rows(stock) == {"key-0": 9, "key-1": 7, "key-2": 8} == bench.fold(stock)


def test_a_users_store_can_change_rows_by_itself(bench: Bench) -> None:
    task = bench.start(NOTES, host="a")
    task.state.log_change("notes", b"ada", b"1")
    task.commit()
    assert task.rows(NOTES) == {"ada": 1}
    assert bench.start(NOTES, host="b").rows(NOTES) == {"ada": 1}


WINDOWS = stores.window("windows", int, size=10, retention=20).backed_by(JsonFolder)


def test_windows_in_a_users_store_expire_by_stream_time(bench: Bench) -> None:
    task = bench.start(WINDOWS, host="a")
    windows = task.state.store(WINDOWS)
    for start in (0, 10, 20):
        assert windows.put("ada", start, start)
        assert windows.put("bob", start, start + 1)
        task.offset += 1
        task.commit()
    task.state.store_time.stream_time = 31
    assert list(windows.fetch("ada")) == [(10, 10), (20, 20)], "invisible at once"
    task.offset += 1
    task.commit()
    logged = bench.records(bench.changelog_of(WINDOWS))
    assert [(key, value) for key, value in logged if value is None] == [
        (b"ada" + window_suffix(0), None),
        (b"bob" + window_suffix(0), None),
    ]
    left = sorted(path.name for path in (task.state.folder / "store-windows").iterdir())
    assert len(left) == 4, f"the rows are gone from the user's store too: {left}"
    moved = bench.start(WINDOWS, host="b")
    moved.state.store_time.stream_time = 31
    assert list(moved.state.store(WINDOWS).all()) == [
        ("ada", 10, 10),
        ("ada", 20, 20),
        ("bob", 10, 11),
        ("bob", 20, 21),
    ]


def test_a_users_store_is_walked_through_some_rows_at_a_time_and_only_when_something_ended(
    bench: Bench,
) -> None:
    walked: list[bytes] = []

    class Watched(JsonFolder):
        def scan(
            self, lower: Bound | None, upper: Bound | None, *, reverse: bool = False
        ) -> Iterator[tuple[bytes, bytes]]:
            for key, value in super().scan(lower, upper, reverse=reverse):
                walked.append(key)
                yield key, value

    many = stores.window("windows", int, size=10, retention=20).backed_by(Watched)
    task = bench.start(many, limits=Limits(expire_per_commit=4))
    for number in range(10):
        task.state.store(many).put(f"key-{number}", 10 * (number % 2), number)

    def commit_at(time: int) -> int:
        task.state.store_time.stream_time = time
        task.offset += 1
        before = len(walked)
        task.commit()
        return len(walked) - before

    def left() -> int:
        return len(list((task.state.folder / "store-windows").iterdir()))

    assert commit_at(0) == 0, "nothing can have ended"
    commit_at(29)
    assert left() == 10
    for _ in range(6):
        assert commit_at(30) <= 6, "four, the one before them and the one behind them"
    assert left() == 5
    assert commit_at(35) == 0
    assert commit_at(39) == 0, "the next one ends at 40"
    for _ in range(3):
        commit_at(40)
    assert left() == 0
    assert commit_at(1000) == 0


def test_an_example_that_cannot_sort_windows_refuses_them(bench: Bench, folder: Path) -> None:
    builder = stores.window("windows", int, size=10, retention=20)
    with pytest.raises(StateError, match="suffix") as error:
        bench.start(builder.backed_by(lambda: SqliteTable(folder / "stock.db")))
    assert error.value.code == "users-store-failed"


class Fragile(JsonFolder):
    """Raises in the calls that are named."""

    fails: ClassVar[set[str]] = set()

    def __init__(self) -> None:
        self._may("factory")
        super().__init__()

    def open(self, context: StoreContext) -> None:
        self._may("open")
        super().open(context)

    def get(self, key: bytes) -> bytes | None:
        self._may("get")
        return super().get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        self._may("get_many")
        return super().get_many(keys)

    def scan(
        self, lower: Bound | None, upper: Bound | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        self._may("scan")
        return super().scan(lower, upper, reverse=reverse)

    def apply(self, rows: Iterable[RawRow], token: Token) -> None:
        self._may("apply")
        super().apply(rows, token)

    def clear(self) -> None:
        self._may("clear")
        super().clear()

    def flush(self) -> None:
        self._may("flush")
        super().flush()

    def close(self) -> None:
        self._may("close")
        super().close()

    def _may(self, call: str) -> None:
        if call in self.fails:
            raise ValueError("out of order")


FRAGILE = stores.key_value("fragile", Json[int]()).backed_by(Fragile)


@pytest.mark.parametrize(
    "call", ["factory", "open", "get", "get_many", "scan", "apply", "clear", "flush", "close"]
)
def test_a_store_that_raises_is_reported_by_name_and_works_again_once_it_is_repaired(
    bench: Bench, call: str
) -> None:
    task = bench.start(FRAGILE)
    task.put(FRAGILE, "ada", 1)
    task.commit()
    task.drop()
    with mock.patch.object(Fragile, "fails", {call, "close"}), pytest.raises(StateError) as error:
        task = bench.start(FRAGILE, host="new" if call == "clear" else "here", limits=AT_EVERY_COMMIT)
        task.state.store(FRAGILE).get("ada")
        task.state.store(FRAGILE).get_many(["ada"])
        task.rows(FRAGILE)
        task.put(FRAGILE, "bob", 2)
        task.commit()
        task.drop()
        raise StateError("users-store-failed", "'fragile' ValueError close: nothing else raised")
    assert error.value.code == "users-store-failed"
    assert all(word in error.value.message for word in ("'fragile'", "ValueError", call))
    task.drop()
    again = bench.start(FRAGILE, host="new" if call == "clear" else "here")
    assert again.state.folder.name == "0", "the failed one let go of its folder"
    assert again.rows(FRAGILE) == bench.fold(FRAGILE)


def table(folder: Path) -> StoreBuilder[KeyValueStore[str, int]]:
    """A store on a table that all hosts of a test share."""
    return stores.key_value("stock", int).backed_by(lambda: SqliteTable(folder / "stock.db"))
