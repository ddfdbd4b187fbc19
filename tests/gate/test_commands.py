"""Who may say what to a gate, in which order, and what comes of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import msgspec
import pytest
from tests.gate.app import EVENTS, PASSED, gated

from tidegate.errors import ConfigError
from tidegate.gate.formats import GATE_WIDE, LONGEST_RECORD, LONGEST_TEXT, RequestedStatus
from tidegate.log.records import Row, to_batch
from tidegate.log.topic import TopicSpec
from tidegate.runtime.output.on_error import CODE
from tidegate.testing import Driver
from tidegate.testing.gates import GateView
from tidegate.testing.views import all_records
from tidegate.types import TopicPartition

KEYS = ["ada", "bob", "cid", "dan"]


@pytest.fixture
def driver() -> Iterator[Driver]:
    with Driver(gated(), partitions=3) as made:
        yield made


@pytest.fixture
def gate(driver: Driver) -> GateView:
    return driver.gate("door")


def passed(driver: Driver, key: str = "ada") -> list[int]:
    return driver.by_key(PASSED).get(key, [])


def test_a_trigger_that_is_older_than_a_newer_pause_is_ignored_and_counted(
    driver: Driver, gate: GateView
) -> None:
    first = gate.pause("ada")
    gate.pause("ada")
    gate.trigger("ada", first)
    driver.send(EVENTS, "ada", 1)
    driver.run()
    assert (passed(driver), gate.held("ada"), gate.stale) == ([], 1, 1)


def test_a_trigger_ends_the_pause_that_it_names(driver: Driver, gate: GateView) -> None:
    epoch = gate.pause("ada")
    driver.send(EVENTS, "ada", 1, 2)
    driver.run()
    gate.trigger("ada", epoch, actor="billing", reason="paid")
    driver.run()
    assert passed(driver) == [1, 2]
    reported = gate.audit()[-1]
    assert (reported.state, reported.cause, reported.actor, reported.reason, reported.held) == (
        "ACTIVE",
        "trigger",
        "billing",
        "paid",
        2,
    )
    gate.trigger("ada", epoch)
    driver.run()
    assert gate.stale == 1, "the second one finds nothing to end"


def test_a_resume_without_a_pause_changes_nothing(driver: Driver, gate: GateView) -> None:
    gate.resume("ada")
    driver.send(EVENTS, "ada", 1)
    driver.run()
    assert passed(driver) == [1]


def test_a_key_that_is_paused_twice_is_resumed_once(driver: Driver, gate: GateView) -> None:
    gate.pause("ada")
    gate.pause("ada")
    driver.send(EVENTS, "ada", 1)
    driver.run()
    assert gate.held("ada") == 1
    gate.resume("ada")
    driver.run()
    assert passed(driver) == [1]


def test_a_status_that_is_deleted_is_active(driver: Driver, gate: GateView) -> None:
    gate.pause("ada")
    driver.send(EVENTS, "ada", 1)
    driver.run()
    gate.write("status", "ada", None)
    driver.run()
    assert passed(driver) == [1]


@pytest.mark.parametrize("ahead", [0, 1, 1000])
def test_a_trigger_for_a_status_that_is_not_there_is_a_dead_letter(
    driver: Driver, gate: GateView, ahead: int
) -> None:
    epoch = gate.pause("ada")
    gate.trigger("ada", epoch + 1 + ahead)
    driver.send(EVENTS, "ada", 1)
    driver.run()
    assert gate.held("ada") == 1
    [letter] = driver.dead_letters()
    assert dict(letter.headers)[CODE] == b"bad-epoch"


def test_a_trigger_with_an_epoch_of_another_key_is_a_dead_letter(driver: Driver, gate: GateView) -> None:
    with Driver(gated(), partitions=1) as one:
        door = one.gate("door")
        door.pause("ada")
        other = door.pause("bob")
        door.trigger("ada", other)
        one.send(EVENTS, "ada", 1)
        one.run()
        assert door.held("ada") == 1
        assert len(one.dead_letters()) == 1


def test_of_several_concurrent_writers_the_last_offset_counts(driver: Driver, gate: GateView) -> None:
    """Two servers and a service that knows the topic only. Offsets decide, not the order of calls."""
    written: dict[int, bool] = {}

    def write(number: int) -> None:
        for turn in range(20):
            paused = (number + turn) % 2 == 0
            if number == 2:
                value = msgspec.json.encode({"state": "PAUSED" if paused else "ACTIVE"})
                written[gate.write("status", "ada", value)] = paused
            else:
                written[gate.pause("ada") if paused else gate.resume("ada")] = paused

    threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    driver.send(EVENTS, "ada", 1)
    driver.run()
    assert len(written) == 60
    last = max(written)
    status = gate.status("ada")
    assert status is not None
    assert (status.epoch, status.state == "PAUSED") == (last, written[last])
    assert gate.held("ada") == written[last]
    assert len(gate.audit()) == 60


def test_a_gate_wide_resume_frees_no_key_that_was_paused_on_its_own(driver: Driver, gate: GateView) -> None:
    gate.pause("ada")
    gate.pause_all()
    for key in KEYS:
        driver.send(EVENTS, key, 1)
    driver.run()
    assert [gate.held(key) for key in KEYS] == [1, 1, 1, 1]
    gate.resume_all()
    driver.run()
    assert [gate.held(key) for key in KEYS] == [1, 0, 0, 0]
    gate.resume("ada")
    driver.run()
    assert passed(driver) == [1]


def test_a_key_that_is_resumed_on_its_own_passes_a_paused_gate_until_the_next_pause(
    driver: Driver, gate: GateView
) -> None:
    gate.resume("ada")
    gate.pause_all()
    driver.send(EVENTS, "ada", 1)
    driver.run()
    assert gate.held("ada") == 1, "it was active before the whole gate was paused"
    gate.resume("ada")
    driver.send(EVENTS, "bob", 1)
    driver.run()
    assert (passed(driver), gate.held("bob")) == ([1], 1)
    gate.pause_all()
    driver.send(EVENTS, "ada", 2)
    driver.run()
    assert gate.held("ada") == 1


def test_events_without_a_key_are_never_held(driver: Driver, gate: GateView) -> None:
    gate.pause_all()
    driver.send(EVENTS, None, 1, 2)
    driver.send(EVENTS, "ada", 3)
    driver.run()
    admitted = all_records(driver.log, "gated-door-admitted")
    assert [(one.key, EVENTS.decode_value(one.value)) for one in admitted] == [(None, 1), (None, 2)]


@pytest.mark.parametrize("early", [True, False])
def test_a_pause_that_is_committed_is_honoured_by_a_restart_whatever_the_times_of_events(
    driver: Driver, gate: GateView, early: bool
) -> None:
    driver.send(EVENTS, "bob", 0)
    driver.run()
    driver.stop()
    driver.advance(1_000_000)
    gate.pause("ada")
    at = 1_000 if early else driver.clock.now() + 1_000_000
    driver.send(EVENTS, "ada", 1, timestamp=at)
    driver.run()
    assert (passed(driver), gate.held("ada")) == ([], 1)
    driver.move()
    driver.send(EVENTS, "ada", 2, timestamp=at)
    driver.run()
    assert (passed(driver), gate.held("ada")) == ([], 2)


def test_a_pause_ends_by_itself(driver: Driver, gate: GateView) -> None:
    gate.pause("ada", expires_at=driver.clock.now() + 1_000, actor="ops", reason="for a second")
    driver.send(EVENTS, "ada", 1)
    driver.run()
    driver.advance(999)
    driver.run()
    assert gate.held("ada") == 1
    driver.advance(1)
    driver.run()
    assert (passed(driver), gate.held("ada")) == ([1], 0)
    status = gate.status("ada")
    assert status is not None
    assert (status.state, status.cause) == ("ACTIVE", "expiry")
    assert [reported.cause for reported in gate.audit()] == ["status", "expiry"]


def test_a_pause_ends_by_itself_also_where_nothing_waits_and_over_a_restart(
    driver: Driver, gate: GateView
) -> None:
    gate.pause("ada", expires_at=driver.clock.now() + 1_000)
    driver.run()
    driver.move()
    driver.advance(2_000)
    driver.send(EVENTS, "ada", 1)
    driver.run()
    assert passed(driver) == [1]
    status = gate.status("ada")
    assert status is not None
    assert status.state == "ACTIVE"


def test_a_gate_wide_pause_ends_by_itself(driver: Driver, gate: GateView) -> None:
    gate.pause_all(expires_at=driver.clock.now() + 1_000)
    driver.send(EVENTS, "ada", 1)
    driver.run()
    assert gate.held("ada") == 1
    driver.advance(1_000)
    driver.run()
    assert passed(driver) == [1]
    gate_wide = gate.gate_wide()
    assert gate_wide is not None
    assert gate_wide.state == "ACTIVE"


def test_a_pause_that_ended_by_itself_does_not_free_a_key_of_a_paused_gate(
    driver: Driver, gate: GateView
) -> None:
    gate.pause_all()
    gate.pause("ada", expires_at=driver.clock.now() + 10)
    driver.send(EVENTS, "ada", 1)
    driver.run()
    driver.advance(20)
    driver.run()
    assert gate.held("ada") == 1


GOOD = msgspec.json.encode(RequestedStatus("ACTIVE"))


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{",
        b"null",
        b'"PAUSED"',
        b'{"state": "STOPPED"}',
        b'{"state": "PAUSED", "version": 2}',
        b'{"state": "PAUSED", "expires_at": "soon"}',
        b'{"state": "PAUSED", "reason": "' + b"x" * (LONGEST_TEXT + 1) + b'"}',
        b'{"state": "PAUSED", "more": "' + b"x" * LONGEST_RECORD + b'"}',
        b'{"state": "PAUSED", "actor": "\xff"}',
        b"[" * 10_000,
    ],
)
@pytest.mark.parametrize("what", ["status", "trigger"])
def test_a_command_that_cannot_be_read_leaves_the_key_as_it_was(
    driver: Driver, gate: GateView, what: str, value: bytes
) -> None:
    gate.pause("ada")
    driver.send(EVENTS, "ada", 1)
    driver.run()
    gate.write(what, "ada", value)
    driver.send(EVENTS, "bob", 2)
    driver.run()
    assert (gate.held("ada"), passed(driver, "bob")) == (1, [2])
    [letter] = driver.dead_letters()
    assert (letter.key, letter.value) == (b"ada", value)
    assert dict(letter.headers)[CODE] == b"bad-command"
    gate.resume("ada")
    driver.run()
    assert passed(driver) == [1]


def test_fields_that_are_not_known_yet_do_no_harm(driver: Driver, gate: GateView) -> None:
    gate.write("status", "ada", b'{"state": "PAUSED", "ticket": 7}')
    driver.send(EVENTS, "ada", 1)
    driver.run()
    assert gate.held("ada") == 1


def test_a_requested_status_without_a_key_is_a_dead_letter(driver: Driver, gate: GateView) -> None:
    driver.run()
    driver.log.append(TopicPartition("gated-door-trigger", 0), to_batch([Row(None, b'{"epoch": 0}', 1)]))
    driver.send(EVENTS, "ada", 1)
    driver.run()
    assert passed(driver) == [1]
    assert len(driver.dead_letters()) == 1


def test_what_a_commander_refuses(driver: Driver, gate: GateView) -> None:
    with pytest.raises(ConfigError, match="bad-expiry"):
        gate.pause("ada", expires_at=driver.clock.now())
    with pytest.raises(ConfigError, match="bad-expiry"):
        gate.pause("ada", expires_at=10**300)
    with pytest.raises(ConfigError, match="bad-key"):
        gate.pause("")
    with pytest.raises(ConfigError, match="bad-key"):
        gate.pause(GATE_WIDE.decode())
    with pytest.raises(ConfigError, match="bad-key"):
        gate.pause("x" * (1 << 20) + "x")
    with pytest.raises(ConfigError, match="too-long"):
        gate.pause("ada", reason="x" * (LONGEST_TEXT + 1))
    with pytest.raises(ConfigError, match="no-such-gate"):
        driver.gate("window")
    driver.run()
    assert gate.audit() == []


def test_a_key_of_a_megabyte_can_be_paused() -> None:
    with Driver(gated(), partitions=2) as driver:
        driver.log.create(TopicSpec(EVENTS.name, 2, {"max.message.bytes": str(4 << 20)}))
        gate, key = driver.gate("door"), "k" * ((1 << 20) - 1)
        gate.pause(key)
        driver.send(EVENTS, key, 1)
        driver.run()
        assert gate.held(key) == 1
        gate.resume(key)
        driver.run()
        [out] = all_records(driver.log, "gated-door-admitted")
        assert out.key == key.encode()


@pytest.mark.parametrize("topic", ["status", "trigger", "admitted"])
def test_topics_of_a_gate_with_another_partition_count_are_refused(topic: str) -> None:
    with Driver(gated(**{topic: "own"}), partitions=3) as driver:
        policy = "compact" if topic == "status" else "delete"
        driver.log.create(TopicSpec("own", 2, {"cleanup.policy": policy}))
        with pytest.raises(Exception, match="partition"):
            driver.run()


def test_a_foreign_service_can_read_and_write_the_topics_by_their_names() -> None:
    with Driver(gated(status="key-status", trigger="resume-trigger", admitted="processed-events")) as driver:
        gate = driver.gate("door")
        status, trigger = TopicPartition("key-status", 0), TopicPartition("resume-trigger", 0)
        paused = b'{"state":"PAUSED","actor":"crm","reason":"dispute"}'
        epoch = driver.log.append(status, to_batch([Row(b"ada", paused, 5)]))
        driver.send(EVENTS, "ada", 1, 2)
        driver.run()
        assert gate.held("ada") == 2
        driver.log.append(trigger, to_batch([Row(b"ada", b'{"epoch":%d}' % epoch, 6)]))
        driver.run()
        assert passed(driver) == [1, 2]
        assert [(reported.state, reported.actor) for reported in gate.audit()] == [
            ("PAUSED", "crm"),
            ("ACTIVE", ""),
        ]
        assert "processed-events" in driver.log.names()


def test_a_status_may_come_in_while_events_do(driver: Driver, gate: GateView) -> None:
    """Nothing passes between a pause that was answered and the event behind it."""
    for number in range(50):
        driver.send(EVENTS, "ada", number)
        if number % 10 == 5:
            gate.pause("ada")
        driver.run()
        if number % 10 == 8:
            gate.resume("ada")
    gate.resume("ada")
    driver.run()
    assert passed(driver) == list(range(50))
