"""A stream task: one partition of a subtopology, from its sources through its steps to its outputs.

    restoring ── start ──> running ── close ──> closed
                              └────── drop ───> closed     after any failure of its slot

The same code runs in a unit test and on an executor. `drop` discards everything in memory; a new task
continues from the committed position.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

import pyarrow as pa

from tidegate.errors import LogError, StateError, TidegateError
from tidegate.gate.batches import GateBatches
from tidegate.gate.follow import CommandFollower
from tidegate.gate.task_gates import TaskGates
from tidegate.log.positions import Position, TaskId
from tidegate.log.protocol import Fetched
from tidegate.runtime.batches.whole_batches import WholeBatches
from tidegate.runtime.modes import takes_records
from tidegate.runtime.null_values import NullValues
from tidegate.runtime.output.numbered_origins import one_by_one
from tidegate.runtime.output.on_error import (
    RecordPosition,
    in_user_code,
)
from tidegate.runtime.output.sender import Sender
from tidegate.runtime.output.time_only import apart
from tidegate.runtime.run_context import RunContext
from tidegate.runtime.tally import Tally
from tidegate.runtime.task.batch_chain import batch_chain
from tidegate.runtime.task.chain import TaskChain
from tidegate.runtime.task.gate_host import TaskGateHost
from tidegate.runtime.task.merge import Merge
from tidegate.runtime.task.operator_host import TaskOperatorHost
from tidegate.runtime.task.progress import TaskProgress
from tidegate.runtime.task.record_loop import RecordLoop
from tidegate.runtime.task.record_scope import TaskRecordScope
from tidegate.runtime.task.source import TaskSource
from tidegate.runtime.task.source_positions import SourcePositions
from tidegate.runtime.task.task_clock import TaskClock
from tidegate.runtime.task.task_timers import TaskTimers
from tidegate.state.key_timers import DUE_AT_ONCE
from tidegate.state.manager import StateManager
from tidegate.topology.graph import Subtopology, feeds_gates_only
from tidegate.topology.node import COMMANDS, NodeKind
from tidegate.types import TopicPartition

__all__ = ["RunContext", "StreamTask"]

BATCH_FACTOR = 10
DECODED_AT_ONCE = 1000
"""Records, which are in memory as bytes and as values then."""
T = TypeVar("T")
Ends = Callable[[Iterable[TopicPartition]], Mapping[TopicPartition, int]]


class StreamTask:
    """Runs a subtopology on one partition. Implements `Committable`."""

    def __init__(
        self,
        context: RunContext,
        subtopology: Subtopology,
        task: TaskId,
        state: StateManager,
        pinned: Mapping[TopicPartition, int] | None = None,
        ends: Ends = lambda _: {},
        refused: Mapping[RecordPosition, LogError] | None = None,
    ) -> None:
        """`ends` returns the ends of partitions, uncommitted records included. `refused` are the records that
        the log refused; they fail when they are processed."""
        self.id = task
        self.partition = task.partition
        self.state = state
        self.batches_taken_apart = 0
        self._whole_records = 0
        self._context = context
        self._subtopology = subtopology
        self._pinned, self.strict = pinned, pinned is not None
        self._ends = ends
        self._store_time = state.store_time
        self._sender = sender = Sender(context, task, state.store_time)
        self._timers = TaskTimers(task)
        self.clock = TaskClock(context, state.store_time)
        self._host = TaskOperatorHost(context, task, sender, state, self._timers, self.clock)
        self._gate_host = TaskGateHost(context, task, sender, state)
        self.gates = TaskGates(context.topology, context.manifest.gates, self._gate_host)
        self._progress = TaskProgress()
        self._scope = TaskRecordScope(state, sender, self.gates, self._timers.timers, self._progress)
        self._loop = RecordLoop(
            context,
            task,
            sender,
            self._scope,
            self._progress,
            state.store_time,
            self._timers.timers,
            self._host.now,
            {} if refused is None else refused,
        )
        self._together = False
        """Whether the records of its only source can be decoded many at a time."""
        self._source_positions: SourcePositions | None = None
        self._merge: Merge | None = None
        self._follower: CommandFollower | None = None
        self._chain: TaskChain | None = None
        self._whole: WholeBatches | GateBatches | None = None

    # --- lifecycle ------------------------------------------------------------------------------------

    def partitions(self, kinds: Collection[NodeKind] | None = None) -> list[TopicPartition]:
        """Return the source partitions that this task reads, by default through nodes of all kinds."""
        return self._context.inputs(self._subtopology, self.id.partition, kinds)

    def start(self, position: Position) -> None:
        """Start running; everything has been restored to this position."""
        context = self._context
        self.clock.start(position)
        at = self._source_positions = SourcePositions(self.id, self.partitions(), position, self._pinned)
        self._progress.start(at)
        self._store_time.stream_time = at.stream_time
        to_sort = at.to_sort(context.manifest.purged(), context.topics, context.replay)
        commands = self.partitions(COMMANDS)
        self._merge = Merge(at.next, self._pinned, to_sort, commands)
        self._merge.await_commands(self._ends(commands))
        self._follower = CommandFollower(self.gates, self._gate_host, self._scope, self._merge, self._ends)
        takes = takes_records(context.mode)
        self._sender.set_now(context.clock.now())
        self._sender.start(position, self._subtopology if takes else None)
        if takes:
            self._build()

    def _build(self) -> None:
        """Compile the steps and call their `init`."""
        context, topology, subtopology = self._context, self._context.topology, self._subtopology
        chain = TaskChain(topology, subtopology, self._host, self.gates)
        inner = any(topology.nodes[node].on_error for node in subtopology.nodes)
        for node, handler in chain.inputs.items():
            read = topology.nodes[node]
            raw = feeds_gates_only(topology, read)
            source = TaskSource(read, handler, context.on_error, inner_policies=inner, raw=raw)
            self._loop.sources[context.topic_of(read)] = source
        self._chain = chain
        if context.batches and len(self._loop.sources) == 1:
            [source] = self._loop.sources.values()
            whole = batch_chain(topology, subtopology)
            if whole is not None:
                self._whole = WholeBatches(source, whole, self._sender, self.state.store)
            elif not self.gates:
                self._together = not source.internal
            elif source.raw and len(self.gates.all) == 1:
                self._whole = self._gate_host.batches(self.gates.all[0])
        try:
            chain.init()
        except TidegateError:
            raise
        except Exception as error:
            raise in_user_code(error, f"{self.id}, init: ", self.id.generation) from error

    def close(self) -> None:
        """Close the steps and the stores. The caller has committed. Of a replay only changelogs are read."""
        if self._chain is not None:
            self._chain.close()
        self.state.close(used_again=not (self._context.mode == "replay" and self.finished()))

    def drop(self) -> None:
        """Discard everything that is not committed."""
        self._sender.outputs.clear()
        self._chain = None
        self._merge = None
        self.state.drop()

    # --- records --------------------------------------------------------------------------------------

    @property
    def merge(self) -> Merge:
        return self._started(self._merge)

    @property
    def source_positions(self) -> SourcePositions:
        return self._started(self._source_positions)

    def _started(self, part: T | None) -> T:
        if part is None:
            raise StateError("not-open", f"{self.id} is not running", "start it first")
        return part

    def read_from(self) -> dict[TopicPartition, int]:
        """Return the offsets where a reader for this task starts."""
        return dict(self.source_positions.next_offsets(self.merge))

    def purged(self) -> list[TopicPartition]:
        """Return the internal partitions that only this task reads, which are purged up to its position."""
        return self.source_positions.purged(self._context.manifest.purged())

    def feed(self, fetched: Fetched) -> None:
        self.merge.feed(fetched)

    def run(self, limit: int) -> int:
        """Process the records that can be taken in order, at most `limit`, or in whole batches as many as
        take about the same time. Returns how many, including the timers of keys that were called.

        A record is taken only after all timers of keys that were due before it: their order never depends on
        limits.
        """
        merge = self.merge
        if not takes_records(self._context.mode):
            return 0
        self._sender.set_now(self._context.clock.now())
        if self.gates and not self._follow_commands():
            return 0
        if self._whole is not None:
            done, most = 0, BATCH_FACTOR * limit
            while (batch := merge.take_batch(most - done)) is not None:
                self._process_batch(self._whole, batch)
                done += batch.num_rows
            return done
        if self._together and not (self._timers.keyed or self._timers.timers):
            return self._run_together(limit)
        return self._run_singly(limit)

    def _run_together(self, limit: int) -> int:
        """Process records that are decoded together, and one by one after one that schedules a timer."""
        merge, partition, done = self.merge, self.merge.only, 0
        while done < limit:
            batch = merge.take_batch(min(limit - done, DECODED_AT_ONCE)) if merge.in_batches else None
            small = batch is None or batch.num_rows < self._context.small_batch
            records = None if batch is None or small else self._loop.decoded(partition, batch)
            if batch is None or records is None:
                if batch is not None:
                    merge.put_back(batch)
                return done + self._run_singly(limit - done)
            taken = self._loop.process_together(partition, batch, records)
            done += taken
            if taken < len(records):
                merge.put_back(batch.slice(taken))
            if self._timers.timers:  # the last record that was taken scheduled one
                done += self.fire(DUE_AT_ONCE)
                return done + self._run_singly(max(0, limit - done))
        return done

    def _run_singly(self, limit: int) -> int:
        keyed = bool(self._timers.keyed)
        fired = self.fire(DUE_AT_ONCE) if keyed else 0
        take = self.merge.take
        for done in range(limit):
            raw = None if fired >= DUE_AT_ONCE else take()
            if raw is None:
                return done + fired
            self._loop.process(raw)
            if keyed or self._timers.timers:
                fired += self.fire(DUE_AT_ONCE - fired)
        return limit + fired

    def run_limited(self, limit: int) -> int:
        """Process at most `limit` records one by one and without timers, so that a refused transaction was
        caused by a record. The caller fires timers before it takes more."""
        self._sender.set_now(self._context.clock.now())
        if self._timers.more_due or (self.gates and not self._follow_commands()):
            return 0
        if self.taken:  # only commands: their effects are not caused by a record either
            return self.taken
        if self._whole is not None:
            if (batch := self.merge.take_batch(limit)) is not None:
                self._one_by_one(self.merge.only, batch)
            return 0 if batch is None else batch.num_rows
        for done in range(limit):
            raw = self.merge.take()
            if raw is None:
                return done
            self._loop.process(raw)
        return limit

    @property
    def last(self) -> RecordPosition | None:
        """The position of the record that was taken last."""
        return self._sender.last

    def fire(self, limit: int = DUE_AT_ONCE) -> int:
        """Call the timers that are due, of those of keys at most `limit`; `run` calls the rest."""
        self._sender.between_records()
        fired, called = self.clock.fire(self._timers, limit, self._at_pins)
        self._progress.moved |= called
        if self.gates and self._follow_commands() and not self.clock.draining:
            self._progress.moved |= self.gates.work()
        return fired

    def _at_pins(self) -> bool:
        return self.strict and self.merge.done()

    def _follow_commands(self) -> bool:
        """Apply pending commands. Returns whether records may be taken now."""
        self._started(self._follower).follow()
        return not self.merge.commands_behind()

    def _process_batch(self, whole: WholeBatches | GateBatches, batch: pa.RecordBatch) -> None:
        """Process a batch as a whole; record by record if it is small or a record fails."""
        internal = self._loop.sources[self.merge.only.topic].internal
        for part, time_only in apart(batch, is_sorted=self.strict) if internal else [(batch, False)]:
            if time_only or part.num_rows < self._context.small_batch:
                self._one_by_one(self.merge.only, part)
            else:
                self._process_part(whole, part)

    def _process_part(self, whole: WholeBatches | GateBatches, batch: pa.RecordBatch) -> None:
        partition = self.merge.only
        self._sender.outputs.settle()
        self._scope.begin()
        try:
            at = self._progress.times[partition]
            stream_time, timestamp = whole.run(partition, batch, at, self._sender.now)
        except Exception:  # noqa: BLE001 - record by record, the one that fails meets its policy
            self._scope.roll_back()
            self.batches_taken_apart += 1
            self._one_by_one(partition, batch)
            return
        self._scope.keep()
        self._store_time.timestamp, self._store_time.stream_time = timestamp, stream_time
        self._progress.passed_batch(partition, batch.column(0)[-1].as_py(), batch.num_rows, stream_time)
        self._whole_records += 0 if self._loop.sources[partition.topic].internal else batch.num_rows

    def _one_by_one(self, partition: TopicPartition, batch: pa.RecordBatch) -> None:
        for raw in one_by_one(partition, batch):
            self._loop.process(raw)

    # --- what it reports ------------------------------------------------------------------------------

    @property
    def records(self) -> int:
        """Records of the app's source topics since the task was opened; none of gates or internal topics."""
        return self._loop.records + self._whole_records

    @property
    def skipped(self) -> int:
        """Records that failed and were skipped, or became dead letters, since the task was opened."""
        return self._loop.skipped

    @property
    def stream_time(self) -> int:
        return self._store_time.stream_time

    @property
    def next(self) -> Mapping[TopicPartition, int]:
        """The next offset to process of each source partition."""
        return self._progress.next

    @property
    def taken(self) -> int:
        """Records since the last commit."""
        return self._progress.taken

    @property
    def null_values(self) -> NullValues:
        return self._sender.null_values

    @property
    def dead_letters(self) -> Tally:
        return self._sender.dead_letters

    # --- what a commit needs (Committable) ------------------------------------------------------------

    def send_time(self) -> None:
        """Add time-only records for partitions behind that have not received the stream time; while the app
        drains, without delay. A strict task adds them once, at its end: its output must not depend on when it
        commits."""
        self.gates.before_commit()
        if not self.strict or self.finished():
            at_once = self.strict or self.clock.draining
            self._progress.moved |= self._sender.send_time(self._context.clock.now(), at_once=at_once)

    def moved(self) -> bool:
        behind = self.source_positions.short_of_pins() or self.clock.unrecorded()
        return self._progress.moved or (behind and self.finished())

    def finished(self) -> bool:
        """Return whether a strict task has taken all its records, and called all timers that were due."""
        return self.clock.ended and not self._timers.more_due and self._at_pins()

    def outputs(self) -> Iterable[tuple[TopicPartition, pa.RecordBatch]]:
        return self._sender.outputs.batches()

    def pending_bytes(self) -> int:
        """Return the size of what a commit would write: above a limit the slot commits early."""
        return self._sender.outputs.bytes + self.state.pending_bytes()

    def position(self, changelogs: dict[str, int]) -> Position:
        recorded = self.clock.progress(self._loop.skipped, finished=self.finished())
        return self.source_positions.position(changelogs, self._sender.progress() | recorded, self.merge)

    def committed(self, position: Position) -> None:
        self.source_positions.committed(position)
        self.clock.committed(position)
        self._sender.outputs.clear()
        self.gates.committed()
        self._progress.committed()
