"""Sends the outputs of a task: chooses the topic, adds headers, and buffers until the commit."""

from __future__ import annotations

from typing import Any

from tidegate.errors import LogError, TidegateError
from tidegate.gate.formats import Held
from tidegate.log.positions import Position, TaskId
from tidegate.log.records import Headers, RawRecord
from tidegate.record import Record
from tidegate.runtime.null_values import NullValues
from tidegate.runtime.output.on_error import RecordPosition, caused_by_record, dead_letter_headers
from tidegate.runtime.output.origin import origin_header
from tidegate.runtime.output.outputs import TaskOutputs
from tidegate.runtime.output.routes import Route, Routes
from tidegate.runtime.output.time_only import MARK, TimeOnlySender
from tidegate.runtime.replay import sent_of, sent_progress
from tidegate.runtime.run_context import RunContext
from tidegate.runtime.tally import Tally
from tidegate.state.store_time import StoreTime
from tidegate.topology.graph import Subtopology
from tidegate.topology.node import Node
from tidegate.types import TopicPartition

NO_RECORD = "-"  # the origin of outputs of timers


class Sender:
    """The sender of one task. It knows the current record: outputs name the position that they come from."""

    def __init__(self, context: RunContext, task: TaskId, store_time: StoreTime) -> None:
        self.outputs = TaskOutputs(task.partition)
        self.null_values, self.dead_letters = NullValues(), Tally()
        self.name = str(task)
        self._record: RawRecord | Record[Any, Any] | None = None
        self._origin_position = NO_RECORD
        """The position of the current record as in headers; empty until an output needs it."""
        self._refusal: LogError | None = None
        """Why the log refused the current record."""
        self._now = 0
        self._context = context
        self._store_time = store_time
        self._routes = Routes(context, self.outputs, self.name)
        self._known_routes = self._routes.known
        self._time_only = TimeOnlySender([], -1, 0)
        self._sequence = 0
        self._sequence_before = 0

    # --- the current record ---------------------------------------------------------------------------

    def begin(self, record: RawRecord | Record[Any, Any], refusal: LogError | None = None) -> None:
        """Make this the current record, as it was read or decoded. `refusal` is why the log refused its
        outputs."""
        self._record, self._origin_position, self._refusal = record, "", refusal

    def set_origin(self, position: str) -> None:
        """Set the origin of the current record, as read from an internal topic."""
        self._origin_position = position

    def between_records(self) -> None:
        """Leave the current record: outputs of timers and gates come from no record."""
        self._origin_position, self._refusal = NO_RECORD, None

    @property
    def last(self) -> RecordPosition | None:
        """The position of the current record, or of the last one."""
        record = self._record
        if record is None:
            return None
        if isinstance(record, Record):
            return TopicPartition(record.topic, record.partition), record.offset
        return record.partition, record.offset

    def current(self) -> RawRecord:
        """Return the current record, as it was read."""
        assert isinstance(self._record, RawRecord)  # noqa: S101 - only tasks without gates decode many
        return self._record

    def origin_position(self) -> str:
        """Return the position that outputs come from."""
        if not self._origin_position and (at := self.last) is not None:
            self._origin_position = f"{at[0]}/{at[1]}"
        return self._origin_position

    def fail_if_refused(self, topic: str = "") -> None:
        """Raise if the log refused the current record for this topic, or at the end of the record for any."""
        if self._refusal is not None and topic in {"", self._refusal.topic}:
            raise self._refusal

    # --- outputs --------------------------------------------------------------------------------------

    @property
    def now(self) -> int:
        """The clock's time as of `set_now`."""
        return self._now

    def set_now(self, now: int) -> None:
        """Set the time against which topics check the timestamps of outputs."""
        self._now = now

    def start(self, position: Position, subtopology: Subtopology | None) -> None:
        """Start from a position. Without a subtopology nothing is sent."""
        self._sequence = int(position.progress.get("sequence", "0"))
        if subtopology is not None:
            sent = int(position.progress.get("told", "-1"))
            self._time_only = TimeOnlySender(self._routes.open(subtopology), sent, self._now)
            self.outputs.resume(sent_of(position.progress))

    def progress(self) -> dict[str, str]:
        """Return what a position records of it."""
        progress = {"sequence": str(self._sequence), **sent_progress(self.outputs.sent())}
        if self._time_only:
            progress["told"] = str(self._time_only.sent())
        return progress

    def emit(self, node: Node, key: bytes | None, value: bytes | None, record: Record[Any, Any]) -> None:
        """Send one record to a sink or an internal topic."""
        found = self._known_routes.get(node.id) or self._routes.of(node)
        if found is None:
            return
        target = found.target
        if self._refusal is not None:
            self.fail_if_refused(target.name)
        headers: Headers = (*record.headers, *found.owner) if record.headers else found.owner
        if found.origin:
            headers = (*headers, self._origin())
        self.outputs.bytes += target.check.size(key, value, record.timestamp, headers, self._now)
        target.add(key, value, record.timestamp, headers)

    def emit_held(self, node: Node, key: bytes, held: Held) -> None:
        """Send an event that was held, with its original position as origin. If the topic does not take it,
        it becomes a dead letter: no caller handles its error."""
        found = self._routes.of(node)
        if found is None:
            return
        self._sequence += 1
        origin = origin_header(held.origin, self.name, self._sequence, max(held.time, 0))
        headers = (*held.headers, origin)
        try:
            self.outputs.add(found.target, key, held.value, held.timestamp, headers, self._now)
        except LogError as error:
            if not caused_by_record(error):
                raise
            topic, partition, offset = held.origin.rsplit("/", 2) if "/" in held.origin else ("-", 0, 0)
            at = TopicPartition(topic, int(partition))
            raw = RawRecord(at, int(offset), held.timestamp, key, held.value, held.headers)
            self.dead_letter(raw, error, self._now)

    def dead_letter(self, raw: RawRecord, error: TidegateError, now: int) -> None:
        target = self.outputs.target(self._context.topics[self._context.dead_letters])
        at = min(max(raw.timestamp, 0), now)
        self.outputs.add(target, raw.key, raw.value, at, dead_letter_headers(raw, error), now)
        self.dead_letters.count += 1

    def send_time(self, now: int, *, at_once: bool) -> bool:
        """Send time-only records to partitions that lack the stream time. Returns whether there were any."""
        sent = False
        time = self._store_time.stream_time
        if self._time_only:
            self.outputs.settle()
        for target, partition in self._time_only.due(time, now, at_once=at_once):
            self._origin_position, sent = NO_RECORD, True
            self.outputs.add_to(target, partition, time, (self._origin(), MARK), now)
        return sent

    def route_of(self, node: Node) -> Route | None:
        return self._routes.of(node)

    def reads_handed_on(self, node: Node) -> bool:
        """Return whether the values in the topic of this node were decoded once before."""
        return self._context.hands_on_values(node)

    def reserve_sequence(self, count: int) -> int:
        """Reserve sequence numbers and return the first."""
        self._sequence += count
        return self._sequence - count + 1

    def begin_record(self) -> None:
        """Mark the state that `roll_back` returns to."""
        self._sequence_before = self._sequence
        self.outputs.begin_record()
        self.null_values.begin_record()
        self.dead_letters.begin_record()

    def roll_back(self) -> None:
        self._sequence = self._sequence_before
        self.outputs.roll_back()
        self.null_values.roll_back()
        self.dead_letters.roll_back()

    def _origin(self) -> tuple[str, bytes]:
        self._sequence += 1
        return origin_header(
            self.origin_position(), self.name, self._sequence, max(self._store_time.stream_time, 0)
        )
