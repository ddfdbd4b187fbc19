"""The control topic of an app: who may write, and who must stop. One partition; the newest record of a key
counts.

    epoch/<role>            the epoch in force: a slot of an older one stops
    attempt/<role>/<slot>   which start of a slot's job is the newest: an older one stops
    plan/<role>             which slot runs which stream tasks, under which writer
    stop/<role>             finish, commit, close: for all slots of an epoch
    manifest/<generation>   the app as it was when the generation began
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec
import pyarrow as pa

from tidegate.errors import LogError
from tidegate.log import names
from tidegate.log.positions import TaskId
from tidegate.log.protocol import Fetched, Log, Writer
from tidegate.log.reads import read_to_end
from tidegate.log.records import Row, to_batch
from tidegate.log.topic import TopicSpec
from tidegate.types import Offset, TopicPartition

ROLE = "active"
"""Of the driver and the slots that run an app."""
CONFIG = {"cleanup.policy": "compact", "message.timestamp.after.max.ms": str(2**63 - 1)}
S = TypeVar("S", bound=msgspec.Struct)


class Epoch(msgspec.Struct, frozen=True):
    """The newest start of a driver, or its newest plan."""

    epoch: int


class Attempt(msgspec.Struct, frozen=True):
    """The newest start of one slot's job within an epoch."""

    epoch: int
    attempt: int


class SlotPlan(msgspec.Struct, frozen=True):
    """One slot: its writer, and what it runs."""

    slot: int
    writer: str
    tasks: list[TaskId] = []
    host: str = ""


class StagePlan(msgspec.Struct, frozen=True):
    """One DataFrame stage, and its writer."""

    name: str
    writer: str


class Plan(msgspec.Struct, frozen=True):
    """The slots and stages of an epoch."""

    epoch: int
    slots: list[SlotPlan] = []
    stages: list[StagePlan] = []
    topics: dict[str, str] = {}
    """The uid of each source topic: positions mean nothing in another one of the same name."""

    @property
    def writers(self) -> list[str]:
        return [slot.writer for slot in self.slots] + [stage.writer for stage in self.stages]


class Cause(msgspec.Struct, frozen=True):
    """The error that made a driver end its app."""

    code: str
    message: str
    hint: str = ""


class Stop(msgspec.Struct, frozen=True):
    """Asks the slots of an epoch, and of all before it, to finish."""

    epoch: int
    for_new_plan: bool = False
    """Whether the driver goes on under the next epoch."""
    by: str = ""
    """Who asked."""
    failure: Cause | None = None
    """Why the driver gave up, if it did."""


def control_topic(app: str) -> TopicSpec:
    """The topic to create."""
    return TopicSpec(names.control(app), 1, CONFIG)


_decoders: dict[type[msgspec.Struct], msgspec.json.Decoder[Any]] = {
    kind: msgspec.json.Decoder(kind) for kind in (Epoch, Attempt, Plan, Stop)
}


class Control:
    """What is in force, as far as it was read."""

    def __init__(self, entries: Mapping[str, bytes] | None = None) -> None:
        self.entries = dict(entries or {})
        self.times: dict[str, int] = {}
        """When each entry was written, in ms."""

    def take(self, fetched: Iterable[Fetched]) -> bool:
        """Add what was read. Whether it was anything."""
        count = 0
        for part in fetched:
            self.take_batch(part.batch)
            count += part.batch.num_rows
        return count > 0

    def take_batch(self, batch: pa.RecordBatch) -> None:
        for at, key, value in zip(*(batch.column(index).to_pylist() for index in (1, 2, 3)), strict=True):
            try:
                name = key.decode()
            except (AttributeError, UnicodeDecodeError):
                raise bad_control("a record without a name") from None
            if value is None:
                self.entries.pop(name, None)
                self.times.pop(name, None)
            else:
                self.entries[name], self.times[name] = value, at

    def epoch(self, role: str) -> int:
        """The highest epoch that anything says of a role; 0 before the first."""
        found = self._get(f"epoch/{role}", Epoch)
        return max(found.epoch if found else 0, self.plan(role).epoch)

    def attempt(self, role: str, slot: int) -> Attempt:
        return self._get(f"attempt/{role}/{slot}", Attempt) or Attempt(0, 0)

    def plan(self, role: str) -> Plan:
        """The last plan of a role; epoch 0 before the first."""
        return self._get(f"plan/{role}", Plan) or Plan(0)

    def stop(self, role: str) -> Stop:
        """The newest stop; of epoch 0 before the first."""
        return self._get(f"stop/{role}", Stop) or Stop(0)

    def stopped(self, role: str) -> int:
        """Slots of this epoch and below shall stop."""
        return self.stop(role).epoch

    def _get(self, key: str, kind: type[S]) -> S | None:
        raw = self.entries.get(key)
        if raw is None:
            return None
        try:
            found: S = _decoders[kind].decode(raw)
        except msgspec.DecodeError as error:
            raise bad_control(f"no {key}: {error}") from error
        return found


def bad_control(what: str) -> LogError:
    """Somebody else wrote to the control topic."""
    return LogError("bad-control", f"the control topic holds {what}", "only tidegate may write it")


class ControlFollower:
    """Reads the control topic on, as its own committed reader."""

    def __init__(self, log: Log, app: str) -> None:
        """Reads to the end, as `read_to_end` says: open your writer first."""
        partition = TopicPartition(names.control(app), 0)
        at = Offset(log.describe(partition.topic).starts[0])
        self.now = Control()
        for fetched in read_to_end(log, {partition: at}):
            self.now.take([fetched])
            at = fetched.next
        self._reader = log.reader({partition: at})

    def poll(self, timeout: float = 0.0) -> bool:
        """What came since. Whether it was anything."""
        return self.now.take(self._reader.poll(timeout))

    def close(self) -> None:
        self._reader.close()


def read_control(log: Log, app: str) -> Control:
    """What is in force. Open your writer first, then read: see `read_to_end`."""
    follower = ControlFollower(log, app)
    follower.close()
    return follower.now


def write_control(writer: Writer, app: str, entries: Mapping[str, msgspec.Struct], now: int) -> None:
    """Add to the writer's transaction."""
    rows = [Row(key.encode(), msgspec.json.encode(value), now) for key, value in entries.items()]
    writer.append(TopicPartition(names.control(app), 0), to_batch(rows))
