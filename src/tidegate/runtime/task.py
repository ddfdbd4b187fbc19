"""A stream task: one partition of a subtopology, from its sources through its steps to its outputs.

    restoring ── start ──> running ── close ──> closed
                              └────── drop ───> closed     after any failure of its slot

The same code runs in a unit test and on an executor. Everything in memory is gone with `drop`; a new task
goes on from the committed position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa

from tidegate.errors import StateError, TidegateError
from tidegate.log.positions import Position, TaskId
from tidegate.log.protocol import Fetched
from tidegate.record import Record
from tidegate.runtime.chain import TaskChain
from tidegate.runtime.key_timers import KeyCalls
from tidegate.runtime.merge import Merge, RawRecord, raw_records
from tidegate.runtime.modes import on_stream_time, skips_failures, takes_records, writes_dead_letters
from tidegate.runtime.on_error import (
    by_the_record,
    dead_letter_headers,
    in_our_words,
    in_user_code,
    policy_of,
)
from tidegate.runtime.origin import origin_header, origin_of
from tidegate.runtime.outputs import Outputs
from tidegate.runtime.routes import Route, Routes
from tidegate.runtime.setting import Setting
from tidegate.runtime.source import Source
from tidegate.runtime.standing import Standing
from tidegate.runtime.time_only import MARK, TimeTeller, any_time_only, is_time_only
from tidegate.runtime.timers import Timer, Timers
from tidegate.runtime.whole_batches import WholeBatches
from tidegate.state.builder import StoreBuilder
from tidegate.state.key_timers import DUE_AT_ONCE
from tidegate.state.manager import StateManager
from tidegate.topology.graph import Subtopology
from tidegate.topology.node import Node
from tidegate.types import TopicPartition

__all__ = ["Setting", "StreamTask"]

BATCH_TURNS = 10
NOWHERE = "-"  # where outputs of timers come from


class StreamTask:
    """Committable: what a slot runs and commits."""

    def __init__(
        self,
        setting: Setting,
        subtopology: Subtopology,
        task: TaskId,
        state: StateManager,
        pinned: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        self.id = task
        self.state = state
        self.skipped = 0
        self.batches_taken_apart = 0
        self._setting = setting
        self._skips = skips_failures(setting.mode)
        self._subtopology = subtopology
        self._pinned = pinned
        self._outputs = Outputs(task.partition)
        self._routes = Routes(setting, self._outputs)
        self._teller = TimeTeller([], -1, 0)
        self._name = str(task)
        self._checked_at = 0
        self._timers = Timers()
        self._key_calls = KeyCalls()
        self._at: Standing | None = None
        self._next: dict[TopicPartition, int] = {}
        self._times: dict[TopicPartition, int] = {}
        self._sequence = 0
        self._sequence_before = 0
        self._moved = False
        self._timers_left = False
        self._record: RawRecord | None = None
        self._place = NOWHERE
        self._chain: TaskChain | None = None
        self._sources: dict[str, Source] = {}
        self._merge: Merge | None = None
        self._whole: WholeBatches | None = None

    # --- life -----------------------------------------------------------------------------------------

    def partitions(self) -> list[TopicPartition]:
        """The source partitions that this task reads."""
        nodes = self._setting.topology.nodes
        return [
            TopicPartition(self._setting.topic_of(nodes[node]), self.id.partition)
            for node in self._subtopology.inputs
        ]

    def start(self, position: Position) -> None:
        """Begin to run, with everything restored to this position."""
        internal = self._setting.manifest.internal.values()
        at = Standing(self.id, self.partitions(), position, self._pinned)
        self._at, self._next, self._times = at, at.next, at.times
        self._sequence = int(position.progress.get("sequence", "0"))
        self.state.moment.stream_time = at.stream_time
        self._merge = Merge(at.next, self._pinned, at.to_sort(internal, self._setting.topics))
        if not takes_records(self._setting.mode):
            return
        self._checked_at = self._setting.clock.now()
        told = int(position.progress.get("told", "-1"))
        self._teller = TimeTeller(self._routes.open(self._subtopology), told, self._checked_at)
        self._build()

    def _build(self) -> None:
        """The steps as functions, and what they begin with."""
        chain = TaskChain(self._setting.topology, self._subtopology, self)
        nodes = self._setting.topology.nodes
        inner = any(nodes[node].on_error for node in self._subtopology.nodes)
        for node, handler in chain.inputs.items():
            self._sources[self._setting.topic_of(nodes[node])] = Source(
                nodes[node], handler, self._setting.on_error, inner_policies=inner
            )
        self._chain = chain
        if self._setting.batches and len(self._sources) == 1:
            [source] = self._sources.values()
            self._whole = WholeBatches.of(
                self._setting.topology, self._subtopology, source, self, self._outputs, self._name
            )
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
        self._outputs.clear()
        self._chain = None
        self._merge = None
        self.state.drop()

    # --- records --------------------------------------------------------------------------------------

    @property
    def merge(self) -> Merge:
        if self._merge is None:
            raise StateError("not-open", f"{self.id} does not run", "start it first")
        return self._merge

    @property
    def at(self) -> Standing:
        if self._at is None:
            raise StateError("not-open", f"{self.id} does not run", "start it first")
        return self._at

    def read_from(self) -> dict[TopicPartition, int]:
        """Where a reader for this task begins."""
        return dict(self.at.stepped_over(self.merge))

    def behind(self) -> dict[TopicPartition, int]:
        """What of internal topics nobody needs any more, now that this task is committed."""
        return self.at.behind(self._setting.manifest.internal.values(), self.merge)

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
        self._checked_at = self._setting.clock.now()
        if self._whole is not None:
            batch = merge.take_batch(BATCH_TURNS * limit)
            if batch is not None:
                self._process_batch(self._whole, batch)
            return 0 if batch is None else batch.num_rows
        keyed = bool(self._key_calls)
        fired = self._fire(DUE_AT_ONCE) if keyed else 0
        for done in range(limit):
            raw = None if fired >= DUE_AT_ONCE else merge.take()
            if raw is None:
                return done + fired
            self._process(raw)
            if keyed or self._timers:
                fired += self._fire(DUE_AT_ONCE - fired)
        return limit + fired

    def fire(self) -> None:
        """Call the timers that are due; of those of keys some, if there are many: `run` goes on with them."""
        self._fire(DUE_AT_ONCE)

    def _fire(self, limit: int) -> int:
        wall = self.stream_time if self.replaying else self._setting.clock.now()
        self._place = NOWHERE
        try:
            for timer, now in self._timers.due(self.stream_time, wall):
                if not timer.cancelled:
                    self._moved = True
                    timer.fire(now)
            fired = self._key_calls.fire(self.stream_time, wall, limit) if self._key_calls else 0
        except TidegateError:
            raise
        except Exception as error:
            raise in_user_code(error, f"{self.id}, a timer: ", self.id.generation) from error
        self._moved |= fired > 0
        self._timers_left = fired >= limit
        return fired

    def _process(self, raw: RawRecord) -> None:
        source = self._sources[raw.partition.topic]
        self._record, self._place = raw, ""
        if source.internal and is_time_only(raw.headers):
            self._pass_time(raw, raw.timestamp, internal=True)
            self._passed(raw)
            return
        apart = self._skips or source.policy != "stop" or source.inner_policies
        if apart:
            self._begin()
        try:
            record = source.decode(raw)
            self._pass_time(raw, record.timestamp, internal=source.internal)
            source.handler(record)
        except Exception as error:
            if not by_the_record(error):
                raise
            told = in_our_words(error, raw, self.id.generation)
            policy = "skip" if self._skips else policy_of(error, source.policy)
            if policy == "stop" or not apart:
                raise told from error
            self._take_back()
            self.skipped += 1
            if policy == "dead-letter" and writes_dead_letters(self._setting.mode):
                self._dead_letter(raw, told)
        else:
            if apart:
                self.state.end_record()
        self._passed(raw)

    def _passed(self, raw: RawRecord) -> None:
        self._next[raw.partition] = raw.offset + 1
        self._moved = True

    def _process_batch(self, whole: WholeBatches, batch: pa.RecordBatch) -> None:
        """All at once; one by one if they are few, one fails, or one only tells the time."""
        [partition] = self._next
        small = batch.num_rows < self._setting.small_batch
        if small or (self._sources[partition.topic].internal and any_time_only(batch.column(4))):
            self._one_by_one(partition, batch)
            return
        self._begin()
        try:
            time, timestamp = whole.run(partition, batch, self._times[partition], self._checked_at)
        except Exception:  # noqa: BLE001 - the record that failed shows, and meets its policy, one by one
            self._take_back()
            self.batches_taken_apart += 1
            self._one_by_one(partition, batch)
            return
        self.state.end_record()
        self._times[partition] = self.state.moment.stream_time = time
        self.state.moment.timestamp = timestamp
        self._next[partition] = batch.column(0)[-1].as_py() + 1
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
                self._place, at = origin.position, origin.time
        moment = self.state.moment
        moment.timestamp = timestamp
        if at > self._times[raw.partition]:
            self._times[raw.partition] = at
            moment.stream_time = max(moment.stream_time, at)

    def _begin(self) -> None:
        self._sequence_before = self._sequence
        self.state.begin_record()
        self._outputs.begin_record()
        self._timers.begin_record()

    def _take_back(self) -> None:
        self._sequence = self._sequence_before
        self.state.take_back()
        self._outputs.take_back()
        self._timers.take_back()

    def _dead_letter(self, raw: RawRecord, error: Any) -> None:
        target = self._outputs.target(self._setting.topics[self._setting.dead_letters])
        now = self.now()
        at = min(max(raw.timestamp, 0), now)
        self._outputs.add(target, raw.key, raw.value, at, dead_letter_headers(raw, error), now)

    # --- what its nodes see (Host) --------------------------------------------------------------------

    @property
    def partition(self) -> int:
        return self.id.partition

    @property
    def stream_time(self) -> int:
        return self.state.moment.stream_time

    @property
    def replaying(self) -> bool:
        return on_stream_time(self._setting.mode)

    def now(self) -> int:
        return max(self.stream_time, 0) if self.replaying else self._setting.clock.now()

    def store(self, builder: StoreBuilder[Any]) -> Any:
        return self.state.store(builder)

    def schedule(self, every: int, call: Callable[[int], None], by: str) -> Timer:
        return self._timers.schedule(every, call, by)

    def call_timers(self, timers: StoreBuilder[Any], call: Callable[[Any, int], None]) -> None:
        assert timers.clock is not None  # noqa: S101 - that makes it a store of timers
        self._key_calls.add(self.state.store(timers), timers.clock, call)

    def emit(self, node: Node, key: bytes | None, value: bytes | None, record: Record[Any, Any]) -> None:
        """One record to a sink or an internal topic."""
        found = self._routes.of(node)
        if found is None:
            return
        target, owner = found
        origin = self._origin()
        headers = (*record.headers, owner, origin) if record.headers else (owner, origin)
        self._outputs.add(target, key, value, record.timestamp, headers, self._checked_at)

    def _origin(self) -> tuple[str, bytes]:
        self._sequence += 1
        if not self._place and self._record is not None:
            self._place = f"{self._record.partition}/{self._record.offset}"
        return origin_header(self._place, self._name, self._sequence, max(self.stream_time, 0))

    def writes_to(self, node: Node) -> Route | None:
        return self._routes.of(node)

    def take_numbers(self, count: int) -> int:
        self._sequence += count
        return self._sequence - count + 1

    # --- what a commit asks (Committable) -------------------------------------------------------------

    def tell_time(self) -> None:
        """Time-only records to the partitions behind that were not told the stream time. A strict task tells
        it once, at its end: nothing that it writes depends on when it commits."""
        now = self._setting.clock.now()
        strict = self._pinned is not None
        if strict and (self._timers_left or not self.merge.done()):
            return
        for target, owner, partition in self._teller.due(self.stream_time, now, at_once=strict):
            self._place = NOWHERE
            headers = (owner, self._origin(), MARK)
            self._outputs.add_to(target, partition, self.stream_time, headers, now)
            self._moved = True

    def moved(self) -> bool:
        return self._moved or (self.at.short_of_pins() and self.merge.done())

    def outputs(self) -> Iterable[tuple[TopicPartition, pa.RecordBatch]]:
        return self._outputs.batches()

    def pending_bytes(self) -> int:
        """What a commit would write: past a limit the slot does not wait for its time."""
        return self._outputs.bytes + self.state.pending_bytes()

    def position(self, changelogs: dict[str, int]) -> Position:
        progress = {"sequence": str(self._sequence)}
        if self._teller:
            progress["told"] = str(self._teller.told())
        return self.at.position(changelogs, progress, self.merge)

    def committed(self, position: Position) -> None:
        self.at.committed(position)
        self._outputs.clear()
        self._moved = False
