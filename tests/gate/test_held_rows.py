"""The rows of held events: none is lost to a damaged store, and none makes the others wait too long."""

from __future__ import annotations

from itertools import groupby

import msgspec
import pytest
from tests.gate.app import COUNTS, EVENTS, PASSED, gated

from tidegate.errors import StateError
from tidegate.gate.buffer import stores_of
from tidegate.gate.formats import Buffered, Held
from tidegate.gate.step import AT_ONCE
from tidegate.log.positions import Position
from tidegate.testing import Driver
from tidegate.testing.views import all_records


def lose(driver: Driver, key: bytes, sequence: int) -> None:
    """Delete the row of a held event from the task's own file, behind the back of the changelog."""
    [state] = [task.state for task in driver._tasks() if task.gates]
    row = stores_of("door")[1].key.encode((key, sequence))
    assert state.inner("door-held").get(row) is not None
    assert isinstance(state.position, Position)
    state.inner("door-held").apply([(row, None)], state.token("door-held", state.position))


@pytest.mark.parametrize("sequence", [0, 1, 2, 5, 9])
@pytest.mark.parametrize("chunk", [2, 100])
def test_a_held_event_that_is_missing_is_damage_and_not_skipped(chunk: int, sequence: int) -> None:
    """The task ends before anything of it is committed, and is rebuilt from the changelog."""
    with Driver(gated(drain_chunk=chunk), partitions=1) as driver:
        gate = driver.gate("door")
        gate.pause("ada")
        driver.send(EVENTS, "ada", *range(10))
        driver.run()
        lose(driver, b"ada", sequence)
        gate.resume("ada")
        with pytest.raises(StateError, match=f"lacks event {sequence} of a key") as caught:
            driver.run()
        assert caught.value.code == "corrupt-state"
        assert driver.discarded == []
        driver.run()
        assert any(one.startswith("door-held") for one in driver.discarded)
        assert driver.by_key(PASSED) == {"ada": list(range(10))}
        assert driver.rows(COUNTS) == {"ada": 10}
        assert driver.store("door-held").contents == driver.store("door-held").changelog == {}


def test_the_oldest_time_is_that_of_the_oldest_event_that_is_still_held() -> None:
    """Ten events, a second apart; the index as each commit of the drain wrote it."""
    with Driver(gated(drain_chunk=1), partitions=1) as driver:
        gate = driver.gate("door")
        gate.pause("ada")
        started = driver.clock.now()
        for number in range(10):
            driver.send(EVENTS, "ada", number)
            driver.run()
            driver.advance(1000)
        assert [event.at for event in gate.events("ada")] == [started + 1000 * n for n in range(10)]
        driver.advance(100_000)
        gate.resume("ada")
        driver.run()
        written = [one.value for one in all_records(driver.log, "gated-door-index-changelog")]
        index = [msgspec.msgpack.decode(row, type=Buffered) for row in written if row is not None]
        assert [(row.first, row.since) for row in index[10:]] == [
            (n, started + 1000 * n) for n in range(1, 10)
        ]
        assert all(row.since == started for row in index[:10])


def test_rows_of_older_versions_can_be_read_and_keep_the_time_they_had() -> None:
    """They end before the time at which the event was held."""
    whole = Held(b"v", 5, "events/0/1", 7, (("a", b"b"),), 9)
    old = msgspec.msgpack.encode(msgspec.msgpack.decode(msgspec.msgpack.encode(whole))[:5])
    assert msgspec.msgpack.decode(old, type=Held) == msgspec.structs.replace(whole, at=0)


def test_keys_that_are_resumed_together_take_turns_within_a_commit() -> None:
    """No key lets out more than AT_ONCE events in a row while another waits for its turn."""
    many = 3 * AT_ONCE + 7
    with Driver(gated(drain_chunk=10 * many), partitions=1) as driver:
        gate = driver.gate("door")
        for key in ("ada", "bob", "cid"):
            gate.pause(key)
            driver.send(EVENTS, key, *range(many))
        driver.run()
        for key in ("ada", "bob", "cid"):
            gate.resume(key)
        driver.run()
        keys = [record.key for record in all_records(driver.log, "gated-door-admitted")]
        runs = [len(list(run)) for _, run in groupby(keys)]
        assert runs == [AT_ONCE] * 9 + [7] * 3
        assert 0 < AT_ONCE <= 1000
        assert driver.by_key(PASSED) == {key: list(range(many)) for key in ("ada", "bob", "cid")}
