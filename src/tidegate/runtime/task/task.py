"""A stream task: one partition of a subtopology, from its sources through its steps to its outputs.

    restoring ── start ──> running ── close ──> closed
                              └────── drop ───> closed     after any failure of its slot

The same code runs in a unit test and on an executor. Everything in memory is gone with `drop`; a new task
goes on from the committed position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import pyarrow as pa

from tidegate.errors import LogError, StateError, TidegateError
from tidegate.gate.batches import GateBatches
from tidegate.gate.follow import CommandFollower
from tidegate.gate.task_gates import TaskGates
from tidegate.log.positions import Position, TaskId
from tidegate.log.protocol import Fetched
from tidegate.log.records import RawRecord, raw_records
from tidegate.runtime.batches.whole_batches import WholeBatches
from tidegate.runtime.modes import on_stream_time, skips_failures, takes_records, writes_dead_letters
from tidegate.runtime.on_error import Place, by_the_record, in_user_code, policy_of, translated_errors
from tidegate.runtime.output.origin import origin_of
from tidegate.runtime.output.sender import NOWHERE, Sender
from tidegate.runtime.output.time_only import any_time_only, is_time_only
from tidegate.runtime.run_context import RunContext
from tidegate.runtime.task.batch_chain import batch_chain
from tidegate.runtime.task.chain import TaskChain
from tidegate.runtime.task.gate_host import TaskGateHost
from tidegate.runtime.task.merge import Merge
from tidegate.runtime.task.source import Source
from tidegate.runtime.task.source_positions import SourcePositions
from tidegate.runtime.task.task_timers import TaskTimers
from tidegate.runtime.task.timers import Timer
from tidegate.state.builder import StoreBuilder
from tidegate.state.key_timers import DUE_AT_ONCE
from tidegate.state.manager import StateManager
from tidegate.topology.graph import Subtopology, feeds_gates_only
from tidegate.types import TopicPartition

__all__ = ["RunContext", "StreamTask"]

BATCH_TURNS = 10
T = TypeVar("T")
Ends = Callable[[Iterable[TopicPartition]], Mapping[TopicPartition, int]]


class StreamTask:
    """Committable: what a slot runs and commits."""

    def __init__(
        self,
        setting: RunContext,
        subtopology: Subtopology,
        task: TaskId,
        state: StateManager,
        pinned: Mapping[TopicPartition, int] | None = None,
        ends: Ends = lambda _: {},
    ) -> None:
        """`ends` asks the log how far partitions go, with what is not committed yet."""
        self.id = task
        self.partition = task.partition
        self.state = state
        self.skipped = self.batches_taken_apart = 0
        self.taken = 0
        """Records since the last commit."""
        self.records = 0
        """Records of the app's source topics since the task was opened: none of gates or internal topics."""
        self.refused: Mapping[Place, LogError] = {}
        """Records that the log refused: they fail."""
        self._setting = setting
        self._skips = skips_failures(setting.mode)
        self._subtopology = subtopology
        self._pinned = pinned
        self._sender = sender = Sender(setting, task, state.moment)
        self._gate_host = TaskGateHost(setting, task, sender, state)
        self.gates = TaskGates(setting.topology, setting.manifest.gates, self._gate_host)
        self._follower: CommandFollower | None = None
        self._ends = ends
        self.keep = state.end_record
        self.emit, self.writes_to, self.take_numbers = sender.emit, sender.writes_to, sender.take_numbers
        self.null_values, self.dead_letters = sender.null_values, sender.dead_letters
        self._clockwork = TaskTimers(task)
        self._at: SourcePositions | None = None
        self.next: dict[TopicPartition, int] = {}
        """The offset behind what was taken of each source partition."""
        self._times: dict[TopicPartition, int] = {}
        self._moved = False
        self._chain: TaskChain | None = None
        self._sources: dict[str, Source] = {}
        self._merge: Merge | None = None
        self._whole: WholeBatches | GateBatches | None = None

    # --- life -----------------------------------------------------------------------------------------

    def partitions(self) -> list[TopicPartition]:
        """The source partitions that this task reads."""
        return self._setting.inputs(self._subtopology, self.id.partition)

    def commands(self) -> list[TopicPartition]:
        """Those of them whose records are commands."""
        return self._setting.commands(self._subtopology, self.id.partition)

    def start(self, position: Position) -> None:
        """Begin to run, with everything restored to this position."""
        internal = self._setting.manifest.internal.values()
        at = SourcePositions(self.id, self.partitions(), position, self._pinned)
        self._at, self.next, self._times = at, at.next, at.times
        self.state.moment.stream_time = at.stream_time
        to_sort = at.to_sort(internal, self._setting.topics)
        self._merge = Merge(at.next, self._pinned, to_sort, self.commands())
        self._merge.await_commands(self._ends(self.commands()))
        self._follower = CommandFollower(self.gates, self._gate_host, self, self._merge, self._ends)
        takes = takes_records(self._setting.mode)
        self._sender.checked_at = self._setting.clock.now()
        self._sender.start(position, self._subtopology if takes else None)
        if takes:
            self._build()

    def _build(self) -> None:
        """The steps as functions, and what they begin with."""
        topology, sender = self._setting.topology, self._sender
        chain, nodes = TaskChain(topology, self._subtopology, self, self.gates), topology.nodes
        inner = any(nodes[node].on_error for node in self._subtopology.nodes)
        for node, handler in chain.inputs.items():
            read = nodes[node]
            raw = feeds_gates_only(topology, read)
            source = Source(read, handler, self._setting.on_error, inner_policies=inner, raw=raw)
            self._sources[self._setting.topic_of(read)] = source
        self._chain = chain
        if self._setting.batches and len(self._sources) == 1:
            [source] = self._sources.values()
            whole = batch_chain(topology, self._subtopology)
            if whole is not None:
                self._whole = WholeBatches(source, whole, sender, self.store)
            if source.raw and len(self.gates.all) == 1:
                self._whole = self._gate_host.batches(self.gates.all[0])
        try:
            chain.init()
        except TidegateError:
            raise
        except Exception as error:
            raise in_user_code(error, f"{self.id}, init: ", self.id.generation) from error

    def close(self) -> None:
        """End in order; the caller has committed."""
        if self._chain is not None:
            self._chain.close()
        self.state.close()

    def drop(self) -> None:
        """Let go of everything at once."""
        self._sender.outputs.clear()
        self._chain = None
        self._merge = None
        self.state.drop()

    # --- records --------------------------------------------------------------------------------------

    @property
    def merge(self) -> Merge:
        return self._begun(self._merge)

    @property
    def at(self) -> SourcePositions:
        return self._begun(self._at)

    def _begun(self, part: T | None) -> T:
        if part is None:
            raise StateError("not-open", f"{self.id} does not run", "start it first")
        return part

    def read_from(self) -> dict[TopicPartition, int]:
        """Where a reader for this task begins."""
        return dict(self.at.stepped_over(self.merge))

    def purged(self) -> list[TopicPartition]:
        """What of internal topics nobody else reads, so that it can go behind this task's position."""
        return self.at.purged(self._setting.manifest.purged())

    def feed(self, fetched: Fetched) -> None:
        self.merge.feed(fetched)

    def run(self, limit: int) -> int:
        """Process what can be taken in order, at most `limit` records, or as many more in whole batches as
        take about the same time. How many it was, with the timers of keys that were called.

        A record is taken when all timers of keys that were due before it were called: which comes first never
        depends on limits."""
        merge = self.merge
        if not takes_records(self._setting.mode):
            return 0
        self._sender.checked_at = self._setting.clock.now()
        if self.gates and not self._follow_commands():
            return 0
        if self._whole is not None:
            batch = merge.take_batch(BATCH_TURNS * limit)
            if batch is not None:
                self._process_batch(self._whole, batch)
            return 0 if batch is None else batch.num_rows
        keyed = bool(self._clockwork.keyed)
        fired = self.fire(DUE_AT_ONCE) if keyed else 0
        for done in range(limit):
            raw = None if fired >= DUE_AT_ONCE else merge.take()
            if raw is None:
                return done + fired
            self._process(raw)
            if keyed or self._clockwork.timers:
                fired += self.fire(DUE_AT_ONCE - fired)
        return limit + fired

    def run_with_care(self, limit: int) -> int:
        """As `run`, but record by record, and with no timers: what they send is no record's fault. The caller
        fires them before it takes more."""
        self._sender.checked_at = self._setting.clock.now()
        if self._clockwork.left or (self.gates and not self._follow_commands()):
            return 0
        if self.taken:  # commands, whose effects are no record's fault either
            return self.taken
        if self._whole is not None:
            batch = self.merge.take_batch(limit)
            if batch is not None:
                self._one_by_one(self.merge.only, batch)
            return 0 if batch is None else batch.num_rows
        for done in range(limit):
            raw = self.merge.take()
            if raw is None:
                return done
            self._process(raw)
        return limit

    @property
    def last(self) -> Place | None:
        """The record that was taken last."""
        record = self._sender.record
        return None if record is None else (record.partition, record.offset)

    def fire(self, limit: int = DUE_AT_ONCE) -> int:
        """Call the timers that are due; of those of keys some, if there are many: `run` goes on with them."""
        wall = self.stream_time if self.replaying else self._setting.clock.now()
        self._sender.place = NOWHERE
        fired, called = self._clockwork.fire(self.stream_time, wall, limit)
        self._moved |= called
        if self.gates and self._follow_commands():
            self._moved |= self.gates.work()
        return fired

    def _follow_commands(self) -> bool:
        """Take the commands that are there. Whether records may be taken now."""
        self._begun(self._follower).follow()
        return not self.merge.behind()

    def _process(self, raw: RawRecord) -> None:
        source = self._sources[raw.partition.topic]
        sender = self._sender
        sender.record, sender.place = raw, ""
        if source.internal and is_time_only(raw.headers):
            self._pass_time(raw, raw.timestamp, internal=True)
            self.passed(raw)
            return
        apart = self._skips or source.policy != "stop" or source.inner_policies
        if apart:
            self.begin()
        sender.refusal = self.refused.get((raw.partition, raw.offset)) if self.refused else None
        try:
            record = source.decode(raw)
            self._pass_time(raw, record.timestamp, internal=source.internal)
            source.handler(record)
            sender.fail_if_refused()
        except Exception as error:
            if not by_the_record(error):
                raise
            told = translated_errors(error, raw, self.id.generation, internal=source.internal)
            policy = "skip" if self._skips else policy_of(error, source.policy)
            if policy == "stop" or not apart:
                raise told from error
            self.take_back()
            self.skipped += 1
            if policy == "dead-letter" and writes_dead_letters(self._setting.mode):
                sender.dead_letter(raw, told, self.now())
        else:
            if apart:
                self.state.end_record()
        self.records += not source.internal
        self.passed(raw)

    def passed(self, raw: RawRecord) -> None:
        self._sender.refusal = None
        self.next[raw.partition] = raw.offset + 1
        self.taken += 1
        self._moved = True

    def _process_batch(self, whole: WholeBatches | GateBatches, batch: pa.RecordBatch) -> None:
        """All at once; one by one if they are few, one fails, or one only tells the time."""
        partition = self.merge.only
        small = batch.num_rows < self._setting.small_batch
        if small or (self._sources[partition.topic].internal and any_time_only(batch.column(4))):
            self._one_by_one(partition, batch)
            return
        self.begin()
        try:
            time, timestamp = whole.run(partition, batch, self._times[partition], self._sender.checked_at)
        except Exception:  # noqa: BLE001 - the record that failed shows, and meets its policy, one by one
            self.take_back()
            self.batches_taken_apart += 1
            self._one_by_one(partition, batch)
            return
        self.state.end_record()
        self._times[partition] = self.state.moment.stream_time = time
        self.state.moment.timestamp = timestamp
        self.next[partition] = batch.column(0)[-1].as_py() + 1
        self.taken += batch.num_rows
        self.records += 0 if self._sources[partition.topic].internal else batch.num_rows
        self._moved = True

    def _one_by_one(self, partition: TopicPartition, batch: pa.RecordBatch) -> None:
        for raw in raw_records(partition, batch):
            self._process(raw)

    def _pass_time(self, raw: RawRecord, timestamp: int, *, internal: bool) -> None:
        """Event time moves stream time; behind an internal topic the stream time of the origin does."""
        at = timestamp
        if internal:
            origin = origin_of(raw.headers)
            if origin is not None:
                self._sender.place, at = origin.position, origin.time
        self.state.moment.timestamp = timestamp
        if at > self._times[raw.partition]:
            self._times[raw.partition] = at
            self.state.moment.stream_time = max(self.stream_time, at)

    def begin(self) -> None:
        self.state.begin_record()
        self._sender.begin_record()
        self.gates.begin_record()
        self._clockwork.timers.begin_record()

    def take_back(self) -> None:
        self.state.take_back()
        self._sender.take_back()
        self.gates.take_back()
        self._clockwork.timers.take_back()

    # --- what its nodes see (Host) --------------------------------------------------------------------

    @property
    def stream_time(self) -> int:
        return self.state.moment.stream_time

    @property
    def replaying(self) -> bool:
        return on_stream_time(self._setting.mode)

    def now(self) -> int:
        return self._setting.now(self.stream_time)

    def store(self, builder: StoreBuilder[Any]) -> Any:
        return self.state.store(builder)

    def schedule(self, every: int, call: Callable[[int], None], by: str) -> Timer:
        return self._clockwork.timers.schedule(every, call, by)

    def call_timers(self, timers: StoreBuilder[Any], call: Callable[[Any, int], None]) -> None:
        assert timers.clock is not None  # noqa: S101 - that makes it a store of timers
        self._clockwork.keyed.add(self.state.store(timers), timers.clock, call)

    # --- what a commit asks (Committable) -------------------------------------------------------------

    def tell_time(self) -> None:
        """Time-only records to the partitions behind that were not told the stream time. A strict task tells
        it once, at its end: nothing that it writes depends on when it commits."""
        self.gates.before_commit()
        strict = self._pinned is not None
        if strict and (self._clockwork.left or not self.merge.done()):
            return
        self._moved |= self._sender.tell_time(self._setting.clock.now(), at_once=strict)

    def moved(self) -> bool:
        return self._moved or (self.at.short_of_pins() and self.merge.done())

    def outputs(self) -> Iterable[tuple[TopicPartition, pa.RecordBatch]]:
        return self._sender.outputs.batches()

    def pending_bytes(self) -> int:
        """What a commit would write: past a limit the slot does not wait for its time."""
        return self._sender.outputs.bytes + self.state.pending_bytes()

    def position(self, changelogs: dict[str, int]) -> Position:
        return self.at.position(changelogs, self._sender.progress(), self.merge)

    def committed(self, position: Position) -> None:
        self.at.committed(position)
        self._sender.outputs.clear()
        self.gates.committed()
        self.taken = 0
        self._moved = False
