"""What a gate does with events: nothing is changed, nothing dropped, nothing overtakes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.gate.app import COUNTS, EVENTS, PASSED, gated
from tests.repetitions import repeated

from tidegate import App, Context, Record, TableTopic, Topic, stores
from tidegate.errors import TopologyError
from tidegate.gate.buffer import Buffer
from tidegate.gate.formats import Buffered
from tidegate.log.names import HEADER_PREFIX
from tidegate.log.records import Row, to_batch
from tidegate.runtime.output.on_error import CODE
from tidegate.runtime.output.origin import ORIGIN
from tidegate.state.lmdb_store import LmdbStore
from tidegate.testing import Driver
from tidegate.testing.gates import GateView
from tidegate.testing.views import all_records
from tidegate.types import TopicPartition

MANY = repeated(20_000, soak=100_000)


@pytest.fixture
def driver() -> Iterator[Driver]:
    with Driver(gated(drain_chunk=10), partitions=3) as made:
        yield made


@pytest.fixture
def gate(driver: Driver) -> GateView:
    return driver.gate("door")


def own(record: Record[Any, Any]) -> tuple[Any, ...]:
    """All that is the record's: without its place, and without our headers."""
    headers = [pair for pair in record.headers if not pair[0].startswith(HEADER_PREFIX)]
    return record.key, record.value, record.timestamp, headers


@pytest.mark.parametrize("batches", [True, False])
@pytest.mark.parametrize("paused", [True, False])
def test_events_pass_byte_for_byte(paused: bool, batches: bool) -> None:
    """Also undecodable ones, tombstones, headers with one name, and times far away."""
    sent = [
        Row(b"ada", b' {"a" : 1}\n', 0, [("trace", b"\x00\xff"), ("trace", None)]),
        Row(b"ada", None, 5),
        Row(b"\xff\x00", b"", 253_402_300_799_999, [("", b"")]),
        Row(b"ada", b"\xff\xfe", 4),
    ]
    app = App("bytes")
    any_time = {"message.timestamp.after.max.ms": str(2**63 - 1)}
    rows = app.stream(TableTopic("in", dict[str, int], config=any_time), on_error="skip")
    rows.gate("door").to(TableTopic("out", dict[str, int]))
    with Driver(app, batches=batches) as driver:
        gate = driver.gate("door")
        if paused:
            gate.pause_all()
        driver.run()
        driver.log.append(TopicPartition("in", 0), to_batch(sent))
        driver.run()
        if paused:
            assert all_records(driver.log, "bytes-door-admitted") == []
            driver.move()
            gate.resume_all()
            driver.run()
        found = [own(record) for record in all_records(driver.log, "bytes-door-admitted")]
        wanted = [(row.key, row.value, row.timestamp, list(row.headers)) for row in sent]
        assert sorted(found, key=repr) == sorted(wanted, key=repr)
        assert [one for one in found if one[0] == b"ada"] == [one for one in wanted if one[0] == b"ada"]


@pytest.mark.soak
def test_a_large_buffer_is_released_in_chunks_while_other_keys_go_on() -> None:
    with Driver(gated(drain_chunk=100), partitions=1) as driver:
        gate = driver.gate("door")
        gate.pause("ada")
        driver.send(EVENTS, "ada", *range(MANY))
        driver.run()
        assert gate.held("ada") == MANY
        gate.resume("ada")
        for number in range(1000):
            driver.send(EVENTS, f"other-{number}", number)
        driver.send(EVENTS, "ada", MANY)
        driver.run()
        keys = [record.key for record in all_records(driver.log, "gated-door-admitted")]
        others = [index for index, key in enumerate(keys) if key != b"ada"]
        assert len(others) == 1000
        assert max(others) < len(keys) / 2, "nobody waits for the large buffer"
        assert driver.by_key(PASSED)["ada"] == list(range(MANY + 1))
        assert driver.rows(COUNTS)["ada"] == MANY + 1


@pytest.mark.parametrize("arrival", [2, 5, 9])
@pytest.mark.parametrize("elsewhere", [True, False])
def test_a_crash_in_mid_drain_keeps_the_order(
    driver: Driver, gate: GateView, arrival: int, elsewhere: bool
) -> None:
    gate.pause("ada")
    driver.send(EVENTS, "ada", *range(100))
    driver.run()
    gate.resume("ada")
    driver.send(EVENTS, "ada", 100, 101)
    driver.crash("commit.5", arrival, elsewhere=elsewhere)
    driver.run()
    assert driver.by_key(PASSED)["ada"] == list(range(102))
    assert driver.store("door-held").contents == driver.store("door-held").changelog == {}


def test_a_pause_in_mid_drain_stops_it(driver: Driver, gate: GateView) -> None:
    """The second pause is in before the first chunk has gone."""
    gate.pause("ada")
    driver.send(EVENTS, "ada", *range(100))
    driver.run()
    gate.resume("ada")
    gate.pause("ada")
    driver.run()
    assert gate.held("ada") == 100
    assert PASSED.name not in driver.log.names() or driver.values(PASSED) == []


