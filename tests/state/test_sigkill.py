"""Killed at any time, again and again, and still right: I1 to I8 and I12, with real processes.

A slot of two tasks runs over a log in a file. It is killed, started again on one of two hosts, finds its
folder or finds it lost, is stopped and woken up as a zombie beside its successor. Each life checks its stores
when it opens them; the log is checked between the lives and at the end.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from contextlib import ExitStack, closing
from typing import Any

import pytest
from tests.state.bench import OUT, Bench
from tests.state.children import Child, child
from tests.state.counting import (
    GHOST,
    PARTITIONS,
    STORES,
    Expected,
    check_stores,
    create,
    read_input,
    send,
)
from tests.state.ground import Ground
from tests.state.sigkill_life import slot_life

from tidegate.log.positions import Position
from tidegate.log.records import rows_of
from tidegate.types import Offset, TopicPartition

RECORDS_PER_LIFE = 300
SEED = int(os.environ.get("TIDEGATE_SEED", "1"))
ZOMBIE_STEPS = [f"commit.{step}" for step in range(1, 8)]
HALF_COPIED = "the state's file is cut short"


class Checker:
    """Knows what every committed reader must see, and what was promised so far."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._expected = {partition: Expected() for partition in PARTITIONS}
        self._taken: dict[int, int] = dict.fromkeys(PARTITIONS, 0)
        """Input offsets: on Kafka marks of transactions lie between records."""
        self._read: dict[int, int] = dict.fromkeys(PARTITIONS, 0)

    def between(self, acked: dict[int, int]) -> None:
        """After a life: what came since the last one. Whatever it left open ends with the next writer."""
        self._bench.slot()
        for partition, expected in self._expected.items():
            before = len(expected.outputs)
            position = self._bench.position(partition)
            stands = position.sources["in"][partition]
            taken = self._taken[partition]
            assert stands >= max(acked.get(partition, 0), taken), "I1: what was acknowledged is lost"
            for record in read_input(self._bench, partition, taken, stands):
                expected.take(record)
            self._taken[partition] = stands
            found = self._bench.read(TopicPartition(OUT, partition), self._read[partition])
            outputs = [(row.key, row.value) for row in found]
            assert outputs == expected.outputs[before:], "I1 to I4: each effect once, in order, and no other"
            self._read[partition] = found[-1].offset + 1 if found else self._read[partition]
            self._check_changelogs(partition, position)

    def _check_changelogs(self, partition: int, position: Position) -> None:
        """Each goes as far as the position, and no record further."""
        log = self._bench.log
        offsets = {
            self._bench.changelog_of(store, partition): Offset(position.changelogs[store.name])
            for store in STORES
        }
        ends = log.ends(offsets)
        assert all(ends[one] >= offset for one, offset in offsets.items()), "I7: it is ahead of the log"
        with closing(log.reader(offsets)) as reader:
            while any(reader.position(one) < end for one, end in ends.items()):
                found = [row for fetched in reader.poll(1) for row in rows_of(fetched.batch)]
                assert not found, "I8: somebody else wrote to the changelog"

    def at_the_end(self, acked: dict[int, int]) -> None:
        """All of it once more: what was read in between must still stand there."""
        self.between(acked)
        assert any(expected.outputs for expected in self._expected.values()), "nothing was ever committed"
        for partition, expected in self._expected.items():
            outputs = self._bench.records(TopicPartition(OUT, partition))
            assert outputs == expected.outputs, "I5: an offset has another value than before"
            for store in STORES:
                changed = self._bench.records(self._bench.changelog_of(store, partition))
                assert all(key != GHOST.encode() for key, _ in changed), "I3: an aborted write is seen"


def acknowledged(messages: list[Any], acked: dict[int, int]) -> None:
    """Take the messages of a life: no error, no store thrown away, and how far it got."""
    for message in messages:
        assert not isinstance(message, BaseException), message
        match message:
            case ("open", list(discards)):
                reasons = {reason for each in discards for reason in each.values()}
                assert reasons <= {HALF_COPIED}, "I7: a store was not at its position"
            case ("acked", dict(offsets)):
                for partition, offset in offsets.items():
                    acked[partition] = max(acked.get(partition, 0), offset)
            case other:
                assert other == ("fenced",)


def wait_until_fenced(zombie: Child, acked: dict[int, int]) -> None:
    """A zombie may finish the commit that it slept in, if the log had it; the next one is refused."""
    message = None
    while message != ("fenced",):
        message = zombie.receive()
        acknowledged([message], acked)
    zombie.end()


@pytest.mark.slow
def test_a_slot_that_is_killed_at_any_time_loses_nothing_and_repeats_nothing(
    ground: Ground, kills: int
) -> None:
    rng = random.Random(SEED)
    acked: dict[int, int] = dict.fromkeys(PARTITIONS, 0)
    zombie: Child | None = None
    zombies = 0
    with closing(ground.bench(len(PARTITIONS))) as bench, ExitStack() as stack:
        create(bench)
        checker = Checker(bench)
        killed = 0
        while killed < kills or min(acked.values()) <= 10 * kills:
            assert killed < 10 * kills, "it does not get on"
            send(bench, RECORDS_PER_LIFE, rng)
            host = rng.choice(["a", "b"])
            if zombie is None and rng.random() < 0.2:
                shutil.rmtree(bench.folder / host, ignore_errors=True)
            if rng.random() < 0.3:
                bench.tidy(rng.choice(STORES))
            if zombie is None and rng.random() < 0.25:
                zombie = stack.enter_context(
                    child(slot_life, ground, host, rng.randrange(1 << 30), rng.choice(ZOMBIE_STEPS))
                )
                zombie.wait_until_stopped()
                zombies += 1
                acknowledged(zombie.received(), acked)
                continue
            with child(slot_life, ground, host, rng.randrange(1 << 30), None) as life:
                if rng.random() < 0.7:
                    acknowledged([life.receive()], acked)
                time.sleep(rng.uniform(0, 0.3))
                if zombie is not None:
                    zombie.go_on()
                    wait_until_fenced(zombie, acked)
                    zombie = None
                life.kill()
                killed += 1
                acknowledged(life.received(), acked)
            checker.between(acked)
        for host in ("a", "b"):
            slot = bench.slot()
            for partition in PARTITIONS:
                task = slot.start(*STORES, partition=partition, host=host)
                check_stores(bench, task)
            slot.drop()
        checker.at_the_end(acked)
    assert zombies > 0
