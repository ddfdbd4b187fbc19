"""What a task sends: where it goes, and the headers with its origin. Held until the commit."""

from __future__ import annotations

from typing import Any

from tidegate.errors import LogError, TidegateError
from tidegate.gate.formats import Held
from tidegate.log.positions import Position, TaskId
from tidegate.log.records import RawRecord
from tidegate.record import Record
from tidegate.runtime.null_values import NullValues
from tidegate.runtime.output.on_error import by_the_record, dead_letter_headers
from tidegate.runtime.output.origin import origin_header
from tidegate.runtime.output.outputs import Outputs
from tidegate.runtime.output.routes import Route, Routes
from tidegate.runtime.output.time_only import MARK, TimeOnlySender
from tidegate.runtime.run_context import RunContext
from tidegate.runtime.tally import Tally
from tidegate.state.store_time import StoreTime
from tidegate.topology.graph import Subtopology
from tidegate.topology.node import Node
from tidegate.types import TopicPartition

NOWHERE = "-"  # where outputs of timers come from


class Sender:
    """Of one task. It knows the record in work: outputs name the position that they come from."""

    def __init__(self, context: RunContext, task: TaskId, moment: StoreTime) -> None:
        self.outputs = Outputs(task.partition)
        self.null_values, self.dead_letters = NullValues(), Tally()
        self.name = str(task)
        self._record: RawRecord | None = None
        self._place = NOWHERE
        """The position of the record in work as headers have it; empty until an output needs it."""
        self._refusal: LogError | None = None
        """Why the log refused the record in work."""
        self._now = 0
        self._context = context
        self._moment = moment
        self._routes = Routes(context, self.outputs)
        self._time_only = TimeOnlySender([], -1, 0)
        self._sequence = 0
        self._sequence_before = 0

    # --- the record in work ---------------------------------------------------------------------------

    def begin(self, raw: RawRecord, refusal: LogError | None = None) -> None:
        """From here on outputs come from this record. `refusal`: why the log refused what it led to."""
        self._record, self._place, self._refusal = raw, "", refusal

    def came_from(self, position: str) -> None:
        """The record in work comes from this position: the origin of what was read from an internal topic."""
        self._place = position

    def between_records(self) -> None:
        """From here on outputs come from no record: timers and gates send by themselves."""
        self._place, self._refusal = NOWHERE, None

    @property
    def last(self) -> RawRecord | None:
        """The record in work, or the one that was in work last."""
        return self._record

    def in_work(self) -> RawRecord:
        """The record in work."""
        assert self._record is not None  # noqa: S101 - outputs come from records
        return self._record

    def where(self) -> str:
        """The place of the record in work."""
        if not self._place and self._record is not None:
            self._place = f"{self._record.partition}/{self._record.offset}"
        return self._place

    def fail_if_refused(self, topic: str = "") -> None:
        """Where the record in work was refused by that topic; else at its end."""
        if self._refusal is not None and topic in {"", self._refusal.topic}:
            raise self._refusal

    # --- outputs --------------------------------------------------------------------------------------

    @property
    def now(self) -> int:
        """The time of the clock as it was read last."""
        return self._now

    def set_now(self, now: int) -> None:
        """Topics check the timestamps of outputs against this time."""
        self._now = now

    def start(self, position: Position, subtopology: Subtopology | None) -> None:
        """Go on from a position; without a subtopology nothing is sent."""
        self._sequence = int(position.progress.get("sequence", "0"))
        if subtopology is not None:
            sent = int(position.progress.get("told", "-1"))
            self._time_only = TimeOnlySender(self._routes.open(subtopology), sent, self._now)

    def progress(self) -> dict[str, str]:
        """What of it a position keeps."""
        progress = {"sequence": str(self._sequence)}
        if self._time_only:
            progress["told"] = str(self._time_only.sent())
        return progress

    def emit(self, node: Node, key: bytes | None, value: bytes | None, record: Record[Any, Any]) -> None:
        """One record to a sink or an internal topic."""
        found = self._routes.of(node)
        if found is None:
            return
        target, owner = found
        if self._refusal is not None:
            self.fail_if_refused(target.name)
        origin = self._origin()
        headers = (*record.headers, owner, origin) if record.headers else (owner, origin)
        self.outputs.add(target, key, value, record.timestamp, headers, self._now)

    def emit_from(self, node: Node, key: bytes, held: Held) -> None:
        """An event that was held, as from where it once came. One that the topic does not take any more is a
        dead letter: no caller waits for it."""
        found = self._routes.of(node)
        if found is None:
            return
        target, owner = found
        self._sequence += 1
        origin = origin_header(held.place, self.name, self._sequence, max(held.time, 0))
        headers = (*held.headers, owner, origin)
        try:
            self.outputs.add(target, key, held.value, held.timestamp, headers, self._now)
        except LogError as error:
            if not by_the_record(error):
                raise
            topic, partition, offset = held.place.rsplit("/", 2) if "/" in held.place else ("-", 0, 0)
            at = TopicPartition(topic, int(partition))
            raw = RawRecord(at, int(offset), held.timestamp, key, held.value, held.headers)
            self.dead_letter(raw, error, self._now)

    def dead_letter(self, raw: RawRecord, error: TidegateError, now: int) -> None:
        target = self.outputs.target(self._context.topics[self._context.dead_letters])
        at = min(max(raw.timestamp, 0), now)
        self.outputs.add(target, raw.key, raw.value, at, dead_letter_headers(raw, error), now)
        self.dead_letters.count += 1

    def send_time(self, now: int, *, at_once: bool) -> bool:
        """Write time-only records to the partitions behind that lack the stream time. Whether any were."""
        sent = False
        time = self._moment.stream_time
        for target, owner, partition in self._time_only.due(time, now, at_once=at_once):
            self._place, sent = NOWHERE, True
            self.outputs.add_to(target, partition, time, (owner, self._origin(), MARK), now)
        return sent

    def writes_to(self, node: Node) -> Route | None:
        return self._routes.of(node)

    def take_numbers(self, count: int) -> int:
        """The first of so many running numbers."""
        self._sequence += count
        return self._sequence - count + 1

    def begin_record(self) -> None:
        """From here on what is sent can be taken back."""
        self._sequence_before = self._sequence
        self.outputs.begin_record()
        self.null_values.begin_record()
        self.dead_letters.begin_record()

    def take_back(self) -> None:
        self._sequence = self._sequence_before
        self.outputs.take_back()
        self.null_values.take_back()
        self.dead_letters.take_back()

    def _origin(self) -> tuple[str, bytes]:
        self._sequence += 1
        return origin_header(self.where(), self.name, self._sequence, max(self._moment.stream_time, 0))