def test_beyond_max_held_events_go_on_waiting_and_are_counted() -> None:
    with Driver(gated(max_held=3)) as driver:
        gate = driver.gate("door")
        gate.pause("ada")
        driver.send(EVENTS, "ada", *range(5))
        driver.run()
        assert (gate.held("ada"), gate.beyond) == (5, 2)
        gate.resume("ada")
        driver.run()
        assert driver.values(PASSED) == [0, 1, 2, 3, 4]


def test_beyond_max_held_events_are_dead_letters_if_declared_so() -> None:
    with Driver(gated(max_held=3, on_full="dead-letter")) as driver:
        gate = driver.gate("door")
        gate.pause("ada")
        driver.send(EVENTS, "ada", *range(5))
        driver.run()
        assert (gate.held("ada"), gate.beyond) == (3, 2)
        letters = driver.dead_letters()
        assert [EVENTS.decode_value(letter.value) for letter in letters] == [3, 4]
        assert {dict(letter.headers)[CODE] for letter in letters} == {b"gate-full"}
        gate.resume("ada")
        driver.run()
        driver.send(EVENTS, "ada", 5)
        driver.run()
        assert driver.values(PASSED) == [0, 1, 2, 5]


def test_what_waits_is_known_on_opening_without_reading_the_events() -> None:
    class Unread:
        """A store of events that must not be touched."""

        def __getattr__(self, name: str) -> Any:
            raise AssertionError(f"{name} of the events")

    class Index:
        def all(self) -> Iterator[tuple[bytes, Buffered]]:
            return ((b"k%d" % number, Buffered(2, 10, 0, 2, number)) for number in range(100_000))

    buffer = Buffer(Unread(), Index(), lambda: None)  # type: ignore[arg-type]
    assert (buffer.count, buffer.size, buffer.oldest, len(buffer.keys)) == (200_000, 1_000_000, 0, 100_000)


