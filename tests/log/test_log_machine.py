"""Any history of calls leaves the log as the oracle does: I1, I2, I3, I5 and I8 after every step.

Sizes at which the log starts a new piece, page, run or pass are made small, so that a short history goes
through all of its loops. Two handles of one file stand for two processes. What comes in between two steps
of a protocol (another writer, a purge, a crash) comes in at its fault points.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.log.pair import OpenWriter, Pair, at_step, crash
from tests.repetitions import repeated

from tidegate.clock import ManualClock
from tidegate.log.records import Row
from tidegate.log.sqlite import append, compact, fencing, merge, newest_offsets, reader, retention, upkeep
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.topic import TopicSpec
from tidegate.types import TopicPartition

SPILL_BYTES = 1500
SMALL: list[tuple[Any, str, int]] = [
    (append, "PIECE_BYTES", 600),
    (compact, "KEYS_PER_PASS", 3),
    (newest_offsets, "ROWS_AT_ONCE", 5),
    (compact, "TARGET_BYTES", 2000),
    (fencing, "SWEEP_BATCHES", 2),
    (merge, "LOOK_BACK", 12),
    (merge, "SMALL_BYTES", 1200),
    (merge, "TARGET_BYTES", 4000),
    (merge, "WORTH_MERGING", 3),
    (reader, "PAGE_BYTES", 3000),
    (reader, "PAGE_SPANS", 4),
    (retention, "PIECE_SPANS", 2),
    (upkeep, "VACUUM_PAGES", 1),
]
# With this ratio a table that was compacted once is merged in between, too.
COMPACT = {"cleanup.policy": "compact", "delete.retention.ms": "8000", "min.cleanable.dirty.ratio": "1"}
TOPICS = {
    "aging": {"retention.ms": "40000"},
    "both": {**COMPACT, "cleanup.policy": "compact,delete", "retention.ms": "40000"},
    "events": {},
    "sized": {"retention.bytes": "2000"},
    "table": COMPACT,
}
TABLES = ("table", "both")

Draft = tuple[bytes | None, bytes | None, int, tuple[tuple[str, bytes | None], ...]]
Step = tuple[int, list[Draft] | None]

ids = st.sampled_from(["x", "y"])
anyone = st.integers(0, 11)
shares = st.sampled_from([0.0, 0.3, 0.5, 0.9, 1.0])
pauses = st.sampled_from([0, 500, 1000, 7_999, 8_000, 9_000, 30_000])
drafts = st.tuples(
    st.sampled_from([b"a", b"b", b"c", b"d", b"", None]),
    st.sampled_from([None, b"", b"1", b"2", b"long" * 30]),
    st.integers(0, 60_000),
    st.sampled_from([(), (), (("h", b"1"),), (("h", None), ("h", b""), ("", b"x"))]),
)
few = st.lists(drafts, min_size=1, max_size=5)
many = st.tuples(few, st.integers(8, 16)).map(lambda two: two[0] * two[1])
# A step of a transaction: append rows to a partition, or flush it.
parts = st.lists(st.tuples(anyone, st.one_of(few, many, st.none())), min_size=1, max_size=4)


class LogMachine(RuleBasedStateMachine):
    """The rules: what a process may do to the log."""

    handles = 1

    def __init__(self) -> None:
        super().__init__()
        self._stack = ExitStack()
        # Small pages and pieces: a short history passes their borders, too.
        for module, name, value in SMALL:
            self._stack.enter_context(mock.patch.object(module, name, value))
        memory = Path("/dev/shm")  # noqa: S108 - a file system like any other, only faster
        self._folder = Path(tempfile.mkdtemp("-machine", "tidegate-", memory if memory.is_dir() else None))
        self._stack.callback(shutil.rmtree, self._folder)
        self.clock = ManualClock()
        self.pair = Pair(self._open, self.handles, self.clock)
        self._stack.callback(self.pair.close)
        self._turn = 0

    def _open(self) -> SqliteLog:
        path = self._folder / "log.db" if self.handles > 1 else None
        return SqliteLog(path, clock=self.clock, upkeep=False, spill_bytes=SPILL_BYTES)

    def teardown(self) -> None:
        self._stack.close()

    def _handle(self, at: int) -> int:
        return at % self.handles

    def _target(self, where: int) -> TopicPartition:
        partitions = self.pair.oracle.partitions()
        return partitions[where % len(partitions)]

    def _rows(self, target: TopicPartition, drafted: list[Draft]) -> list[Row]:
        filler = b"e" if target.topic in TABLES else None
        now = self.clock.now()
        return [
            Row(filler if key is None else key, value, now - age, headers)
            for key, value, age, headers in drafted
        ]

    def _writer(self, writer_id: str, at: int) -> OpenWriter:
        """The holder of the id, if it can go on; else a new one."""
        for writer in reversed(self.pair.writers):
            known = writer.known
            if known.id == writer_id and not known.spent and not self.pair.oracle.is_fenced(known):
                return writer
        return self.pair.open_writer(self._handle(at), writer_id)

    def _take(self, writer: OpenWriter, taken: list[Step]) -> None:
        for where, drafted in taken:
            target = self._target(where)
            if drafted is None:
                self.pair.flush(writer, {target, self._target(where + 1)})
            else:
                self.pair.append(writer, target, self._rows(target, drafted))

    # Topics.

    @initialize(kinds=st.lists(st.sampled_from(sorted(TOPICS)), min_size=1, max_size=3))
    def begin(self, kinds: list[str]) -> None:
        for name in dict.fromkeys([*kinds, "table"]):
            self.pair.create(0, TopicSpec(name, 1 + len(name) % 2, TOPICS[name]))

    @rule(name=st.sampled_from(sorted(TOPICS)), partitions=st.integers(1, 3), at=anyone)
    def create(self, name: str, partitions: int, at: int) -> None:
        self.pair.create(self._handle(at), TopicSpec(name, partitions, TOPICS[name]))

    @rule(where=anyone, at=anyone, again=st.sampled_from([0, 0, 1, 2]))
    def delete(self, where: int, at: int, again: int) -> None:
        name = self._target(where).topic
        self.pair.delete(self._handle(at), name)
        if again or not self.pair.oracle.topics:
            self.pair.create(self._handle(at), TopicSpec(name, again or 1, TOPICS[name]))

    @rule(where=anyone, at=anyone, share=shares)
    def purge(self, where: int, at: int, share: float) -> None:
        self.pair.purge(self._handle(at), self._target(where), share)

    # Writers.

    @rule(writer_id=ids, at=anyone, taken=parts)
    def begin_or_go_on(self, writer_id: str, at: int, taken: list[Step]) -> None:
        self._take(self._writer(writer_id, at), taken)

    @rule(writer_id=ids, at=anyone, taken=parts)
    def commit(self, writer_id: str, at: int, taken: list[Step]) -> None:
        writer = self._writer(writer_id, at)
        self._take(writer, taken)
        self.pair.commit(writer)

    @rule(writer_id=ids, at=anyone, taken=parts)
    def abort(self, writer_id: str, at: int, taken: list[Step]) -> None:
        writer = self._writer(writer_id, at)
        self._take(writer, taken)
        self.pair.abort(writer)

    @rule(writer_id=ids, at=anyone, taken=parts, step=st.integers(1, 8), nth=st.integers(1, 2))
    def crash_in_commit(self, writer_id: str, at: int, taken: list[Step], step: int, nth: int) -> None:
        writer = self._writer(writer_id, at)
        with at_step(f"log.commit.{step}", nth, crash):
            self._take(writer, taken)
            self.pair.commit(writer, crashing=step)

    @rule(writer_id=ids, at=anyone, taken=parts, where=anyone, other=few, fence=st.booleans())
    def commit_after_another(
        self, writer_id: str, at: int, taken: list[Step], where: int, other: list[Draft], fence: bool
    ) -> None:
        """Another one gets the lock between encoding and the short transaction."""
        writer = self._writer(writer_id, at)
        self._take(writer, taken)
        reported = [
            target for target in sorted(writer.known.flushed) if target in self.pair.oracle.partitions()
        ]

        def meanwhile() -> None:
            if fence:
                self.pair.open_writer(self._handle(at), writer_id)
            else:
                target = reported[where % len(reported)] if reported else self._target(where)
                self.pair.append_plainly(self._handle(at), target, self._rows(target, other))

        with at_step("log.commit.3", 1, meanwhile):
            self.pair.commit(writer)

    @rule(writer_id=ids, at=anyone)
    def take_over(self, writer_id: str, at: int) -> None:
        self.pair.open_writer(self._handle(at), writer_id)

    @precondition(lambda self: self.pair.writers)
    @rule(who=anyone, taken=parts, end=st.booleans())
    def anyone_goes_on(self, who: int, taken: list[Step], end: bool) -> None:
        """Also one that was fenced long ago, or failed."""
        writer = self.pair.writers[who % len(self.pair.writers)]
        self._take(writer, taken)
        if end:
            self.pair.commit(writer)

    @rule(where=anyone, at=anyone, batches=st.lists(few, min_size=1, max_size=5))
    def append_plainly(self, where: int, at: int, batches: list[list[Draft]]) -> None:
        target = self._target(where)
        for drafted in batches:
            self.pair.append_plainly(self._handle(at), target, self._rows(target, drafted))

    @rule(writer_id=ids, at=anyone, where=anyone)
    def append_what_is_refused(self, writer_id: str, at: int, where: int) -> None:
        writer, target, row = self._writer(writer_id, at), self._target(where), Row(b"a", b"", 0)
        late = Row(b"a", b"", self.clock.now() + 3_600_001)
        self.pair.append_refused(writer, TopicPartition("none", 0), row, "no-such-topic")
        self.pair.append_refused(writer, TopicPartition(target.topic, 99), row, "no-such-partition")
        self.pair.append_refused(writer, target, late, "bad-timestamp")
        if target.topic in TABLES:
            self.pair.append_refused(writer, target, Row(None, b"", 0), "null-key")

    @rule(at=anyone)
    def restart_all_writers(self, at: int) -> None:
        """Whoever takes over an id sweeps what its older holders left pending."""
        for writer_id in sorted(self.pair.oracle.epochs):
            self.pair.open_writer(self._handle(at), writer_id)
        assert self.pair.check_tables() == 0

    # Upkeep.

    @rule(where=anyone, batches=st.lists(few, max_size=5), pause=pauses)
    def upkeep(self, where: int, batches: list[list[Draft]], pause: int) -> None:
        self.append_plainly(where, 0, batches)
        self.clock.advance(pause)
        self.pair.upkeep()

    @rule(where=anyone, waits=st.lists(pauses, min_size=1, max_size=3))
    def compact(self, where: int, waits: list[int]) -> None:
        for pause in waits:
            self.clock.advance(pause)
            self.pair.compact(self._target(where).topic)

    @precondition(lambda self: "table" in self.pair.oracle.topics)
    @rule(pause=st.sampled_from([500, 1000, 3000]), times=st.integers(2, 14))
    def delete_keys_steadily(self, pause: int, times: int) -> None:
        """Each compaction meets another tombstone; the older ones must not wait for it."""
        target = TopicPartition("table", 0)
        for number in range(times):
            row = Row(f"k{number}".encode(), None, self.clock.now())
            self.pair.append_plainly(0, target, [row])
            self.pair.compact("table")
            self.clock.advance(pause)

    @precondition(lambda self: "table" in self.pair.oracle.topics)
    @rule(
        batches=st.lists(few, min_size=1, max_size=4),
        at=anyone,
        what=st.sampled_from(["purge", "append", 2, 3, 4, 5]),
        share=st.sampled_from([0.5, 1.0]),
        nth=st.integers(1, 2),
    )
    def compact_in_trouble(
        self, batches: list[list[Draft]], at: int, what: str | int, share: float, nth: int
    ) -> None:
        """A purge, an append or a crash at a numbered step comes in between."""
        target = TopicPartition("table", at % len(self.pair.oracle.topics["table"].partitions))
        for drafted in batches:
            self.pair.append_plainly(self._handle(at), target, self._rows(target, drafted))

        def trouble() -> None:
            if what == "purge":
                self.pair.purge(self._handle(at), target, share)
            elif what == "append":
                self.pair.append_plainly(self._handle(at), target, self._rows(target, batches[0]))
            else:
                crash()

        with at_step(f"log.compact.{what if isinstance(what, int) else 2}", nth, trouble):
            self.pair.compact_in_trouble("table")

    # Readers.

    @rule(at=anyone, wheres=st.lists(anyone, min_size=1, max_size=4), share=shares)
    def open_reader(self, at: int, wheres: list[int], share: float) -> None:
        self.pair.open_reader(self._handle(at), {self._target(where) for where in wheres}, share)
        if len(self.pair.readers) > 3:
            self.pair.close_reader(self.pair.readers[0])

    @precondition(lambda self: self.pair.readers)
    @rule(who=anyone)
    def poll(self, who: int) -> None:
        self.pair.poll(self.pair.readers[who % len(self.pair.readers)])

    @rule(where=anyone, at=anyone, share=shares, ago=st.integers(-1, 80_000))
    def ask(self, where: int, at: int, share: float, ago: int) -> None:
        self.pair.ask(self._handle(at), self._target(where), share, self.clock.now() - ago)

    @precondition(lambda self: self.handles > 1)
    @rule(at=anyone)
    def reopen(self, at: int) -> None:
        self.pair.reopen(self._handle(at))

    @invariant()
    def both_agree(self) -> None:
        self._turn += 1
        self.pair.check_contents(self._handle(self._turn))
        self.pair.check_tables()
        if self.pair.readers and self._turn % 2:
            self.pair.poll(self.pair.readers[-1])


class InMemory(LogMachine):
    """One handle, in memory."""


class OnDisk(LogMachine):
    """Two handles of one file."""

    handles = 2


def run(machine: type[LogMachine], *, examples: int, steps: int) -> None:
    chosen = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )
    run_state_machine_as_test(machine, settings=chosen)


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize("machine", [InMemory, OnDisk])
def test_any_history_of_calls_leaves_the_log_as_the_oracle_does(machine: type[LogMachine]) -> None:
    run(machine, examples=repeated(25, soak=100), steps=40)


@pytest.mark.slow
@pytest.mark.soak(only="takes many minutes")
@pytest.mark.parametrize("machine", [InMemory, OnDisk])
def test_more_and_longer_histories_leave_the_log_as_the_oracle_does(machine: type[LogMachine]) -> None:
    run(machine, examples=120, steps=80)
