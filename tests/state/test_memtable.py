"""The memtable: reads see the newest committed row wherever it is, its memory is bounded, and nothing is on
disk before its time."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.log.positions import TaskId
from tidegate.state.environment import Environment, Metadata
from tidegate.state.lmdb_store import LmdbStore
from tidegate.state.memtable import ROW_BYTES, Memtable, MemtableBudget

KEYS = [b"k%d" % number for number in range(6)]
ROW = len(KEYS[0]) + 1 + ROW_BYTES
META = Metadata(app="app", task=TaskId("c", 1, 0, 0), log="log")

keys = st.sampled_from(KEYS)
values = st.one_of(st.none(), st.sampled_from([b"1", b"2", b"3"]))
changes = st.dictionaries(keys, values, max_size=4)
steps = st.one_of(
    st.tuples(st.just("apply"), changes),
    st.tuples(st.just("get"), keys),
    st.tuples(st.just("get_many"), st.lists(keys, max_size=5)),
    st.tuples(st.sampled_from(["scan", "write", "commit"]), st.none()),
)


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[Environment]:
    with closing(Environment(tmp_path, ["a", "b"], sync=False)) as opened:
        yield opened


@given(st.integers(1, 60), st.lists(st.tuples(st.sampled_from("ab"), steps), max_size=30))
def test_reads_see_the_newest_row_in_any_layer(rows_in_budget: int, script: list[Any]) -> None:
    budget = MemtableBudget(rows_in_budget * ROW)
    with tempfile.TemporaryDirectory() as folder:
        environment = Environment(Path(folder), ["a", "b"], sync=False)
        with closing(environment):
            tables = {name: Memtable(LmdbStore(environment, name), budget) for name in "ab"}
            expected: dict[str, dict[bytes, bytes]] = {"a": {}, "b": {}}
            for name, (what, given_) in script:
                _step(environment, tables[name], expected[name], what, given_)
                for one in "ab":
                    found = {key: row for key in KEYS if (row := tables[one].get(key)) is not None}
                    assert found == expected[one]
            environment.abort()


def _step(
    environment: Environment, table: Memtable, expected: dict[bytes, bytes], what: str, given_: Any
) -> None:
    if what == "apply":
        table.apply(given_.items())
        for key, value in given_.items():
            expected.pop(key, None)
            if value is not None:
                expected[key] = value
    elif what == "get":
        assert table.get(given_) == expected.get(given_)
    elif what == "get_many":
        assert table.get_many(given_) == [expected.get(key) for key in given_]
    elif what == "scan":
        assert list(table.scan(None, None)) == sorted(expected.items())
        assert list(table.scan(None, None, reverse=True)) == sorted(expected.items(), reverse=True)
    elif what == "write":
        table.write()
    else:
        table.write()
        environment.commit(META)


def test_rows_wait_in_memory_until_they_are_written(environment: Environment) -> None:
    table = Memtable(LmdbStore(environment, "a"), MemtableBudget(1 << 20))
    table.apply([(b"ada", b"1")])
    table.apply([(b"ada", b"2"), (b"bob", b"1")])
    assert dict(table.waiting()) == {b"ada": b"2", b"bob": b"1"}
    assert table.below.get(b"ada") is None
    table.write()
    assert (dict(table.waiting()), table.waiting_bytes) == ({}, 0)
    assert list(table.below.scan(None, None)) == [(b"ada", b"2"), (b"bob", b"1")]


def test_a_row_is_read_from_lmdb_once(environment: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = LmdbStore(environment, "a")
    rows.apply([(b"ada", b"1")])
    table = Memtable(rows, MemtableBudget(1 << 20))
    assert [table.get(b"ada"), table.get(b"bob")] == [b"1", None]
    monkeypatch.setattr(LmdbStore, "get", None)  # it must not be called again
    assert [table.get(b"ada"), table.get(b"bob")] == [b"1", None]


def test_the_memory_of_all_memtables_is_bounded_together(environment: Environment) -> None:
    limit = 100 * ROW
    budget = MemtableBudget(limit)
    tables = [Memtable(LmdbStore(environment, name), budget) for name in "ab"]
    for number in range(2_000):
        tables[number % 2].apply([(b"k%d" % number, b"1")])
        tables[number % 2].get(b"absent-%d" % number)
        kept = sum(len(one._waiting) + len(one._recent) + len(one._older) for one in tables)
        assert kept * ROW <= limit + 2 * ROW
        assert budget.used <= limit // 2
    assert sum(len(one.waiting()) for one in tables) < 100


def test_who_uses_more_rows_keeps_more(environment: Environment) -> None:
    budget = MemtableBudget(40 * ROW)
    busy, idle = (Memtable(LmdbStore(environment, name), budget) for name in "ab")
    idle.get(b"once")
    for turn in range(40):
        for number in range(8):
            busy.get(b"k%d" % number)
        busy.get(b"new-%d" % turn)
    assert all(b"k%d" % number in {**busy._older, **busy._recent} for number in range(8))
    assert not idle._recent
    assert not idle._older


def test_a_row_of_another_store_that_is_written_does_not_end_a_scan(environment: Environment) -> None:
    budget = MemtableBudget(10 * ROW)
    first, second = (Memtable(LmdbStore(environment, name), budget) for name in "ab")
    first.apply((key, b"1") for key in KEYS)
    second.apply([(b"other", b"1")])
    found = []
    for key, _ in first.scan(None, None):
        found.append(key)
        second.get(b"absent-" + key)
        second.write()
    assert found == KEYS


def test_a_memtable_that_leaves_gives_its_memory_back(environment: Environment) -> None:
    budget = MemtableBudget(1 << 20)
    first, second = (Memtable(LmdbStore(environment, name), budget) for name in "ab")
    first.apply((key, b"1") for key in KEYS)
    second.get(b"absent")
    first.leave()
    assert budget.used == second.recent_bytes()
