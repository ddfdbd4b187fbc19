"""Commands that other services write to the topics: in the wrong partition, for the wrong key or epoch."""

from __future__ import annotations

import random
from collections.abc import Iterator

import msgspec
import pytest
from tests.gate.app import EVENTS, PASSED, gated

from tidegate.gate.commands import LONGEST_KEY
from tidegate.gate.decide import REMEMBERED
from tidegate.gate.formats import RequestedStatus, Trigger
from tidegate.log.partitioner import partition_for
from tidegate.log.records import Row, to_batch
from tidegate.log.topic import TopicSpec
from tidegate.runtime.output.on_error import CODE, MESSAGE, POSITION
from tidegate.testing import Driver
from tidegate.testing.gates import GateView
from tidegate.types import TopicPartition

PARTITIONS = 3
PAUSED = msgspec.json.encode(RequestedStatus("PAUSED"))
HOME = partition_for(b"ada", PARTITIONS)
AWAY = (HOME + 1) % PARTITIONS


@pytest.fixture
def driver() -> Iterator[Driver]:
    with Driver(gated(), partitions=PARTITIONS) as made:
        yield made


@pytest.fixture
def gate(driver: Driver) -> GateView:
    return driver.gate("door")


def write(driver: Driver, what: str, partition: int, key: bytes | None, value: bytes | None) -> int:
    row = Row(key, value, driver.clock.now())
    return int(driver.log.append(TopicPartition(f"gated-door-{what}", partition), to_batch([row])))


def causes(driver: Driver) -> list[str]:
    return [(dict(letter.headers)[CODE] or b"").decode() for letter in driver.dead_letters()]


@pytest.mark.parametrize("value", [PAUSED, None], ids=["paused", "deleted"])
@pytest.mark.parametrize("when", ["running", "down", "moved", "crashed"])
def test_a_status_in_another_partition_than_its_key_s_is_a_dead_letter(
    driver: Driver, gate: GateView, when: str, value: bytes | None
) -> None:
    """As librdkafka's own partitioner would put it. It must not look applied while events pass."""
    driver.run()
    if when == "down":
        driver.stop()
    write(driver, "status", AWAY, b"ada", value)
    if when == "moved":
        driver.move()
    if when == "crashed":
        driver.crash("commit.5")
    driver.send(EVENTS, "ada", 1)
    driver.run()
    assert driver.by_key(PASSED) == {"ada": [1]}
    [letter] = driver.dead_letters()
    reported = dict(letter.headers)
    assert (letter.key, letter.value) == (b"ada", value)
    assert reported[CODE] == b"wrong-partition"
    assert f"belongs to partition {HOME}" in (reported[MESSAGE] or b"").decode()
    assert reported[POSITION] == b"gated-door-status/%d/0" % AWAY
    assert gate.audit() == []
    assert list(gate._gate.states()) == []
    driver.move()
    driver.run()
    assert causes(driver) == ["wrong-partition"], "once"


def test_a_trigger_in_another_partition_than_its_key_s_is_a_dead_letter(
    driver: Driver, gate: GateView
) -> None:
    epoch = gate.pause("ada")
    write(driver, "trigger", AWAY, b"ada", msgspec.json.encode(Trigger(epoch)))
    driver.send(EVENTS, "ada", 1)
    driver.run()
    assert gate.held("ada") == 1
    assert causes(driver) == ["wrong-partition"]


@pytest.mark.parametrize("what", ["status", "trigger"])
def test_the_empty_key_cannot_be_paused_by_topic_either(driver: Driver, gate: GateView, what: str) -> None:
    """No tool could release it. A gate-wide pause holds it as any other key, and lets it go."""
    value = PAUSED if what == "status" else msgspec.json.encode(Trigger(0))
    write(driver, what, partition_for(b"", PARTITIONS), b"", value)
    driver.send(EVENTS, "", 1)
    driver.run()
    assert driver.values(PASSED) == [1]
    assert causes(driver) == ["bad-key"]
    gate.pause_all()
    driver.send(EVENTS, "", 2)
    driver.run()
    assert driver.values(PASSED) == [1]
    gate.resume_all()
    driver.run()
    assert driver.values(PASSED) == [1, 2]


def test_a_key_that_is_too_long_for_the_tools_cannot_be_paused_by_topic_either() -> None:
    with Driver(gated(), partitions=1) as driver:
        roomy = {"max.message.bytes": str(4 << 20)}
        driver.log.create(TopicSpec("gated-door-status", 1, {"cleanup.policy": "compact", **roomy}))
        driver.log.create(TopicSpec("gated-dead-letters", 1, roomy))
        write(driver, "status", 0, b"k" * (LONGEST_KEY + 1), PAUSED)
        driver.run()
        assert causes(driver) == ["bad-key"]


