"""I9: with pauses, resumes, crashes and moves at any time, each key comes out as it went in."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.gate.app import COUNTS, EVENTS, PASSED, gated
from tests.repetitions import repeated

from tidegate.log.partitioner import partition_for
from tidegate.testing import Driver

PARTITIONS = 2
KEYS = ["ada", "bob", "cid"]
POINTS = [*(f"commit.{step}" for step in (1, 3, 5, 6, 7, 8)), "log.commit.7", "log.commit.8"]

keys = st.sampled_from(KEYS)
sends = st.tuples(st.just("send"), keys, st.integers(1, 5))
pauses = st.tuples(st.just("pause"), keys, st.sampled_from([None, None, 5, 50]))
resumes = st.tuples(st.just("resume"), keys, st.none())
triggers = st.tuples(st.just("trigger"), keys, st.integers(0, 2))
strays = st.tuples(st.just("stray"), keys, st.integers(0, 20))
gate_wide = st.tuples(st.just("gate_wide"), st.booleans(), st.none())
rest = st.one_of(
    st.tuples(st.just("advance"), st.sampled_from([5, 60]), st.none()),
    st.tuples(st.just("crash"), st.sampled_from(POINTS), st.booleans()),
    st.tuples(st.sampled_from(["move", "stop"]), st.none(), st.none()),
)
ops = st.one_of(sends, sends, pauses, pauses, resumes, triggers, triggers, strays, gate_wide, rest)


@dataclass
class Requested:
    """The last requested status of a key, or of the whole gate in a partition."""

    paused: bool
    epoch: int
    expires_at: int | None = None
    explicit: bool = True


@dataclass
class Model:
    """What a gate should do, computed from the requested statuses alone."""

    own: dict[str, Requested] = field(default_factory=dict)
    gate_wide: dict[int, Requested] = field(default_factory=dict)
    waiting: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    sent: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    passed: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    epochs: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    triggers: list[tuple[str, int]] = field(default_factory=list)
    refused: list[tuple[str, int]] = field(default_factory=list)

    def is_held(self, key: str) -> bool:
        own, gate_wide = self.own.get(key), self.gate_wide.get(partition_of(key))
        if own is not None and own.paused:
            return True
        if gate_wide is None or not gate_wide.paused:
            return False
        return own is None or not own.explicit or own.epoch < gate_wide.epoch

    def run(self, now: int) -> None:
        """Apply all requested statuses, then triggers; then release what may pass, oldest first."""
        for key, epoch in self.triggers:
            own = self.own.get(key)
            if own is None or epoch not in self.epochs[key]:
                self.refused.append((key, epoch))
            elif own.paused and own.epoch == epoch:
                self.own[key] = Requested(False, epoch, explicit=False)
        self.triggers.clear()
        for requested in [*self.own.values(), *self.gate_wide.values()]:
            if requested.paused and requested.expires_at is not None and requested.expires_at <= now:
                requested.paused, requested.explicit = False, False
        for key in KEYS:
            self.waiting[key] += self.sent.pop(key, [])
            if not self.is_held(key):
                self.passed[key] += self.waiting.pop(key, [])


def partition_of(key: str) -> int:
    return partition_for(key.encode(), PARTITIONS)


class Run:
    """A driver and the model beside it."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.gate = driver.gate("door")
        self.model = Model()
        self.number = 0
        self.placed = False

    def send(self, key: str, count: int) -> None:
        for _ in range(count):
            self.number += 1
            self.driver.send(EVENTS, key, self.number)
            self.model.sent[key].append(self.number)

    def pause(self, key: str, lasts: int | None) -> None:
        end = None if lasts is None else self.driver.clock.now() + lasts
        self._requested(key, Requested(True, self.gate.pause(key, expires_at=end), end))

    def resume(self, key: str, _: None) -> None:
        self._requested(key, Requested(False, self.gate.resume(key)))

    def _requested(self, key: str, requested: Requested) -> None:
        self.model.own[key] = requested
        self.model.epochs[key].append(requested.epoch)

    def trigger(self, key: str, back: int) -> None:
        """For the last epoch of a key, or an older one."""
        known = self.model.epochs[key]
        if known:
            epoch = known[max(0, len(known) - 1 - back)]
            self.gate.trigger(key, epoch)
            self.model.triggers.append((key, epoch))

    def stray(self, key: str, epoch: int) -> None:
        """For an offset that may be a status of another key, of no key, or not there."""
        self.gate.trigger(key, epoch)
        self.model.triggers.append((key, epoch))

    def gate_wide(self, paused: bool, _: None) -> None:
        command = self.gate.pause_all if paused else self.gate.resume_all
        for partition, epoch in command().items():
            self.model.gate_wide[partition] = Requested(paused, epoch)

    def advance(self, millis: int, _: None) -> None:
        self.driver.advance(millis)

    def crash(self, point: str, elsewhere: bool) -> None:
        """In the next run, which has something to commit."""
        if not self.placed:
            self.placed = True
            self.send("ada", 1)
            self.driver.crash(point, elsewhere=elsewhere)

    def move(self, _: None, __: None) -> None:
        if not self.placed:
            self.driver.move()

    def stop(self, _: None, __: None) -> None:
        if not self.placed:
            self.driver.stop()

    def run(self) -> None:
        self.driver.run()
        self.placed = False
        self.model.run(self.driver.clock.now())
        assert self.driver.by_key(PASSED) == {key: out for key, out in self.model.passed.items() if out}
        for key in KEYS:
            assert self.gate.held(key) == len(self.model.waiting[key])

    def end(self) -> None:
        """Everything is let out."""
        self.gate_wide(False, None)
        for key in KEYS:
            self.resume(key, None)
        self.run()
        everything = [number for out in self.driver.by_key(PASSED).values() for number in out]
        assert sorted(everything) == list(range(1, self.number + 1)), (
            "nothing is lost, and nothing comes twice"
        )
        assert not any(self.model.waiting.values())
        counts = {key: len(out) for key, out in self.model.passed.items() if out}
        assert self.driver.rows(COUNTS) == counts
        for name in ("door-status", "door-held", "door-index"):
            store = self.driver.store(name)
            assert store.partitions == store.changelogs
        assert self.driver.store("door-held").contents == {}
        letters = [
            ((letter.key or b"").decode(), msgspec.json.decode(letter.value or b"")["epoch"])
            for letter in self.driver.dead_letters()
        ]
        assert sorted(letters) == sorted(self.model.refused)


@pytest.mark.soak
@settings(max_examples=repeated(15, soak=1000))
@given(st.lists(st.tuples(ops, st.booleans()), min_size=20, max_size=40), st.integers(1, 3), st.booleans())
def test_each_key_comes_out_as_it_went_in(steps: list[Any], chunk: int, batches: bool) -> None:
    """After each step, or after several of them, there is a run; the model has the expected result."""
    with Driver(gated(drain_chunk=chunk), partitions=PARTITIONS, slots=2, batches=batches) as driver:
        run = Run(driver)
        for (what, first, second), runs in steps:
            getattr(run, what)(first, second)
            if runs:
                run.run()
        run.end()
