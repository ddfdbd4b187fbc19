"""Timers of keys against a dictionary, over commits, store commits and crashes."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.state.store_bench import StoreBench
from tests.state.test_bad_state import reopen

from tidegate import stores
from tidegate.errors import ConfigError, StateError
from tidegate.serde.plain import PLAIN

KEYS = [b"", b"k", b"k\x00", b"\xff", b"t" * 399, b"a" * 401, b"a" * 500, b"a" * 499 + b"b", b"\x00" * 300]
LATEST = 253_402_300_799_999

keys = st.sampled_from(KEYS)
times = st.sampled_from([0, 1, 255, 256, 257, 65_536, LATEST])
sets = st.tuples(st.just("set"), keys, times)
cancels = st.tuples(st.just("cancel"), keys, st.none())
pauses = st.tuples(st.sampled_from(["commit", "persist", "crash"]), st.none(), st.none())
steps = st.lists(st.one_of(sets, sets, cancels, pauses), max_size=25)


@settings(max_examples=60, deadline=None)
@given(steps, times, st.integers(1, 5))
def test_timers_are_a_dictionary_that_is_sorted_by_time(run: Any, now: int, limit: int) -> None:
    with StoreBench(stores.timers("t", key=bytes)) as bench:
        twin: dict[bytes, int] = {}
        committed: dict[bytes, int] = {}
        for step, key, at in run:
            if step == "set":
                bench.store.set(key, at)
                twin[key] = at
            elif step == "cancel":
                bench.store.cancel(key)
                twin.pop(key, None)
            elif step == "crash":
                bench.crash()
                twin = copy.copy(committed)
            else:
                bench.commit() if step == "commit" else bench.persist()
                committed = copy.copy(twin)
            assert [bench.store.get(known) for known in KEYS] == [twin.get(known) for known in KEYS]
        in_order = [(key, at) for at, key in sorted((at, key) for key, at in twin.items()) if at <= now]
        assert list(bench.store.all()) == sorted(twin.items())
        assert bench.store.due(now) == in_order
        assert bench.store.due(now, limit) == in_order[:limit]
        bench.commit()
        assert len(bench.changelog()) == 2 * len(twin)


def test_due_timers_are_found_once_and_taken_only_if_they_are_still_set() -> None:
    with StoreBench(stores.timers("t")) as bench:
        for at, key in ((5, "b"), (5, "a"), (3, "c"), (9, "d")):
            bench.store.set(key, at)
        assert bench.store.next_due(5, 2) == [(3, b"c"), (5, b"a")]
        assert bench.store.next_due(5, 2) == [(5, b"b")]
        assert bench.store.next_due(5, 9) == []
        bench.store.set("e", 4)
        assert bench.store.next_due(4, 9) == [(4, b"e")]
        assert bench.store.take((4, b"e")) == "e"
        assert bench.store.take((4, b"e")) is None
        bench.store.set("d", 8)
        assert bench.store.take((9, b"d")) is None
        assert bench.store.get("d") == 8


@pytest.mark.parametrize("at", [-1, LATEST + 1])
def test_a_time_that_cannot_be_kept_is_refused(at: int) -> None:
    with StoreBench(stores.timers("t")) as bench:
        with pytest.raises(StateError, match="bad-timestamp"):
            bench.store.set("a", at)
        assert list(bench.store.all()) == []


def test_timers_by_an_unknown_clock_are_refused() -> None:
    moon: Any = "moon"
    with pytest.raises(ConfigError, match="bad-store"):
        stores.timers("t", by=moon)


def test_the_metadata_on_disk_names_the_types_of_its_rows() -> None:
    with StoreBench(stores.timers("t", by="wall")) as bench:
        bench.store.set("a", 7)
        bench.persist()
        facts = bench.state.environment.metadata()
        assert facts is not None
        assert (facts.stores["t"].kind, facts.stores["t"].key) == ("wall-timers", "timers[str]")
        values = {PLAIN[int].decode(value) for value, _ in bench.changelog().values()}
        assert (facts.stores["t"].value, values) == ("int", {7})


def test_a_timer_whose_other_row_is_missing_is_damage_and_not_a_cancelled_one() -> None:
    """Else it would never be called, and its row would stay for ever."""
    with StoreBench(stores.timers("t", key=bytes)) as bench:
        bench.store.set(b"ada", 5)
        bench.persist()
        [place] = bench.store.next_due(5, 10)
        bench.state.inner("t").apply([(b"kada", None)])
        bench.persist()
        with pytest.raises(StateError, match="by its time, but not by its key") as error:
            bench.store.take(place)
        assert error.value.code == "corrupt-state"
        assert "nothing:" in error.value.hint
        bench.state.drop()
        assert reopen(bench).discarded == ["a damaged row was found in it"]
        assert bench.store.due(5) == [(b"ada", 5)], "it was rebuilt from the log"
        [place] = bench.store.next_due(5, 10)
        assert bench.store.take(place) == b"ada"
        bench.store.set(b"bob", 7)
        [place] = bench.store.next_due(7, 10)
        bench.store.cancel(b"bob")
        assert bench.store.take(place) is None, "a cancelled one is no damage"
