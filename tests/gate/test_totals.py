"""How much a gate holds is counted by its tasks, so that no query reads all keys."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.gate.app import EVENTS, gated
from tests.gate.many import many_statuses

from tidegate.gate.buffer import SPARE, Buffer
from tidegate.gate.formats import TOTALS, Buffered, GateTotals
from tidegate.gate.query import GateQuery
from tidegate.log.records import Row, to_batch
from tidegate.testing import Driver
from tidegate.types import TopicPartition

KEYS = [f"key-{number}" for number in range(12)]


def counted(gate: GateQuery) -> GateTotals:
    """The same, key by key."""
    totals = GateTotals(gate_wide=any(status.state == "PAUSED" for status in gate.gate_wide().values()))
    for one in gate.states():
        paused = int(one.status is not None and one.status.state == "PAUSED")
        held = one.buffered
        totals += (
            GateTotals(paused) if held is None else GateTotals(paused, 1, held.count, held.bytes, held.since)
        )
    return totals


@pytest.mark.parametrize("seed", range(4))
def test_totals_equal_a_count_over_all_keys(seed: int) -> None:
    chance = random.Random(seed)
    with Driver(gated(drain_chunk=7), partitions=3, slots=2, batches=seed % 2 == 0) as driver:
        gate = driver.gate("door")

        def disturb() -> None:
            key = chance.choice(KEYS)
            end = driver.clock.now() + 50
            match chance.randrange(8):
                case 0 | 1 | 2:
                    gate.pause(key, expires_at=chance.choice([None, None, end]))
                case 3:
                    gate.resume(key)
                case 4:
                    chance.choice([gate.pause_all, gate.resume_all])()
                case _:
                    driver.send(EVENTS, key, *range(chance.randrange(1, 30)))

        for step in range(25):
            for _ in range(chance.randrange(1, 5)):
                disturb()
            if step % 6 == 5:
                driver.crash("commit.5", elsewhere=True)
                driver.send(EVENTS, "ada", 1)
            driver.run()
            driver.advance(chance.randrange(40))
            assert gate._gate.totals() == counted(gate._gate)
        assert TOTALS not in [one.key for one in gate._gate.states()]
        gate.resume_all()
        for key in (*KEYS, "ada"):
            gate.resume(key)
        driver.run()
        assert gate._gate.totals() == GateTotals()


def test_a_gate_that_was_never_used_and_rows_without_totals_are_counted_too() -> None:
    with Driver(gated(), partitions=2) as driver:
        gate = driver.gate("door")
        assert gate._gate.totals() == GateTotals()
        gate.pause("ada")
        driver.send(EVENTS, "ada", 1, 2)
        driver.run()
        expected = gate._gate.totals()
        assert (expected.paused, expected.keys, expected.held) == (1, 1, 2)
        for number in range(2):
            statuses = TopicPartition("gated-door-status-changelog", number)
            driver.log.append(statuses, to_batch([Row(TOTALS, None, 0)]))
        assert gate._gate.totals() == expected


def test_totals_are_found_at_the_end_of_the_changelog(tmp_path: Path) -> None:
    """Behind statuses that changed nothing, and behind events that came without any status."""
    with many_statuses(tmp_path / "log.db") as driver:
        gate = driver.gate("door")
        assert sum(1 for _ in gate._gate.states()) < 20, "key by key, too few are counted"
        found = gate._gate.totals()
        assert (found.paused, found.keys, found.held, found.gate_wide) == (20, 2, 2, False)
        gate.pause_all()
        driver.run()
        assert gate._gate.totals().gate_wide
        for turn in range(5):
            driver.send(EVENTS, "ada", *range(300))
            driver.run()
            assert gate._gate.totals().held == 2 + 300 * (turn + 1)


class Index:
    """The index of a task that has held one key for long."""

    def all(self) -> Iterator[tuple[bytes, Buffered]]:
        yield b"old", Buffered(1, 1, 0, 1, 5)


def test_times_that_are_gone_are_not_kept_for_ever() -> None:
    buffer = Buffer({}, Index(), lambda: None)  # type: ignore[arg-type]
    for number in range(1, 10 * SPARE):
        buffer.reset(b"busy", Buffered(1, 1, 0, 1, 5 + number))
    assert (buffer.oldest, buffer.count) == (5, 2)
    assert len(buffer._times) <= 2 * 2 + SPARE
    buffer.reset(b"old", None)
    assert [buffer.oldest] == [4 + 10 * SPARE]
    buffer.reset(b"busy", None)
    assert buffer.oldest is None
    assert (buffer.count, buffer.size) == (0, 0)
