"""The real log beside the oracle: every act is done to both, and they must agree on how it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from tests.log.anatomy import Stored, check_batches, check_cut, check_tiles, stored
from tests.log.oracle import Oracle, OraclePartition, OracleTopic, OracleWriter, fold_rows

from tidegate.clock import ManualClock
from tidegate.errors import LogError
from tidegate.log import faultpoints
from tidegate.log.reads import fold
from tidegate.log.records import ReadRow, Row, rows_of, to_batch
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.sqlite.reader import SqliteReader
from tidegate.log.sqlite.writer import SqliteWriter
from tidegate.log.topic import TopicSpec
from tidegate.types import Offset, TopicPartition


class Crash(BaseException):
    """Stands for a crash: nothing in the product catches it."""


def crash() -> None:
    raise Crash


@contextmanager
def at_step(step: str, nth: int, act: Callable[[], None]) -> Iterator[None]:
    """Do something when a fault point is reached for the nth time."""
    left = nth

    def hook(point: str) -> None:
        nonlocal left
        left -= point == step
        if left == 0 and point == step:
            act()

    with faultpoints.installed(hook):
        yield


def outcome(call: Callable[[], object]) -> str | None:
    """The code of the error that a call raised, `crash` for a crash; None if it returned."""
    try:
        call()
    except LogError as error:
        return error.code
    except Crash:
        return "crash"
    return None


@dataclass
class OpenWriter:
    """A writer and what the oracle knows of it."""

    real: SqliteWriter
    known: OracleWriter
    handle: int


@dataclass
class OpenReader:
    """A reader, the topics it was opened on, and where it must stand."""

    real: SqliteReader
    uids: dict[str, str]
    stands: dict[TopicPartition, int]
    handle: int


class Pair:
    """Some handles of one log, as if each were a process, and the oracle."""

    def __init__(self, opened: Callable[[], SqliteLog], handles: int, clock: ManualClock) -> None:
        self._opened = opened
        self.clock = clock
        self.oracle = Oracle()
        self.logs = [opened() for _ in range(handles)]
        self.writers: list[OpenWriter] = []
        self.readers: list[OpenReader] = []
        self._uids: set[str] = set()
        # (handle, topic): deleted through another handle, so a transaction may still aim at the old one.
        self._stale: set[tuple[int, str]] = set()

    def close(self) -> None:
        for reader in self.readers:
            reader.real.close()
        for log in self.logs:
            log.close()

    def reopen(self, handle: int) -> None:
        """A process goes away with all that it had open, and another one comes."""
        for gone in [one for one in self.readers if one.handle == handle]:
            self.close_reader(gone)
        self.writers = [one for one in self.writers if one.handle != handle]
        self._stale = {one for one in self._stale if one[0] != handle}
        self.logs[handle].close()
        old, self.logs[handle] = self.logs[handle].id, self._opened()
        assert self.logs[handle].id == old

    # Topics.

    def create(self, handle: int, spec: TopicSpec) -> None:
        known = self.oracle.topics.get(spec.name)
        if known is None:
            info = self.logs[handle].create(spec)
            assert info.uid not in self._uids
            self._uids.add(info.uid)
            partitions = [OraclePartition() for _ in range(spec.partitions)]
            self.oracle.topics[spec.name] = OracleTopic(info.uid, partitions)
        elif len(known.partitions) == spec.partitions:
            assert self.logs[handle].create(spec).uid == known.uid
        else:
            assert outcome(lambda: self.logs[handle].create(spec)) == "partition-count"

    def delete(self, handle: int, name: str) -> None:
        self.logs[handle].delete(name)
        del self.oracle.topics[name]
        self._stale |= {(other, name) for other in range(len(self.logs)) if other != handle}

    def purge(self, handle: int, target: TopicPartition, share: float) -> None:
        before = self.oracle.partition(target).at(share)
        self.logs[handle].purge(target, Offset(before))
        self.oracle.partition(target).cut(before)

    # Writers.

    def open_writer(self, handle: int, writer_id: str) -> OpenWriter:
        opened = OpenWriter(self.logs[handle].writer(writer_id), self.oracle.writer(writer_id), handle)
        self.writers = [*self.writers[-5:], opened]
        return opened

    def append_plainly(self, handle: int, target: TopicPartition, rows: list[Row]) -> None:
        reported = self.logs[handle].append(target, to_batch(rows))
        assert reported == self.oracle.partition(target).append(rows)

    def append(self, writer: OpenWriter, target: TopicPartition, rows: list[Row]) -> None:
        known = writer.known
        code = outcome(lambda: writer.real.append(target, to_batch(rows)))
        if known.spent:
            assert code == "writer-spent"
        elif code is None:
            self.oracle.append(known, target, rows)
        else:
            assert code == "crash" or (code == "fenced" and self.oracle.is_fenced(known)), code
            known.spent = True

    def append_refused(self, writer: OpenWriter, target: TopicPartition, row: Row, code: str) -> None:
        found = outcome(lambda: writer.real.append(target, to_batch([row])))
        assert found == ("writer-spent" if writer.known.spent else code)

    def flush(self, writer: OpenWriter, targets: set[TopicPartition]) -> None:
        expected = self.oracle.flush_refusal(writer.known, targets)
        reported: dict[TopicPartition, Offset] = {}
        code = outcome(lambda: reported.update(writer.real.flush(targets)))
        if code != expected:
            assert self._aimed_at_the_old(writer, code, targets), (code, expected)
            self.abort(writer)
        elif code is None:
            assert reported == self.oracle.flush(writer.known, targets)

    def commit(self, writer: OpenWriter, crashing: int = 0) -> None:
        """Commit; `crashing` is the step at which a crash may come in: all of it shows from step 8 on."""
        known = writer.known
        first: dict[TopicPartition, Offset] = {}
        code = outcome(lambda: first.update(writer.real.commit()))
        expected = self.oracle.refusal(known)
        if code is None or (code == "crash" and crashing == 8):
            assert expected is None, expected
            begins = {target: self.oracle.partition(target).next for target, rows in known.appended if rows}
            assert first == ({} if code == "crash" else begins)
            self.oracle.commit(known)
        elif code != "crash":
            excused = self._aimed_at_the_old(writer, code, known.aims)
            assert code == expected or excused, (code, expected)
        known.spent = code is not None

    def abort(self, writer: OpenWriter) -> None:
        assert outcome(writer.real.abort) == ("writer-spent" if writer.known.spent else None)
        writer.known.forget()

    def _aimed_at_the_old(
        self, writer: OpenWriter, code: str | None, targets: Iterable[TopicPartition]
    ) -> bool:
        """Whether a topic was recreated behind this handle's back. One transaction may fail so, and then the
        handle knows."""
        if code != "no-such-topic":
            return False
        excused = self._stale & {(writer.handle, target.topic) for target in targets}
        self._stale -= excused
        return bool(excused)

    # Upkeep, always through the first handle: whoever has its lock keeps it.

    def upkeep(self) -> None:
        before = stored(self.logs[0])
        self.logs[0].upkeep()
        self._judge(before)

    def compact(self, name: str) -> None:
        before = stored(self.logs[0])
        self.logs[0].compact(name)
        self._judge({one: was for one, was in before.items() if one.topic == name})
        if self.logs[0].describe(name).compacts:
            rows = [now.row for one, now in stored(self.logs[0]).items() if one.topic == name]
            assert all(row.clean == row.next for row in rows)

    def compact_in_trouble(self, name: str) -> None:
        """Compact a topic of policy `compact` while something may come in between."""
        assert outcome(lambda: self.logs[0].compact(name)) in {None, "crash"}
        for one, now in stored(self.logs[0]).items():
            if one.topic == name:
                self._judge_table(one, now, finished=False)

    def _judge(self, before: dict[TopicPartition, Stored]) -> None:
        after = stored(self.logs[0])
        for one, was in before.items():
            now, info = after[one], self.logs[0].describe(one.topic)
            age, size = info.setting("retention.ms"), info.setting("retention.bytes")
            check_cut(was, now.row.start, now=self.clock.now(), age=age, size=size)
            self.oracle.partition(one).cut(now.row.start)
            if info.compacts:
                self._judge_table(one, now, finished=True)

    def _judge_table(self, partition: TopicPartition, now: Stored, *, finished: bool) -> None:
        self.oracle.partition(partition).observed_compaction(
            self._read({partition: now.row.start}, 0)[partition],
            now=self.clock.now(),
            retention=self.logs[0].describe(partition.topic).setting("delete.retention.ms"),
            clean=now.row.clean,
            finished=finished,
        )

    # Readers.

    def open_reader(self, handle: int, targets: set[TopicPartition], share: float) -> None:
        stands = {one: self.oracle.partition(one).at(share) for one in targets}
        real = self.logs[handle].reader({one: Offset(offset) for one, offset in stands.items()})
        uids = {one.topic: self.oracle.topics[one.topic].uid for one in targets}
        self.readers.append(OpenReader(real, uids, stands, handle))

    def close_reader(self, reader: OpenReader) -> None:
        self.readers.remove(reader)
        reader.real.close()

    def poll(self, reader: OpenReader) -> None:
        """A reader goes on to the end: each record once, in order, or it gets an error."""
        uids = {name: self.oracle.topics[name].uid for name in reader.uids if name in self.oracle.topics}
        if uids != reader.uids:
            self._must_refuse(reader, {"no-such-topic", "offset-out-of-range"})
            self.close_reader(reader)
            return
        known = {one: self.oracle.partition(one) for one in reader.stands}
        cut = {one: known[one].start for one, offset in reader.stands.items() if offset < known[one].start}
        if cut:
            self._must_refuse(reader, {"offset-out-of-range"})
        for target, start in cut.items():
            reader.real.seek(target, Offset(start))
        reader.stands |= cut
        while fetched := reader.real.poll(0):
            for one in fetched:
                stood = reader.stands[one.partition]
                assert list(rows_of(one.batch)) == known[one.partition].rows(stood, one.next)
                assert stood < one.next == reader.real.position(one.partition)
                reader.stands[one.partition] = one.next
        assert reader.stands == {one: partition.next for one, partition in known.items()}
        assert all(reader.real.at_end(one) for one in reader.stands)

    def _must_refuse(self, reader: OpenReader, codes: set[str]) -> None:
        for _ in range(2):
            assert outcome(lambda: reader.real.poll(0)) in codes

    def ask(self, handle: int, target: TopicPartition, share: float, timestamp: int) -> None:
        """Fold at the end and on the way, and the offset at a time."""
        log, known = self.logs[handle], self.oracle.partition(target)
        assert fold(log, target) == known.fold()
        assert fold(log, target, known.at(share)) == fold_rows(known.rows(0, known.at(share)))
        assert log.offset_at(target, timestamp) == known.offset_at(timestamp)

    # What holds at any time.

    def check_contents(self, handle: int) -> None:
        """The log reports and returns what the oracle has: I1, I2, I3, I5, I8."""
        log, partitions = self.logs[handle], self.oracle.partitions()
        known = {one: self.oracle.partition(one) for one in partitions}
        assert log.names() == sorted(self.oracle.topics)
        ends = {one: partition.next for one, partition in known.items()}
        assert log.ends(partitions) == log.ends(partitions, committed=False) == ends
        for name, topic in self.oracle.topics.items():
            info = log.describe(name)
            assert (info.uid, info.starts) == (topic.uid, tuple(one.start for one in topic.partitions))
        starts = {one: partition.start for one, partition in known.items()}
        assert self._read(starts, handle) == {one: partition.rows() for one, partition in known.items()}

    def check_tables(self) -> int:
        """The tables are whole. How many batches are pending."""
        for partition, one in stored(self.logs[0]).items():
            check_tiles(partition, one)
        return check_batches(self.logs[0])

    def _read(self, starts: dict[TopicPartition, int], handle: int) -> dict[TopicPartition, list[ReadRow]]:
        """All rows from the starts on, through a fresh reader."""
        found: dict[TopicPartition, list[ReadRow]] = {partition: [] for partition in starts}
        positions = {partition: Offset(start) for partition, start in starts.items()}
        with closing(self.logs[handle].reader(positions)) as fresh:
            while fetched := fresh.poll(0):
                for one in fetched:
                    found[one.partition] += rows_of(one.batch)
        return found
