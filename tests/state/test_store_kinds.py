"""Every kind of store against a dictionary, over commits, store commits and crashes."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import repeated
from tests.simulator.own_store import FileStore
from tests.state.store_bench import StoreBench

from tidegate import stores
from tidegate.errors import ConfigError, SerdeError, StateError

KEYS = [b"", b"k", b"k\x00", b"k\x00\x00", b"k\x00\xff", b"k\x01", b"\xff", b"\x00", b"a" * 511, b"a" * 512]
KEYS += [b"a" * 400, b"a" * 401, b"a" * 10_000, b"a" * 9_999 + b"b", b"a" * 401 + b"\x00", b"\x00" * 300]
VALUES = [b"", b"v", b"\x00" * 8, b"x" * 3000]

keys = st.sampled_from(KEYS)
values = st.sampled_from(VALUES)
between = st.sampled_from(["commit", "persist", "crash"])
puts = st.tuples(st.just("put"), keys, values)
deletes = st.tuples(st.just("delete"), keys, st.none())
pauses = st.tuples(between, st.none(), st.none())
steps = st.lists(st.one_of(puts, puts, deletes, pauses), max_size=25)
starts = st.integers(0, 60)
times = st.integers(0, 253_402_300_799_999)
few = settings(max_examples=repeated(30, soak=300), deadline=None)
pytestmark = pytest.mark.soak


class Twin:
    """A dictionary that forgets with the store: what was not committed is gone after a crash."""

    def __init__(self) -> None:
        self.rows: dict[Any, Any] = {}
        self.committed: dict[Any, Any] = {}

    def pause(self, bench: StoreBench[Any], how: str) -> None:
        if how == "crash":
            bench.crash()
            self.rows = copy.copy(self.committed)
        else:
            bench.commit() if how == "commit" else bench.persist()
            self.committed = copy.copy(self.rows)

    def put(self, key: Any, value: Any) -> None:
        self.rows[key] = value

    def delete(self, key: Any) -> None:
        self.rows.pop(key, None)


@few
@given(steps, keys, keys)
def test_a_key_value_store_is_a_sorted_dictionary(
    run: list[tuple[str, bytes, bytes | None]], low: bytes, high: bytes
) -> None:
    with StoreBench(stores.key_value("s", bytes, key=bytes)) as bench:
        twin = Twin()
        for step, key, value in run:
            if step == "put":
                bench.store.put(key, value)
                twin.put(key, value)
            elif step == "delete":
                assert bench.store.delete(key) == twin.rows.get(key)
                twin.delete(key)
            else:
                twin.pause(bench, step)
            assert bench.store.get_many(KEYS) == [twin.rows.get(known) for known in KEYS]
            assert bench.store.get_many([]) == []
        rows = sorted(twin.rows.items())
        assert [bench.store.get(key) for key in KEYS] == [twin.rows.get(key) for key in KEYS]
        assert list(bench.store.all()) == rows
        assert list(bench.store.all(reverse=True)) == rows[::-1]
        assert list(bench.store.range(low, high)) == [row for row in rows if low <= row[0] < high]
        assert list(bench.store.range(low, reverse=True)) == [row for row in rows if low <= row[0]][::-1]
        assert list(bench.store.range(stop=high)) == [row for row in rows if row[0] < high]
        assert list(bench.store.prefix(low)) == [row for row in rows if row[0].startswith(low)]
        bench.commit()
        assert {key: value for key, (value, _) in bench.changelog().items()} == twin.rows


@few
@given(
    st.lists(
        st.one_of(st.tuples(st.just("put"), keys, times), deletes, pauses),
        max_size=25,
    )
)
def test_a_timestamped_store_keeps_the_time_of_each_row(run: list[tuple[str, bytes, int | None]]) -> None:
    with StoreBench(stores.timestamped("s", bytes, key=bytes)) as bench:
        twin = Twin()
        for step, key, at in run:
            if step == "put":
                bench.store.put(key, b"v", at)
                twin.put(key, (b"v", at))
            elif step == "delete":
                assert bench.store.delete(key) == twin.rows.get(key)
                twin.delete(key)
            else:
                twin.pause(bench, step)
        assert list(bench.store.all()) == sorted(twin.rows.items())
        assert list(bench.store.range(b"k", b"l", reverse=True)) == sorted(
            ((key, row) for key, row in twin.rows.items() if b"k" <= key < b"l"), reverse=True
        )
        assert list(bench.store.prefix(b"a")) == sorted(
            (key, row) for key, row in twin.rows.items() if key.startswith(b"a")
        )
        bench.commit()
        assert bench.changelog() == twin.rows


@pytest.mark.parametrize("own", [False, True], ids=["ours", "a user's"])
@few
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("put"), keys, starts),
            st.tuples(st.just("delete"), keys, starts),
            st.tuples(st.just("time"), st.none(), starts),
            st.tuples(between, st.none(), st.none()),
        ),
        max_size=30,
    ),
    starts,
    starts,
)
def test_a_window_store_shows_what_is_not_expired(
    own: bool, run: list[tuple[str, Any, Any]], since: int, until: int
) -> None:
    size, retention = 5, 20
    builder = stores.window("s", int, size=size, retention=retention, key=bytes)
    with StoreBench(builder.backed_by(FileStore) if own else builder) as bench:
        twin, clock = Twin(), -1

        def visible() -> dict[Any, Any]:
            return {row: value for row, value in twin.rows.items() if row[1] + size + retention > clock}

        for number, (step, key, at) in enumerate(run):
            if step == "time":
                clock = max(clock, at)
                bench.state.store_time.stream_time = clock
            elif step in ("put", "delete"):
                late = at + size + retention <= clock
                taken = bench.store.put(key, at, number if step == "put" else None)
                assert taken == (not late)
                if not late:
                    twin.put((key, at), number) if step == "put" else twin.delete((key, at))
            else:
                twin.pause(bench, step)
                bench.state.store_time.stream_time = clock
            for found_key in KEYS[:6]:
                expected = sorted((start, value) for (k, start), value in visible().items() if k == found_key)
                assert list(bench.store.fetch(found_key)) == expected
                inside = [row for row in expected if since <= row[0] < until]
                assert list(bench.store.fetch(found_key, since, until, reverse=True)) == inside[::-1]
        expected_all = sorted((key, start, value) for (key, start), value in visible().items())
        assert list(bench.store.all()) == expected_all
        assert [bench.store.get(key, start) for key, start, _ in expected_all] == [
            row[2] for row in expected_all
        ]
        bench.commit()
        bench.commit()
        assert len(bench.changelog()) == len(visible()), "expired rows are tombstoned"


@pytest.mark.parametrize("own", [False, True], ids=["ours", "a user's"])
@few
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("put"), keys, st.tuples(starts, starts)),
            st.tuples(st.just("time"), st.none(), starts),
            st.tuples(between, st.none(), st.none()),
        ),
        max_size=25,
    ),
    starts,
    starts,
)
def test_a_session_store_finds_what_overlaps(
    own: bool, run: list[tuple[str, Any, Any]], since: int, until: int
) -> None:
    retention = 20
    builder = stores.session("s", int, retention=retention, key=bytes)
    with StoreBench(builder.backed_by(FileStore) if own else builder) as bench:
        twin, clock = Twin(), -1

        def visible() -> dict[Any, Any]:
            return {row: value for row, value in twin.rows.items() if row[1] + retention > clock}

        for number, (step, key, at) in enumerate(run):
            if step == "time":
                clock = max(clock, at)
                bench.state.store_time.stream_time = clock
            elif step == "put":
                start, end = sorted(at)
                late = end + retention <= clock
                assert bench.store.put(key, start, end, number) == (not late)
                if not late:
                    twin.put((key, end, start), number)
            else:
                twin.pause(bench, step)
                bench.state.store_time.stream_time = clock
        for found_key in KEYS:
            expected = sorted(
                (end, start, value)
                for (k, end, start), value in visible().items()
                if k == found_key and end >= since and start <= until
            )
            found = list(bench.store.fetch(found_key, since, until))
            assert [(session.end, session.start, session.value) for session in found] == expected
        assert len(list(bench.store.all())) == len(visible())
        bench.commit()
        bench.commit()
        assert len(bench.changelog()) == len(visible()), "expired rows are tombstoned"


@few
@given(st.lists(st.one_of(puts, deletes, st.tuples(st.just("get"), keys, st.none()), pauses), max_size=40))
def test_an_lru_store_keeps_the_latest_and_logs_what_it_evicts(
    run: list[tuple[str, bytes, bytes | None]],
) -> None:
    with StoreBench(stores.lru("s", bytes, key=bytes, capacity=3)) as bench:
        twin: dict[bytes, bytes] = {}
        for step, key, value in run:
            if step == "put":
                assert value is not None
                bench.store.put(key, value)
                twin.pop(key, None)
                twin[key] = value
                if len(twin) > 3:
                    del twin[next(iter(twin))]
            elif step == "delete":
                bench.store.delete(key)
                twin.pop(key, None)
            elif step == "get":
                assert bench.store.get(key) == twin.get(key)
                if key in twin:
                    twin[key] = twin.pop(key)
            elif step != "crash":
                bench.commit()
        assert dict(bench.store.all()) == twin
        bench.commit()
        assert {key: value for key, (value, _) in bench.changelog().items()} == twin
        bench.crash()
        assert dict(bench.store.all()) == twin


@few
@given(steps)
def test_a_store_in_memory_is_restored_in_full(run: list[tuple[str, bytes, bytes | None]]) -> None:
    with StoreBench(stores.in_memory("s", bytes, key=bytes)) as bench:
        twin = Twin()
        for step, key, value in run:
            if step == "put":
                bench.store.put(key, value)
                twin.put(key, value)
            elif step == "delete":
                bench.store.delete(key)
                twin.delete(key)
            else:
                twin.pause(bench, step)
        assert list(bench.store.all()) == sorted(twin.rows.items())


def test_a_value_of_five_megabytes_survives_a_crash() -> None:
    with StoreBench(stores.key_value("s", bytes)) as bench:
        bench.store.put("large", b"x" * 5_000_000)
        bench.store.put("empty", b"")
        bench.commit()
        bench.crash()
        assert (len(bench.store.get("large") or b""), bench.store.get("empty")) == (5_000_000, b"")


def test_a_failed_record_leaves_no_trace_in_any_kind_of_store() -> None:
    for builder in (stores.key_value("s", int), stores.in_memory("s", int), stores.lru("s", int, capacity=2)):
        with StoreBench(builder) as bench:
            bench.store.put("a", 1)
            bench.store.put("b", 2)
            bench.commit()
            bench.store.put("a", 10)
            bench.state.begin_record()
            bench.store.put("a", 100)
            bench.store.delete("b")
            bench.store.put("c", 3)
            bench.state.roll_back()
            assert dict(bench.store.all()) == {"a": 10, "b": 2}
            bench.state.begin_record()
            bench.store.put("b", 20)
            bench.state.end_record()
            bench.commit()
            bench.crash()
            assert dict(bench.store.all()) == {"a": 10, "b": 20}


def test_writing_ends_a_scan_and_so_does_a_commit() -> None:
    with StoreBench(stores.key_value("s", int)) as bench:
        for number in range(5):
            bench.store.put(f"k{number}", number)
        bench.commit()
        scan = bench.store.all()
        next(scan)
        bench.store.put("z", 1)
        with pytest.raises(StateError, match="scan") as error:
            list(scan)
        assert error.value.code == "scan-ended"
        scan = bench.store.all()
        next(scan)
        bench.commit()
        with pytest.raises(StateError):
            list(scan)


def test_a_key_of_another_type_is_refused_and_nothing_is_written() -> None:
    with StoreBench(stores.key_value("s", int, key=int)) as bench:
        with pytest.raises(SerdeError):
            bench.store.put("text", 1)  # type: ignore[arg-type]
        with pytest.raises(SerdeError):
            bench.store.put(1, "text")  # type: ignore[arg-type]
        with pytest.raises(StateError) as error:
            list(bench.store.prefix(1))
        assert error.value.code == "no-prefix"
        assert list(bench.store.all()) == []


def test_numbers_are_scanned_in_their_own_order() -> None:
    with StoreBench(stores.key_value("s", str, key=int)) as bench:
        for number in (5, -3, 0, 2**62, -(2**62), 7):
            bench.store.put(number, "x")
        assert [key for key, _ in bench.store.all()] == [-(2**62), -3, 0, 5, 7, 2**62]
        assert [key for key, _ in bench.store.range(-3, 7)] == [-3, 0, 5]


@pytest.mark.parametrize("name", ["", "..", "a/b", "totals.g2", "__x"])
def test_a_store_name_that_no_topic_could_have_is_refused(name: str) -> None:
    with pytest.raises(ConfigError) as error:
        stores.key_value(name, int)
    assert error.value.code in ("illegal-name", "reserved-name")


@pytest.mark.parametrize("setting", ["cleanup.policy", "retention.ms", "retention.bytes", "no.such.setting"])
def test_a_changelog_setting_that_would_lose_rows_is_refused(setting: str) -> None:
    with pytest.raises(ConfigError):
        stores.key_value("s", int).with_changelog({setting: "1"})


@pytest.mark.parametrize("millis", ["0", "1000", "3599999"])
def test_a_changelog_that_keeps_tombstones_for_less_than_an_hour_is_refused(millis: str) -> None:
    with pytest.raises(ConfigError) as error:
        stores.key_value("s", int).with_changelog({"delete.retention.ms": millis})
    assert error.value.code == "bad-changelog-config"
    assert f"'s': delete.retention.ms = {millis}" in error.value.message
    kept = stores.key_value("s", int).with_changelog({"delete.retention.ms": "3600000"})
    assert kept.config == {"delete.retention.ms": "3600000"}


def test_a_key_without_stable_bytes_is_refused() -> None:
    with pytest.raises(ConfigError) as error:
        stores.key_value("s", int, key=dict[str, int])
    assert error.value.code == "unstable-key"
