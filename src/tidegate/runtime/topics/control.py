"""The control topic of an app: which driver and slots may write, and which must stop. It has one partition;
the newest record of a key counts.

    epoch/<role>            the epoch in force: a slot of an older one stops
    attempt/<role>/<slot>   the newest attempt of a slot's job: an older one stops
    plan/<role>             which slot runs which stream tasks, under which writer
    stop/<role>             finish, commit, close: for all slots of an epoch
    drain/<role>            take no more records from sources until a time: for all slots of an epoch
    active                  which generation of the app runs
    manifest/<generation>   the app as it was when the generation began
    code/<generation>       the user's code then; see `topology/code`
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
"""The role of the driver and the slots that run an app."""
ACTIVE = "active"
CONFIG = {"cleanup.policy": "compact", "message.timestamp.after.max.ms": str(2**63 - 1)}
S = TypeVar("S", bound=msgspec.Struct)


class EpochEntry(msgspec.Struct, frozen=True):
    """The newest start of a driver, or its newest plan."""

    epoch: int


class Active(msgspec.Struct, frozen=True):
    """The generation that runs."""

    generation: int


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
    """Requests the slots of an epoch, and of all before it, to stop."""

    epoch: int
    for_new_plan: bool = False
    """Whether the driver continues under the next epoch."""
    by: str = ""
    """Who requested it."""
    failure: Cause | None = None
    """The error that ended the driver, if any."""


class Drain(msgspec.Struct, frozen=True):
    """Requests the slots of an epoch, and of all before it, to take no more records from sources, and to
    continue with internal topics."""

    epoch: int
    until: int
    """The wall time in ms from which on they read their sources again, if no stop was requested."""
    timers_until: int
    """Wall-clock timers that are due after this time in ms wait as well."""
    by: str = ""
    """Who requested it."""


def control_topic(app: str) -> TopicSpec:
    """Return the spec of the control topic."""
    return TopicSpec(names.control(app), 1, CONFIG)


_decoders: dict[type[msgspec.Struct], msgspec.json.Decoder[Any]] = {
    kind: msgspec.json.Decoder(kind) for kind in (Active, EpochEntry, Attempt, Plan, Stop, Drain)
}


class Control:
    """The entries in force, as far as they were read."""

    def __init__(self, entries: Mapping[str, bytes] | None = None) -> None:
        self.entries = dict(entries or {})
        self.times: dict[str, int] = {}
        """When each entry was written, in ms."""

    def take(self, fetched: Iterable[Fetched]) -> bool:
        """Add what was read. Returns whether that was anything."""
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
                raise bad_control("a record without a readable key") from None
            if value is None:
                self.entries.pop(name, None)
                self.times.pop(name, None)
            else:
                self.entries[name], self.times[name] = value, at

    def active(self) -> int:
        """Return the generation that runs; 0 before the first. An earlier version of tidegate wrote only the
        manifest of the first one."""
        found = self._get(ACTIVE, Active)
        return found.generation if found else int(manifest_key(1) in self.entries)

    def generations(self) -> list[int]:
        """Return the numbers of all generations, also of those that never ran, in ascending order."""
        prefix = manifest_key("")
        numbers = (key.removeprefix(prefix) for key in self.entries if key.startswith(prefix))
        return sorted(int(number) for number in numbers if number.isdecimal())

    def epoch(self, role: str) -> int:
        """Return the highest epoch of a role in any entry; 0 before the first."""
        found = self._get(f"epoch/{role}", EpochEntry)
        return max(found.epoch if found else 0, self.plan(role).epoch)

    def attempt(self, role: str, slot: int) -> Attempt:
        return self._get(f"attempt/{role}/{slot}", Attempt) or Attempt(0, 0)

    def plan(self, role: str) -> Plan:
        """Return the newest plan of a role; one of epoch 0 before the first."""
        return self._get(f"plan/{role}", Plan) or Plan(0)

    def stop(self, role: str) -> Stop:
        """Return the newest stop; one of epoch 0 before the first."""
        return self._get(f"stop/{role}", Stop) or Stop(0)

    def stopped(self, role: str) -> int:
        """Return the epoch up to which slots must stop."""
        return self.stop(role).epoch

    def drain(self, role: str) -> Drain:
        """Return the newest drain; one of epoch 0 before the first."""
        return self._get(f"drain/{role}", Drain) or Drain(0, 0, 0)

    def _get(self, key: str, kind: type[S]) -> S | None:
        raw = self.entries.get(key)
        if raw is None:
            return None
        try:
            found: S = _decoders[kind].decode(raw)
        except msgspec.DecodeError as error:
            raise bad_control(f"an invalid {key}: {error}") from error
        return found


def manifest_key(generation: int | str) -> str:
    return f"manifest/{generation}"


def code_key(generation: int) -> str:
    return f"code/{generation}"


def bad_control(what: str) -> LogError:
    """Return the error for a record that tidegate did not write to the control topic."""
    return LogError("bad-control", f"the control topic holds {what}", "only tidegate may write it")


class ControlFollower:
    """Follows the control topic as a committed reader."""

    def __init__(self, log: Log, app: str) -> None:
        """Read to the end: open your writer first, see `read_to_end`."""
        partition = TopicPartition(names.control(app), 0)
        at = Offset(log.describe(partition.topic).starts[0])
        self.current = Control()
        for fetched in read_to_end(log, {partition: at}):
            self.current.take([fetched])
            at = fetched.next
        self._reader = log.reader({partition: at})

    def poll(self, timeout: float = 0.0) -> bool:
        """Read what was written since the last call. Returns whether that was anything."""
        return self.current.take(self._reader.poll(timeout))

    def close(self) -> None:
        self._reader.close()


def read_control(log: Log, app: str) -> Control:
    """Return the entries in force. Open your writer first, then read: see `read_to_end`."""
    follower = ControlFollower(log, app)
    follower.close()
    return follower.current


def write_control(
    writer: Writer, app: str, entries: Mapping[str, msgspec.Struct | bytes | None], now: int
) -> None:
    """Append entries to the writer's transaction; None deletes one."""
    rows = [
        Row(key.encode(), msgspec.json.encode(value) if isinstance(value, msgspec.Struct) else value, now)
        for key, value in entries.items()
    ]
    writer.append(TopicPartition(names.control(app), 0), to_batch(rows))