@pytest.mark.parametrize("seed", range(5))
def test_a_trigger_for_an_offset_that_is_no_status_of_its_key_is_always_a_dead_letter(seed: int) -> None:
    """Statuses of three keys in one partition; then triggers for every offset and every key."""
    chance = random.Random(seed)
    with Driver(gated(), partitions=1) as driver:
        gate = driver.gate("door")
        own: dict[str, list[int]] = {key: [] for key in ("ada", "bob", "cid")}
        for _ in range(20):
            key = chance.choice(list(own))
            own[key].append(chance.choice([gate.pause, gate.resume])(key))
        driver.run()
        driver.move()
        wrong = [(key, epoch) for key in own for epoch in range(25) if epoch not in own[key]]
        chance.shuffle(wrong)
        before = {key: gate.status(key) for key in own}
        for key, epoch in wrong:
            gate.trigger(key, epoch)
        driver.run()
        assert causes(driver) == ["bad-epoch"] * len(wrong)
        assert gate.stale == 0
        assert {key: gate.status(key) for key in own} == before
        older = [(key, epoch) for key in own for epoch in own[key][:-1]]
        for key, epoch in older:
            gate.trigger(key, epoch)
        driver.run()
        assert (len(causes(driver)), gate.stale) == (len(wrong), len(older)), "an outdated one is no error"


def test_what_is_older_than_all_that_is_remembered_of_a_key_is_outdated() -> None:
    with Driver(gated(), partitions=1) as driver:
        gate = driver.gate("door")
        gate.pause("bob")
        epochs = [gate.pause("ada") for _ in range(REMEMBERED + 5)]
        for epoch in (0, *epochs[:-1]):
            gate.trigger("ada", epoch)
        driver.run()
        assert (causes(driver), gate.stale) == ([], REMEMBERED + 5)
        status = gate.status("ada")
        assert status is not None
        assert status.earlier == tuple(epochs[-1 - REMEMBERED : -1])
        gate.trigger("ada", epochs[-1])
        driver.run()
        assert gate.stale == REMEMBERED + 5


@pytest.mark.parametrize("exempt", [True, False])
@pytest.mark.parametrize("order", ["gate-wide first", "key first"])
def test_a_trigger_ends_the_pause_of_its_key_and_no_gate_wide_one(
    driver: Driver, gate: GateView, order: str, exempt: bool
) -> None:
    """Whichever of the two pauses is newer: only a status ACTIVE exempts a key from a gate-wide pause."""
    if order == "gate-wide first":
        gate.pause_all()
    if exempt:
        gate.resume("ada")
    epoch = gate.pause("ada")
    if order == "key first":
        gate.pause_all()
    driver.send(EVENTS, "ada", 1)
    driver.run()
    gate.trigger("ada", epoch)
    driver.run()
    status = gate.status("ada")
    assert status is not None
    assert (status.state, status.cause, gate.held("ada")) == ("ACTIVE", "trigger", 1)
    driver.move()
    driver.run()
    assert gate.held("ada") == 1
    gate.resume("ada")
    driver.run()
    assert driver.by_key(PASSED) == {"ada": [1]}


@pytest.mark.parametrize(
    ("what", "value"),
    [
        ("status", b'{"state": "PAUSED", "expires_at": 1' + b"0" * 300 + b"}"),
        ("status", b'{"state": "PAUSED", "expires_at": 18446744073709551616}'),
        ("status", b'{"state": "PAUSED", "expires_at": 9223372036854775807}'),
        ("status", b'{"state": "PAUSED", "expires_at": -1}'),
        ("status", b'{"state": "PAUSED", "expires_at": NaN}'),
        ("status", b'{"state": "PAUSED", "expires_at": 1e300}'),
        ("status", b'{"state": "PAUSED", "actor": "\\ud800"}'),
        ("trigger", b'{"epoch": 1' + b"0" * 300 + b"}"),
        ("trigger", b'{"epoch": -1}'),
        ("trigger", b'{"epoch": 1.5}'),
        ("trigger", b'{"epoch": 0, "reason": "\\udfff"}'),
    ],
)
def test_numbers_and_texts_that_no_row_can_hold_are_refused(
    driver: Driver, gate: GateView, what: str, value: bytes
) -> None:
    gate.pause("ada")
    driver.run()
    gate.write(what, "ada", value)
    driver.send(EVENTS, "bob", 1)
    driver.run()
    assert driver.by_key(PASSED) == {"bob": [1]}
    assert causes(driver) == ["bad-command"]
