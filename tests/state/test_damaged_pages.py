"""Damage outside of the rows' values: metadata, pages of the tree, the index by end time."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import lmdb
import pytest
from tests.state.bench import Bench
from tests.state.damage import damage, data_of, page_of
from tests.state.lives import COUNTS as LIVES
from tests.state.store_bench import StoreBench
from tests.state.test_bad_state import COUNTS, data_file, filled, reopen

from tidegate import stores
from tidegate.errors import StateError
from tidegate.runtime.output.on_error import caused_by_record
from tidegate.state.environment import DAMAGED, ReadOnlyEnvironment, mark_damaged
from tidegate.state.folders import take_unheld
from tidegate.state.formats import window_suffix
from tidegate.state.keys import stored_key

WINDOWS = stores.window("windows", int, size=10, retention=20)


def test_a_flipped_bit_anywhere_in_the_metadata_is_never_believed() -> None:
    """One digit of an offset further on, and records of the changelog would be skipped."""
    seeds = random.Random(7)
    with StoreBench(COUNTS) as bench:
        rows = filled(bench, 20)
        bench.state.drop()
        folder = data_file(bench).parent
        whole = data_of(folder)
        start = whole.rindex(b'{"app":')
        end = whole.index(b"}}", start) + 2 + 4
        for place in [whole.index(b'"offsets":{"counts":', start) + 20, *seeds.sample(range(start, end), 20)]:
            flipped = bytearray(whole)
            flipped[place] ^= 1 << seeds.randrange(8)
            (folder / "data.mdb").write_bytes(flipped)
            loud = reopen(bench)
            assert loud.discarded == [
                "the state's metadata cannot be read: it does not match its checksum"
            ], flipped[start:end]
            assert dict(bench.store.all()) == rows
            bench.state.drop()


def test_rows_without_metadata_are_not_taken_for_a_new_folder() -> None:
    with StoreBench(COUNTS) as bench:
        rows = filled(bench, 20)
        bench.state.drop()
        folder = data_file(bench).parent
        with lmdb.open(str(folder), max_dbs=4) as env, env.begin(write=True) as txn:
            txn.delete(b"metadata", db=env.open_db(b":meta", txn=txn))
        for_a_look = ReadOnlyEnvironment(folder)
        with pytest.raises(StateError, match="missing") as error:
            for_a_look.metadata()
        assert error.value.code == "bad-metadata"
        assert "state check --repair" in error.value.hint
        for_a_look.close()
        assert reopen(bench).discarded == ["there are rows, but the state's metadata is missing"]
        assert dict(bench.store.all()) == rows


@pytest.mark.parametrize("call", ["get", "get_many", "all"])
def test_a_page_that_cannot_be_read_is_no_records_fault(call: str) -> None:
    """A policy would skip one record after the other."""
    with StoreBench(COUNTS) as bench:
        rows = filled(bench)
        bench.state.drop()
        folder = data_file(bench).parent
        wrong_kind_of_page(folder, b"key-1000" + b"\x00\x00")
        reopen(bench)
        calls: dict[str, Any] = {
            "get": lambda: bench.store.get("key-1000"),
            "get_many": lambda: bench.store.get_many(["key-1000"]),
            "all": lambda: dict(bench.store.all()),
        }
        with pytest.raises(StateError) as error:
            calls[call]()
        assert error.value.code == "corrupt-state"
        assert not caused_by_record(error.value)
        assert (folder / DAMAGED).exists(), "over a crash too"
        bench.state.drop()
        assert reopen(bench).discarded == ["a damaged row was found in it"]
        assert dict(bench.store.all()) == rows


@pytest.mark.parametrize(
    ("call", "row"), [("apply", b"key-1000\x00\x00"), ("clear", b"key-0\x00\x00"), ("commit", b'{"app":')]
)
def test_a_page_that_cannot_be_read_when_it_is_written_to_is_rebuilt_too(call: str, row: bytes) -> None:
    """Else the task would be opened with the same page again and again."""
    with StoreBench(COUNTS) as bench:
        rows = filled(bench)
        folder = data_file(bench).parent
        wrong_kind_of_page(folder, row)
        calls: dict[str, Any] = {
            "apply": lambda: bench.state.inner("counts").below.apply([(b"key-1000", b"1")]),
            "clear": lambda: bench.state.inner("counts").clear(),
            "commit": bench.persist,
        }
        with pytest.raises(StateError) as error:
            calls[call]()
        assert error.value.code == "corrupt-state"
        assert error.value.hint.startswith("nothing:")
        assert (folder / DAMAGED).exists(), "over a crash too"
        bench.state.drop()
        assert reopen(bench).discarded == ["a damaged row was found in it"]
        assert dict(bench.store.all()) == rows


@pytest.mark.parametrize(
    "garbage", [b"adb" + window_suffix(0), b"ada" + b"\xff" * 12, b"ada" + b"\x7f" + b"\xff" * 11]
)
def test_a_damaged_entry_of_the_index_by_end_time_tombstones_no_other_row(garbage: bytes) -> None:
    with StoreBench(WINDOWS) as bench:
        for key in ("ada", "bob"):
            bench.store.put(key, 0, 1)
        bench.store.put("adb", 50, 2)
        bench.persist()
        bench.state.drop()
        [path] = bench.folder.glob("home/*/data.mdb")
        place = stored_key(b"ada", window_suffix(0))
        damage(path.parent, place + b"ada" + window_suffix(0), place + garbage)
        bench.open()
        bench.state.store_time.stream_time = 40
        with pytest.raises(StateError) as error:
            bench.commit()
        assert error.value.code == "corrupt-state"
        bench.crash()
        bench.state.store_time.stream_time = 40
        bench.commit()
        assert list(bench.store.all()) == [("adb", 50, 2)]
        assert len(bench.changelog()) == 1


@pytest.mark.parametrize("marked", [False, True])
def test_a_folder_that_somebody_holds_is_copied_unless_it_is_marked(bench: Bench, marked: bool) -> None:
    task = bench.start(LIVES)
    for number in range(5):
        task.put(LIVES, f"key-{number}", number)
    task.commit()
    folder = task.state.folder
    task.close()
    held = take_unheld(folder)
    assert held is not None
    if marked:
        mark_damaged(folder)
    try:
        again = bench.start(LIVES)
        assert again.state.folder != folder
        assert bench.span(again, LIVES) == ((0, 5) if marked else (5, 5))
        assert again.rows(LIVES) == bench.fold(LIVES)
    finally:
        held.release()


def wrong_kind_of_page(folder: Path, row: bytes) -> None:
    """The page that holds a row has no flags any more."""
    pages = page_of(data_of(folder), row)
    with (folder / "data.mdb").open("r+b") as file:
        for start in pages:
            file.seek(start + 10)
            file.write(b"\x00\x00")