@pytest.mark.soak
def test_the_dirty_set_is_there_after_a_restore_without_reading_the_buffers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every key paused on its own, one event waiting for each; the stores are restored on another host."""
    keys = [b"k%d" % number for number in range(MANY)]
    paused = to_batch([Row(key, b'{"state":"PAUSED"}', 0) for key in keys])
    events = to_batch([Row(key, EVENTS.encode_value(1), 0) for key in keys])
    with Driver(gated(), partitions=1) as driver:
        driver.run()
        driver.log.append(TopicPartition("gated-door-status", 0), paused)
        driver.log.append(TopicPartition("events", 0), events)
        driver.run()
        driver.move()
        read: list[str] = []
        for name in ("get", "get_many", "scan"):
            # How much of a store is read shows in no result, only in the time of a restore.
            monkeypatch.setattr(LmdbStore, name, _noted(getattr(LmdbStore, name), read))
        driver.run()
        [step] = [gate.step for task in driver._tasks() for gate in task.gates.all]
        assert (len(step.buffer.keys), step.buffer.count, step.paused) == (MANY,) * 3
        assert "door-index" in read, "what is counted is counted"
        assert "door-held" not in read
        monkeypatch.undo()
        driver.gate("door").resume("k7")
        driver.run()
        assert driver.by_key(PASSED) == {"k7": [1]}
        assert step.buffer.count == MANY - 1


def _noted(call: Any, read: list[str]) -> Any:
    """The same, with the name of the store written down."""

    def noted(store: Any, *given: Any, **named: Any) -> Any:
        read.append(store._name)
        return call(store, *given, **named)

    return noted


def test_keys_that_are_paused_with_nothing_waiting_are_known_after_a_restore(
    driver: Driver, gate: GateView
) -> None:
    for number in range(200):
        gate.pause(f"k{number}")
    driver.run()
    driver.move()
    for number in range(200):
        driver.send(EVENTS, f"k{number}", number)
    driver.run()
    assert driver.rows(COUNTS) == {}
    assert all(gate.held(f"k{number}") == 1 for number in range(200))


def test_the_value_may_be_made_before_the_gate() -> None:
    def double(value: int) -> int:
        return 2 * value

    app = App("gated")
    app.stream(EVENTS).map(double).gate("door").to(PASSED)
    with Driver(app, partitions=2) as driver:
        gate = driver.gate("door")
        gate.pause("ada")
        driver.send(EVENTS, "ada", 1, 2)
        driver.send(EVENTS, "bob", 3)
        driver.run()
        assert driver.by_key(PASSED) == {"bob": [6]}
        gate.resume("ada")
        driver.run()
        assert driver.by_key(PASSED) == {"bob": [6], "ada": [2, 4]}


def test_two_sources_meet_before_a_gate_and_two_gates_stand_in_a_row() -> None:
    more = Topic("more", int)
    app = App("gated")
    first = app.stream(EVENTS).merge(app.stream(more)).gate("door")
    first.filter(lambda value: value >= 0).gate("window").to(PASSED)
    with Driver(app, partitions=2) as driver:
        door, window = driver.gate("door"), driver.gate("window")
        door.pause("ada")
        window.pause("bob")
        for key in ("ada", "bob", "cid"):
            driver.send(EVENTS, key, 1, timestamp=1)
            driver.send(more, key, 2, -1, timestamp=2)
        driver.run()
        assert driver.by_key(PASSED) == {"cid": [1, 2]}
        assert (door.held("ada"), window.held("bob")) == (3, 2)
        door.resume("ada")
        window.resume("bob")
        driver.run()
        assert driver.by_key(PASSED) == {key: [1, 2] for key in ("ada", "bob", "cid")}


def test_a_gate_stands_behind_a_change_of_keys() -> None:
    app = App("gated")
    app.stream(EVENTS).group_by("by-parity", lambda value: f"{value % 2}").gate("door").to(PASSED)
    with Driver(app, partitions=2) as driver:
        gate = driver.gate("door")
        gate.pause("1")
        driver.send(EVENTS, "ada", 1, 2, 3, 4)
        driver.run()
        assert driver.by_key(PASSED) == {"0": [2, 4]}
        gate.resume("1")
        driver.run()
        assert driver.by_key(PASSED) == {"0": [2, 4], "1": [1, 3]}


@pytest.mark.parametrize("batches", [True, False])
def test_behind_a_change_of_keys_events_keep_their_origin(batches: bool) -> None:
    app = App("gated")
    app.stream(EVENTS).group_by("by-parity", lambda value: f"{value % 2}").gate("door").to(PASSED)
    with Driver(app, batches=batches) as driver:
        gate = driver.gate("door")
        gate.pause("1")
        driver.send(EVENTS, "ada", 1, 2, 3, 4)
        driver.run()
        gate.resume("1")
        driver.run()
        admitted = all_records(driver.log, "gated-door-admitted")
        origins = [(dict(record.headers)[ORIGIN] or b"").split()[0] for record in admitted]
        assert origins == [b"events/0/1", b"events/0/3", b"events/0/0", b"events/0/2"]


def test_an_event_that_fails_beside_the_gate_is_not_held_either() -> None:
    """One source, a gate and a step that refuses: all of the record, or nothing."""
    seen = stores.key_value("seen", int)

    def refuse(record: Record[str, int], ctx: Context[str, int]) -> None:
        ctx.store(seen).put(record.key, record.value)
        if record.value == 2:
            raise ValueError("two")
        ctx.forward(record)

    app = App("gated")
    events = app.stream(EVENTS, on_error="skip")
    events.gate("door").to(PASSED)
    events.process("refuses", refuse, stores=[seen]).to(Topic("beside", int))
    with Driver(app) as driver:
        gate = driver.gate("door")
        gate.pause("ada")
        driver.send(EVENTS, "ada", 1, 2, 3)
        driver.run()
        assert gate.held("ada") == 2
        assert [event.timestamp for event in gate.events("ada")]
        gate.resume("ada")
        driver.run()
        assert driver.values(PASSED) == [1, 3]


def test_event_times_are_taken_behind_the_gate_as_they_would_be_before_it() -> None:
    timed = Topic("timed", int, timestamp=lambda value: value * 1000)
    app = App("gated")
    app.stream(timed).gate("door").to(PASSED)
    with Driver(app) as driver:
        driver.run()
        driver.log.append(TopicPartition("timed", 0), to_batch([Row(b"ada", timed.encode_value(5), 7)]))
        driver.run()
        assert [record.timestamp for record in all_records(driver.log, "gated-door-admitted")] == [7]
        assert [record.timestamp for record in driver.records(PASSED)] == [5000]


def test_what_cannot_be_a_gate_is_refused_with_its_line() -> None:
    def stream() -> Any:
        return App("gated").stream(EVENTS)

    wrong: list[tuple[dict[str, Any], str]] = [
        ({"max_held": 0}, "bad-option"),
        ({"on_full": "drop"}, "bad-option"),
        ({"drain_chunk": 0}, "bad-option"),
        ({"status": "a", "trigger": "a"}, "bad-option"),
        ({"status": "no good"}, "illegal-name"),
    ]
    for options, code in wrong:
        with pytest.raises(TopologyError) as caught:
            stream().gate("door", **options)
        assert caught.value.code == code
        assert "test_events.py" in caught.value.location
    with pytest.raises(TopologyError, match="not-where-its-key-belongs"):
        stream().select_key(str).gate("door")
    twice = stream()
    twice.gate("door")
    with pytest.raises(TopologyError, match="door"):
        twice.gate("door")


def test_a_gate_wide_pause_holds_events_of_the_empty_key_too() -> None:
    """The totals lie in the status store under the empty key: they are no status of it."""
    with Driver(gated(), partitions=1) as driver:
        gate = driver.gate("door")
        gate.pause_all()
        driver.run()
        driver.send(EVENTS, "", 1)
        driver.send(EVENTS, "ada", 2)
        driver.run()
        assert driver.by_key(PASSED) == {}
        assert len(gate.events("")) == 1
        [empty] = [one for one in gate._gate.states() if one.key == b""]
        for seen in (empty, gate._gate.key(b"")):
            assert (seen.status, seen.paused, seen.held) == (None, True, True)
        gate.resume_all()
        driver.run()
        assert driver.by_key(PASSED) == {"": [1], "ada": [2]}
