"""A slot: several stream tasks, one reader and one transactional writer, in a loop.

`step` does a bounded amount of work: restore, read, process, fire timers. `commit` commits all tasks in one
transaction. After any error the slot is unusable: every task is dropped, and a new slot continues from the
positions.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress

from tidegate.clock import Clock
from tidegate.errors import LogError, TidegateError
from tidegate.log.positions import Position, TaskId
from tidegate.log.protocol import Log, Reader, Writer
from tidegate.runtime.slot.commit import commit
from tidegate.runtime.slot.draining import Draining
from tidegate.runtime.slot.hand_over import hand_over, handed_over
from tidegate.runtime.slot.pace import LIVE, REPLAY, SLOW_SECONDS, next_shares
from tidegate.runtime.slot.refused_records import Refusals, ReopenSlot
from tidegate.runtime.task.task import StreamTask
from tidegate.state.protocol import RestoreListener
from tidegate.state.restore import Restore
from tidegate.types import Offset, TopicPartition

RECORDS_PER_STEP = 1000
COMMAND_SECONDS, POLL_SECONDS = 0.1, 0.005


class Slot:
    """Runs stream tasks."""

    def __init__(
        self,
        app: str,
        log: Log,
        writer: Writer,
        tasks: Sequence[StreamTask],
        positions: dict[TaskId, Position],
        clock: Clock,
        listener: RestoreListener | None = None,
        *,
        read_at: int | None = None,
        refusals: Refusals | None = None,
    ) -> None:
        """`read_at` is a wall time from before the positions were read. With `refusals`, a commit that the
        log refuses because of a record raises ReopenSlot, as long as a retry helps."""
        self._app = app
        self._log = log
        self._writer = writer
        self._clock = clock
        self._positions = positions
        self._reader: Reader | None = None
        self._restoring = {
            task.id: (task, Restore(task.state, log, positions[task.id], listener, read_at=read_at))
            for task in tasks
        }
        self._running: dict[TaskId, StreamTask] = {}
        self._owners: dict[TopicPartition, StreamTask] = {}
        self._handed_over: set[TopicPartition] = set()
        """The partitions whose records go from task to task in memory, where that is possible."""
        self._paused: set[TopicPartition] = set()
        self._draining = Draining()
        self._opened = False
        self._idle = False
        """Whether the last step did nothing: what is buffered waits for records of another partition."""
        self._refusals = refusals
        self.processed = 0
        """Records of all topics, time-only records and timers."""
        self.records_per_step = RECORDS_PER_STEP
        self.pace = REPLAY if tasks and all(task.strict for task in tasks) else LIVE
        self._shares = 1

    @property
    def tasks(self) -> list[StreamTask]:
        return list(self._running.values())

    @property
    def records(self) -> int:
        """Records that its tasks processed from the app's source topics."""
        return sum(task.records for task in self._running.values())

    @property
    def restoring(self) -> int:
        """The number of tasks that are not restored yet."""
        return len(self._restoring)

    def step(self, wait: float = 0.0, until: float | None = None) -> bool:
        """Do a bounded amount of work. Returns whether there was any.

        If there is nothing to do it waits for records, up to `wait` seconds. At `until` (of `time.monotonic`)
        it returns even if not every task had its share; the next step begins with those.
        """
        self._draining.begin_step()
        try:
            restored = self._restore()
            buffered = any(task.merge.buffered for task in self._running.values())
            busy = self._restoring or (buffered and not self._idle)
            fetched = self._read(0.0 if busy else wait)
            processed = self._process(until)
            if self._limit is not None:
                self.commit()
            for task in self._running.values():
                task.fire()
            if self._limit is not None:
                self.commit()
            self._draining.stepped(self.tasks, restoring=bool(self._restoring))
            if sum(task.pending_bytes() for task in self._running.values()) > self.pace.commit_bytes:
                self.commit()
        except BaseException:
            self.drop()
            raise
        self.processed += processed
        self._idle = not (restored or fetched or processed)
        return not self._idle

    def finishing(self) -> bool:
        """Return whether all tasks are strict and have taken everything, and the last commit is due."""
        tasks = self._running.values()
        return (
            not self._restoring
            and all(task.finished() for task in tasks)
            and any(task.moved() for task in tasks)
        )

    def drain(self, timers_until: int | None) -> None:
        """Take no more records from sources, and continue with internal topics and commands of gates. Held
        events stay held, and so do wall-clock timers that are due after a time in ms. None ends that."""
        self._draining.set(self.tasks, timers_until)

    @property
    def rests(self) -> bool:
        """Whether, as of the last commit, everything was processed that was fetched from sources before
        `drain`, and all timers that were due: only records of internal topics are processed from here on."""
        return self._draining.rests

    def lag(self) -> int:
        """Return how many records are committed and not yet processed."""
        next_ones = {
            partition: offset
            for task in self._running.values()
            for partition, offset in task.read_from().items()
        }
        ends = self._log.ends(next_ones) if next_ones else {}
        return sum(max(0, ends[partition] - offset) for partition, offset in next_ones.items())

    def committed(self) -> dict[TopicPartition, Offset]:
        """Return the committed positions of the tasks in their sources."""
        return {
            TopicPartition(topic, number): Offset(offset)
            for task in self._running.values()
            if task.state.position is not None
            for topic, offsets in task.state.position.sources.items()
            for number, offset in offsets.items()
        }

    def drained(self) -> bool:
        """Return whether every task runs and has processed everything that is committed now. An empty poll
        does not show that: a log may deliver records some time after they were requested."""
        if self._restoring or any(
            task.merge.buffered or task.gates.busy() for task in self._running.values()
        ):
            return False
        ends = self._log.ends(self._owners) if self._owners else {}
        return all(
            task.merge.read_to(partition) >= ends[partition] for partition, task in self._owners.items()
        )

    def commit(self) -> None:
        """Commit all tasks in one transaction."""
        try:
            written = commit(self._app, self._log, self._writer, self.tasks, self._clock, self._handed_over)
            if self._reader is not None and hand_over(
                written, self._reader, self._owners, self.pace.commit_bytes
            ):
                self._idle = False
        except LogError as error:
            again = self._refusals is not None and self._refusals.add(error, self.tasks)
            self.drop()
            if again:
                raise ReopenSlot(error) from error
            raise
        except BaseException:
            self.drop()
            raise
        self._draining.committed()
        if self._refusals is not None and self._refusals.limit is not None:
            self._refusals.passed(self.committed())

    def purgeable(self) -> dict[TopicPartition, Offset]:
        """Return the internal topics of the tasks with the offsets below which no one needs them: the
        committed positions of their only readers."""
        committed = self.committed()
        return {
            partition: committed[partition] for task in self._running.values() for partition in task.purged()
        }

    def close(self) -> None:
        """Commit, close the tasks in order, and release everything."""
        self.commit()
        for task in self._running.values():
            task.close()
        for _, restore in self._restoring.values():
            restore.suspend()
        self._release()

    def drop(self) -> None:
        """Release everything at once; nothing uncommitted survives."""
        for task in [*self._running.values(), *(task for task, _ in self._restoring.values())]:
            task.drop()
        self._release()

    def _restore(self) -> bool:
        if not self._opened:
            self._opened = True
            for _, restore in self._restoring.values():
                restore.open()
        ready = [task for task, restore in self._restoring.values() if restore.step()]
        for task in ready:
            task.start(
                self._positions[task.id]
            )  # if it fails it is still among those that restore, and is dropped with them
            del self._restoring[task.id]
            self._running[task.id] = task
            self._owners |= dict.fromkeys(task.partitions(), task)
            self._handed_over.update(handed_over(task))
        if ready:
            self._draining.started(ready)
            self._open_reader()
        return bool(ready)

    def _open_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
        starts = {
            partition: Offset(task.merge.read_to(partition))
            for task in self._running.values()
            for partition in task.partitions()
        }
        self._reader = self._log.reader(starts)
        self._paused = set()

    def _process(self, until: float | None) -> int:
        """Process a share of records for each task, the one that waited longest first."""
        done, longest, full = 0, 0.0, False
        share = self.records_per_step * self._shares
        for task in list(self._running.values()):
            began = time.monotonic()
            taken = task.run(share) if self._limit is None else task.run_limited(self._limit)
            done += taken
            self._running[task.id] = self._running.pop(task.id)
            now = time.monotonic()
            longest, full = max(longest, now - began), full or taken >= share
            if (until is not None and now >= until) or (done and self._limit is not None):
                break
        if full or longest > SLOW_SECONDS:  # a turn that took little does not show how long a share takes
            self._shares = next_shares(self._shares, longest, self.pace)
        return done

    @property
    def _limit(self) -> int | None:
        """The maximum number of records of a transaction."""
        return None if self._refusals is None else self._refusals.limit

    def _read(self, wait: float) -> int:
        if self._reader is None:
            if wait:
                time.sleep(wait)
            return 0
        fetched = self._feed(self._reader, wait) if self._pause() else 0
        more = fetched if self.pace.reads_ahead else 0
        while more and self._pause():
            more = self._feed(self._reader, 0.0)
        self._read_commands(self._reader)
        for task in self._running.values():
            task.merge.ended(
                partition
                for partition in task.partitions()
                if self._reader.at_end(partition) or partition in self._draining.sources
            )
        return fetched

    def _feed(self, reader: Reader, wait: float) -> int:
        fetched = reader.poll(wait)
        for batch in fetched:
            self._owners[batch.partition].feed(batch)
        for task in self._running.values():
            for partition in task.gates.commands():
                task.merge.advance_commands(partition, reader.position(partition))
        return len(fetched)

    def _read_commands(self, reader: Reader) -> None:
        """Read the commands of gates up to their committed ends, so that a pause that is committed now holds
        the next event. Each step that has events to pass requests these ends once and reads up to them, with
        other partitions paused. Commands that an open transaction hides are waited for in later steps."""
        gated = [
            task
            for task in self._running.values()
            if task.gates and (task.merge.buffered or task.gates.busy())
        ]
        if not gated:
            return
        commands = {partition for task in gated for partition in task.gates.commands()}
        ends = self._log.ends(commands)
        for task in gated:
            task.merge.await_commands(ends)
        if not any(task.merge.commands_behind() for task in gated):
            return
        reader.pause(set(self._owners) - commands)
        deadline = time.monotonic() + COMMAND_SECONDS
        while any(task.merge.commands_behind() for task in gated) and time.monotonic() < deadline:
            self._feed(reader, POLL_SECONDS)
        reader.pause(self._paused)

    def _pause(self) -> bool:
        """Pause partitions when enough is buffered: only those without a buffered record are read, since
        others may wait for them. Returns whether there is anything to read.

        In a replay a task that has nothing yet waits until others have taken what is buffered: a reader on
        Kafka drops what it has fetched ahead of partitions that are paused."""
        assert self._reader is not None  # noqa: S101 - the caller checked
        full: set[TopicPartition] = set()
        buffered = sum(task.merge.buffered for task in self._running.values())
        if buffered > self.pace.buffered_records or self._buffered_bytes() > self.pace.buffered_bytes:
            waiting = [task.merge for task in self._running.values() if task.merge.needs_records()]
            if not any(merge.buffered or not self.pace.reads_ahead for merge in waiting):
                return False
            full = {
                partition for partition, task in self._owners.items() if task.merge.buffered_in(partition)
            }
        full |= self._draining.sources
        if full != self._paused:
            self._paused = full
            self._reader.pause(full)
        return True

    def _buffered_bytes(self) -> int:
        return sum(task.merge.buffered_bytes for task in self._running.values())

    def _release(self) -> None:
        self._running = {}
        self._restoring = {}
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        with suppress(TidegateError):
            self._writer.close()
