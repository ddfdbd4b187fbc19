"""The status topic of an app: landings, numbers, warnings and failures of its slots, and the progress of a
recalculation. It has one partition, one hour of retention and no transactions: no decision that must survive
a crash depends on it."""

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
    "segment.ms": "600000",  # only whole segments expire: with week-long ones a week would be kept and read
    "segment.bytes": str(4 << 20),
    "message.timestamp.after.max.ms": str(2**63 - 1),
}


class Landing(msgspec.Struct, frozen=True, tag="landing"):
    """A slot's job has started on a host, and the state that it found there."""

    epoch: int
    slot: int
    attempt: int
    host: str
    pid: int
    machine: str
    """Identifies the machine, also if host names are the same."""
    folders: dict[str, int] = {}
    """Tasks whose state is on this host, with the sum of their changelog offsets."""


class Numbers(msgspec.Struct, frozen=True, tag="numbers"):
    """The progress of a slot."""

    epoch: int
    slot: int
    at: int
    records: int
    """Records processed from the app's source topics since the slot's job began; not those of internal topics
    and gates."""
    per_second: float
    lag: int
    """Records that are committed and not yet processed."""
    skipped: int
    running: int
    restoring: int
    restored: int = 0
    to_restore: int = 0
    rebuilt: int = 0
    """Stores whose rows on disk were discarded and rebuilt from the changelog, since the slot's job began."""
    emptied: int = 0
    """Stores without changelog that were emptied because they were not at the committed position, since the
    slot's job began."""
    gaps: int = 0
    """The same, but kept as they were (`on_gap="keep"`), since the slot's job began."""
    batches_taken_apart: int = 0
    """Batches that failed as a whole and were processed record by record, since the tasks were opened."""
    gates: dict[str, GateNumbers] = {}
    null_values: int = 0
    """Records that aggregates and joins ignored because they have no value, since the job began."""
    dead_letters: int = 0
    """Records that went to the dead-letter topic, since the tasks were opened."""
    rests_until: int = 0
    """While the app drains: the time `until` of the drain, once the slot has processed everything that it had
    fetched from sources; else 0."""


class _Trouble(msgspec.Struct, frozen=True):
    epoch: int
    slot: int
    attempt: int
    code: str
    message: str
    hint: str


class Failure(_Trouble, frozen=True, tag="failure"):
    """The error that ended a slot's job; see `failures`."""

    kind: str = ""
    """The class of the error, by its name in `errors`; empty for one that is not tidegate's."""
    retryable: bool = False
    position: tuple[str, int, int] | None = None
    """The record: topic, partition, offset."""
    generation: int | None = None
    topic: str = ""
    """The topic for which the log refused records."""
    by_driver: bool = False
    """Reported by the driver, which only saw the job end: the slot may have reported details before."""
    refused: bool = False
    """The executor refused the order before the job began, and would refuse it again: it has other code than
    the driver, or cannot import the app."""


class Warned(_Trouble, frozen=True, tag="warned"):
    """A problem that a user should look at; the slot continues."""


class Ended(msgspec.Struct, frozen=True, tag="ended"):
    """A slot's job ended in order."""

    epoch: int
    slot: int
    attempt: int
    records: int
    skipped: int = 0
    dead_letters: int = 0
    """Since the tasks were opened, as in `Numbers`."""


class Recalculating(msgspec.Struct, frozen=True, tag="recalculating"):
    """How far the recalculation of an upgrade is, published by the driver once a second; see
    `upgrade/progress`."""

    epoch: int
    slot: int
    """That of the driver."""
    at: int
    round: int
    done: int
    to_do: int
    """Records in all, as far as they can be counted."""
    complete: bool
    """Whether all can be counted."""
    per_second: float
    seconds_left: float | None
    """For what can be counted; None as long as there is no rate."""


Status = Landing | Numbers | Failure | Warned | Ended | Recalculating
_status: msgspec.json.Decoder[Status] = msgspec.json.Decoder(Status)


def status_topic(app: str) -> TopicSpec:
    """Return the spec of the status topic."""
    return TopicSpec(names.status(app), 1, CONFIG)


def publish_status(log: Log, app: str, status: Status, now: int) -> None:
    """Append one status record."""
    log.append(TopicPartition(names.status(app), 0), to_batch([Row(None, msgspec.json.encode(status), now)]))


def decoded(value: bytes | None) -> Status | None:
    """Decode one record. Returns None for one of another version of tidegate: nothing depends on it."""
    try:
        return None if value is None else _status.decode(value)
    except msgspec.DecodeError:
        return None


class StatusFollower:
    """Follows the status topic from its current end."""

    def __init__(self, log: Log, app: str) -> None:
        self._log = log
        self._partition = TopicPartition(names.status(app), 0)
        self._reader = log.reader({self._partition: self.end()})

    def end(self) -> Offset:
        """Return the current end of the topic."""
        return Offset(self._log.ends([self._partition])[self._partition])

    def has_read(self, end: Offset) -> bool:
        """Whether everything before this offset was read."""
        return self._reader.position(self._partition) >= end

    def poll(self, timeout: float = 0.0) -> Iterator[Status]:
        """Yield what was published since. Records of another version of tidegate are skipped."""
        for fetched in self._reader.poll(timeout):
            for value in fetched.batch.column(3).to_pylist():
                found = decoded(value)
                if found is not None:
                    yield found

    def close(self) -> None:
        self._reader.close()
