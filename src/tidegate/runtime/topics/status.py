"""The status topic of an app: landings, numbers, warnings and failures of its slots. One partition, one hour
of retention, plain appends: nothing in it decides anything that a crash must not lose."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tidegate.gate.formats import GateNumbers
from tidegate.log import names
from tidegate.log.protocol import Log
from tidegate.log.records import Row, to_batch
from tidegate.log.topic import TopicSpec
from tidegate.types import Offset, TopicPartition

CONFIG = {
    "cleanup.policy": "delete",
    "retention.ms": "3600000",
    "segment.ms": "600000",  # only whole segments expire: with those of a week, a week would be kept and read
    "segment.bytes": str(4 << 20),
    "message.timestamp.after.max.ms": str(2**63 - 1),
}


class Landing(msgspec.Struct, frozen=True, tag="landing"):
    """A slot's job runs somewhere: where, and what state lies there already."""

    epoch: int
    slot: int
    attempt: int
    host: str
    pid: int
    machine: str
    """Differs between machines, also where their names do not."""
    folders: dict[str, int] = {}
    """Tasks whose state lies on this host, with the sum of their changelog offsets."""


class Numbers(msgspec.Struct, frozen=True, tag="numbers"):
    """How a slot is doing."""

    epoch: int
    slot: int
    at: int
    records: int
    """Taken of the app's source topics since the slot's job began; none of internal topics and gates."""
    per_second: float
    lag: int
    """Records that are committed and not yet taken."""
    skipped: int
    running: int
    restoring: int
    restored: int = 0
    to_restore: int = 0
    rebuilt: int = 0
    """Stores whose rows on disk were discarded and rebuilt from the changelog, since the slot's job began."""
    emptied: int = 0
    """Stores without changelog that were emptied: they were not at the committed position. As long."""
    gaps: int = 0
    """The same, but kept as they were (`on_gap="keep"`). As long."""
    batches_taken_apart: int = 0
    """Batches that failed as a whole and were processed record by record, since the tasks were opened."""
    gates: dict[str, GateNumbers] = {}
    null_values: int = 0
    """Records that aggregates and joins ignored because they have no value, since the job began."""
    dead_letters: int = 0
    """Records that went to the dead-letter topic, since the tasks were opened."""


class _Trouble(msgspec.Struct, frozen=True):
    epoch: int
    slot: int
    attempt: int
    code: str
    message: str
    hint: str


class Failure(_Trouble, frozen=True, tag="failure"):
    """What ended a slot's job; see `failures`."""

    kind: str = ""
    """The class of the error, by its name in `errors`; empty for one that is not ours."""
    retryable: bool = False
    position: tuple[str, int, int] | None = None
    """The record: topic, partition, offset."""
    generation: int | None = None
    topic: str = ""
    """Whose records the log refused."""
    by_driver: bool = False
    """Reported by the driver, which only saw the job end: the slot may have reported more before."""


class Warned(_Trouble, frozen=True, tag="warned"):
    """What a person should look at; the slot goes on."""


class Ended(msgspec.Struct, frozen=True, tag="ended"):
    """A slot's job came to its end in order."""

    epoch: int
    slot: int
    attempt: int
    records: int
    skipped: int = 0
    dead_letters: int = 0
    """Since the tasks were opened, as in the numbers."""


Status = Landing | Numbers | Failure | Warned | Ended
_status: msgspec.json.Decoder[Status] = msgspec.json.Decoder(Status)


def status_topic(app: str) -> TopicSpec:
    """The topic to create."""
    return TopicSpec(names.status(app), 1, CONFIG)


def tell(log: Log, app: str, status: Status, now: int) -> None:
    """Append one."""
    log.append(TopicPartition(names.status(app), 0), to_batch([Row(None, msgspec.json.encode(status), now)]))


def decoded(value: bytes | None) -> Status | None:
    """One record. None for one of another version of tidegate: nothing depends on it."""
    try:
        return None if value is None else _status.decode(value)
    except msgspec.DecodeError:
        return None


class StatusFollower:
    """Reads what is told from now on."""

    def __init__(self, log: Log, app: str) -> None:
        partition = TopicPartition(names.status(app), 0)
        self._reader = log.reader({partition: Offset(log.ends([partition])[partition])})

    def poll(self, timeout: float = 0.0) -> Iterator[Status]:
        """What came. Records of another version of tidegate are passed over."""
        for fetched in self._reader.poll(timeout):
            for value in fetched.batch.column(3).to_pylist():
                found = decoded(value)
                if found is not None:
                    yield found

    def close(self) -> None:
        self._reader.close()
