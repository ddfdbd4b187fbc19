"""A sink: keeps tables of a database equal to topics of the log, each record applied exactly once.

Opening, in one transaction after the tables are there:

    the position of each partition is read; where it cannot be continued (`positions.py`), a read from the
    start begins

A batch:

    1  read records of some partitions, and fold them to the newest value of each key
    2  begin a transaction
    3  compare and set the position of each partition: if one is not the expected one, another sink was
       faster; roll back, read the positions, and continue there
    4  write the rows of each partition: upsert, delete
    5  sweep the partitions whose read from the start has reached its end
    6  commit
    7  committed

A crash before 6 leaves the database as it was, a crash after it loses nothing: the database is never ahead of
the log, and no batch is applied twice. The position comes before the rows because its update locks it: a
second sink waits there, and has written nothing when it finds that it lost.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import sqlalchemy as sa

from tidegate.clock import Clock
from tidegate.errors import SerdeError
from tidegate.log.ensure import check_topic
from tidegate.log.faultpoints import reach
from tidegate.log.protocol import Log, Reader
from tidegate.log.route import partitions_of
from tidegate.log.topic import TopicInfo
from tidegate.sinks.database import Database
from tidegate.sinks.positions import Changed, SinkPosition, advanced, positions_table, sweeps
from tidegate.sinks.sources import Source
from tidegate.sinks.target import Target, table_name
from tidegate.types import Offset, TopicPartition

POLL_SECONDS = 0.2
LOST_SECONDS = 0.05
"""The wait after another sink was faster."""
LOOK_SECONDS = 30.0
"""The interval between two looks whether the topics are still the same."""
RENEW_MS = 600_000
"""A quiet partition renews the time at which it was current after so long, or sooner."""


@dataclass(slots=True)
class SinkCounts:
    """What a sink has done since it was started."""

    records: int = 0
    written: int = 0
    deleted: int = 0
    swept: int = 0
    skipped: int = 0
    lost: int = 0
    """Batches that another sink had applied first."""


@dataclass(frozen=True, slots=True)
class Rereading:
    """A partition is read from its start, and why."""

    partition: TopicPartition
    why: str


@dataclass(frozen=True, slots=True)
class _Batch:
    """Records of one partition."""

    position: SinkPosition
    after: SinkPosition
    rows: dict[bytes, tuple[bytes | None, int]]
    records: int


class Sink:
    """Copies some topics to one database. One thread uses it."""

    def __init__(
        self,
        log: Log,
        database: Database,
        sources: list[Source],
        clock: Clock,
        *,
        schema: str | None = None,
        prefix: str = "",
        batch: int = 5_000,
        skip: bool = False,
        noticed: Callable[[Rereading | SerdeError], None] = lambda _: None,
    ) -> None:
        self.counts = SinkCounts()
        self._log = log
        self._database = database
        self._clock = clock
        self._batch = batch
        self._noticed = noticed
        self._skipped: Callable[[SerdeError], None] | None = self._skip if skip else None
        self._metadata = sa.MetaData(schema=schema)
        self._targets: dict[str, Target] = {}
        for source in sources:
            name = table_name(prefix, source.name)
            made = Target(source.topic, name, source.layout, self._metadata, is_sqlite=database.is_sqlite)
            self._targets[source.topic] = made
        self._infos: dict[str, TopicInfo] = {}
        self._positions: dict[TopicPartition, SinkPosition] = {}
        self.behind: dict[TopicPartition, int] = {}
        """Offsets that were committed when the sink was opened and are not in the database yet."""

    def prepare(self) -> None:
        """Create the tables that are missing. Raises StateError: `database-failed`, `other-columns`."""
        with self._database.schema_change() as connection:
            positions_table(self._metadata).create(connection, checkfirst=True)
            for target in self._targets.values():
                target.create(connection)

    def follow(self, ended: threading.Event, *, until_caught_up: bool = False) -> None:
        """Apply records until `ended` is set, or up to what is committed when it is called. After an error
        it can be called again: everything that it knows, it reads from the database and the log."""
        self.prepare()
        ends: dict[TopicPartition, int] | None = None
        while not ended.is_set():
            self._open()
            if ends is None and until_caught_up:
                ends = {one: at.next_offset + self.behind[one] for one, at in self._positions.items()}
            if self._follow_topics(ended, ends):
                return

    def _follow_topics(self, ended: threading.Event, ends: Mapping[TopicPartition, int] | None) -> bool:
        """Apply records of the topics as they are described now. Returns whether that is all; False if the
        sink must be opened again."""
        with closing(self._log.reader(self._offsets())) as reader:
            look_at = time.monotonic() + LOOK_SECONDS
            while not ended.is_set():
                if ends is not None and self._has_reached(ends):
                    return True
                try:
                    if not self._step(reader):
                        return False
                except Changed:
                    self.counts.lost += 1
                    ended.wait(LOST_SECONDS)
                    before = set(self._positions)
                    self._open()
                    if set(self._positions) != before:
                        return False
                    for partition, offset in self._offsets().items():
                        reader.seek(partition, offset)
                if time.monotonic() >= look_at:
                    if self._topics_changed():
                        return False
                    look_at = time.monotonic() + LOOK_SECONDS
        return True

    def _has_reached(self, ends: Mapping[TopicPartition, int]) -> bool:
        """Whether everything before these offsets is in the database, and what is gone is swept. A topic that
        was recreated since is read to where it ended when that was noticed."""
        return all(
            at.sweep_at is None and at.next_offset >= min(ends.get(one, 0), at.next_offset + self.behind[one])
            for one, at in self._positions.items()
        )

    def _open(self) -> None:
        """Describe the topics, and find out where to continue."""
        infos = {topic: self._log.describe(topic) for topic in self._targets}
        for info in infos.values():
            check_topic(info, table=True)
        partitions = [one for info in infos.values() for one in partitions_of(info)]
        ends = self._log.ends(partitions)
        last = self._log.ends(partitions, committed=False)
        while True:
            try:
                with self._database.transaction() as connection:
                    self._positions = self._opened(connection, infos, ends, last)
                break
            except Changed:
                time.sleep(LOST_SECONDS)
        self._infos = infos
        self.behind = {one: max(0, ends[one] - at.next_offset) for one, at in self._positions.items()}

    def _offsets(self) -> dict[TopicPartition, Offset]:
        return {partition: Offset(at.next_offset) for partition, at in self._positions.items()}

    def _opened(
        self,
        connection: sa.Connection,
        infos: Mapping[str, TopicInfo],
        ends: Mapping[TopicPartition, int],
        last: Mapping[TopicPartition, int],
    ) -> dict[TopicPartition, SinkPosition]:
        """Return the positions; begin reads from the start where they are needed."""
        found: dict[TopicPartition, SinkPosition] = {}
        for topic, info in infos.items():
            target = self._targets[topic]
            stored = target.positions.all(connection)
            for partition in partitions_of(info):
                known = stored.get(partition.partition)
                why = self._why(info, known, last[partition])
                if known is not None and why is None:
                    found[partition] = known
                    continue
                before = target.newest_read(connection, partition.partition) if known is None else known.read
                new = SinkPosition(
                    topic,
                    info.uid,
                    partition.partition,
                    info.starts[partition.partition],
                    self._clock.now(),
                    before + 1,
                    sweep_at=ends[partition],
                    keeps_newer=_comparable(known, why),
                )
                target.positions.begin(connection, new, known)
                found[partition] = new
                self._noticed(Rereading(partition, why or FIRST))
        return found

    def _why(self, info: TopicInfo, known: SinkPosition | None, end: int) -> str | None:
        """Return why a partition must be read from its start; None if it can be continued."""
        if known is None:
            return FIRST
        if (known.topic, known.uid) != (info.name, info.uid):
            return RECREATED
        if known.next_offset > end:
            return AHEAD
        if known.next_offset < info.starts[known.partition]:
            return CUT
        if known.next_offset < end and self._clock.now() - known.current_at > _patience(info):
            return AWAY
        return None

    def _topics_changed(self) -> bool:
        """Whether a topic was recreated, or has more partitions."""
        return any(
            (found.uid, found.partitions) != (info.uid, info.partitions)
            for topic, info in self._infos.items()
            for found in [self._log.describe(topic)]
        )

    def _step(self, reader: Reader) -> bool:
        """Steps 1 to 7, for what one poll returns. False if deletions may be missing in it: the sink must be
        opened again."""
        reach("sink.1")
        now = self._clock.now()
        fetched = reader.poll(POLL_SECONDS)
        batches: dict[TopicPartition, list[pa.RecordBatch]] = {}
        after: dict[TopicPartition, int] = {}
        for part in fetched:
            batches.setdefault(part.partition, []).append(part.batch)
            after[part.partition] = part.next
        if any(now - self._positions[one].current_at > _patience(self._infos[one.topic]) for one in after):
            return False
        while batches:
            pieces = {one: _taken(parts, self._batch) for one, parts in batches.items()}
            rest = {one: left for one, (_, left) in pieces.items() if left}
            made = []
            for partition, (batch, left) in sorted(pieces.items()):
                at = self._positions[partition]
                until = int(batch.column(0)[-1].as_py()) + 1 if left else after[partition]
                current = now if not left and reader.at_end(partition) else None
                made.append(_Batch(at, advanced(at, until, current), _newest(batch), batch.num_rows))
            self._apply(made)
            batches = rest
        self._renew(reader, now, set(after))
        return True

    def _renew(self, reader: Reader, now: int, moved: set[TopicPartition]) -> None:
        """Note that quiet partitions are current, now and then; and end reads of empty ones."""
        quiet = []
        for partition, at in self._positions.items():
            if partition in moved or not reader.at_end(partition):
                continue
            every = min(RENEW_MS, _patience(self._infos[partition.topic]) // 4)
            if now - at.current_at >= every or sweeps(at) is not None:
                quiet.append(_Batch(at, advanced(at, at.next_offset, now), {}, 0))
        if quiet:
            self._apply(quiet)

    def _apply(self, batches: list[_Batch]) -> None:
        """Steps 2 to 7."""
        counts = SinkCounts()
        reach("sink.2")
        with self._database.transaction() as connection:
            reach("sink.3")
            for one in batches:
                self._targets[one.position.topic].positions.set(connection, one.position, one.after)
            for one in batches:
                reach("sink.4")
                target = self._targets[one.position.topic]
                put, deleted = target.write(connection, one.position, one.rows, self._skipped)
                counts.records += one.records
                counts.written += put
                counts.deleted += deleted
            reach("sink.5")
            for one in batches:
                ended = one.position.sweep_at is not None and one.after.sweep_at is None
                if ended:
                    target = self._targets[one.position.topic]
                    counts.swept += target.sweep(connection, one.position.partition, one.position.read)
            reach("sink.6")
        reach("sink.7")
        for one in batches:
            partition = TopicPartition(one.position.topic, one.position.partition)
            left = self.behind.get(partition, 0) - (one.after.next_offset - one.position.next_offset)
            self._positions[partition], self.behind[partition] = one.after, max(0, left)
        for name in ("records", "written", "deleted", "swept"):
            setattr(self.counts, name, getattr(self.counts, name) + getattr(counts, name))

    def _skip(self, error: SerdeError) -> None:
        self.counts.skipped += 1
        self._noticed(error)


FIRST = "it was not read before"
RECREATED = "the topic was recreated"
AHEAD = "the topic ends before the position"
CUT = "records at the position were deleted"
AWAY = "deletions may be gone from the topic since it was last current"


def _comparable(known: SinkPosition | None, why: str | None) -> bool:
    """Whether the offsets of all rows are offsets of the topic as it is now."""
    return known is not None and why in (CUT, AWAY) and (known.sweep_at is None or known.keeps_newer)


def _patience(info: TopicInfo) -> int:
    """Return how many milliseconds a partition may be behind: half of the time that deletions are kept."""
    return info.setting("delete.retention.ms") // 2


def _newest(batch: pa.RecordBatch) -> dict[bytes, tuple[bytes | None, int]]:
    """Fold records to the newest value of each key. Those without a key are no rows."""
    columns: list[Any] = [batch.column(number).to_pylist() for number in (0, 2, 3)]
    return {key: (value, offset) for offset, key, value in zip(*columns, strict=True) if key is not None}


def _taken(parts: list[pa.RecordBatch], most: int) -> tuple[pa.RecordBatch, list[pa.RecordBatch]]:
    """Return the first records, and what is left."""
    first = pa.concat_batches(parts) if len(parts) > 1 else parts[0]
    return first.slice(0, most), [first.slice(most)] if first.num_rows > most else []
