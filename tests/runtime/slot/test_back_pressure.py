"""A slot holds a bounded number of records, however much lies before it and however uneven."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tidegate import App, Topic
from tidegate.clock import ManualClock
from tidegate.log.protocol import Fetched
from tidegate.log.records import Row, to_batch
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.sqlite.reader import SqliteReader
from tidegate.runtime.driver.prepare import prepare
from tidegate.runtime.slot.pace import LIVE
from tidegate.runtime.slot.slot import RECORDS_PER_STEP
from tidegate.types import Offset, TopicPartition

OLD, NEW, OUT = Topic("old", str), Topic("new", str), Topic("out", str)
COUNT = 120_000
ONE_POLL = 50_000


def test_a_topic_that_must_wait_for_another_one_is_not_read_ahead_without_end(tmp_path: Path) -> None:
    """All of one topic is older than all of the other: it is taken first, and the other waits."""
    app, clock = App("app"), ManualClock()
    app.stream(OLD).merge(app.stream(NEW)).filter(lambda _: False).to(OUT)
    with closing(SqliteLog(tmp_path / "log.db", clock=clock)) as log:
        run = prepare(app.build(), log, clock, partitions=1)
        for topic, at in ((OLD, 1_000), (NEW, 2_000)):
            rows = [Row(b"k", b"v" * 200, at)] * 10_000
            for _ in range(COUNT // len(rows)):
                log.append(TopicPartition(topic.name, 0), to_batch(rows))
        [slot] = run.slots(tmp_path / "state", 1)
        most = 0
        while slot.processed < COUNT - RECORDS_PER_STEP:
            slot.step()
            most = max(most, sum(task.merge.buffered for task in slot.tasks))
        assert slot.tasks[0].read_from()[TopicPartition("new", 0)] == 0, "nothing newer was taken yet"
        assert most < LIVE.buffered_records + ONE_POLL
        while slot.step():
            slot.commit()
        assert slot.processed == 2 * COUNT
        slot.close()


class UnevenReader(SqliteReader):
    """Brings partitions one after the other, the last one first, as a reader on Kafka may. Notes what the
    slot pauses."""

    paused: frozenset[TopicPartition] = frozenset()
    notes: list[frozenset[TopicPartition]]

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        self.paused = frozenset(partitions)
        self.notes.append(self.paused)

    def poll(self, timeout: float) -> list[Fetched]:
        open_ones = sorted(one for one in self._positions if one not in self.paused and not self.at_end(one))
        super().pause(set(self._positions) - set(open_ones[-1:]))
        return super().poll(timeout)


class UnevenLog(SqliteLog):
    def __init__(self, path: Path, clock: ManualClock) -> None:
        super().__init__(path, clock=clock)
        self.paused: list[frozenset[TopicPartition]] = []

    def reader(self, positions: Mapping[TopicPartition, Offset], *, brief: bool = False) -> SqliteReader:
        if brief:
            return super().reader(positions, brief=brief)
        reader = UnevenReader(self._database, self._catalog, positions)
        reader.notes = self.paused
        return reader


def copied(app: App) -> None:
    app.stream(OLD).filter(lambda _: False).to(OUT)


def merged(app: App) -> None:
    app.stream(OLD).merge(app.stream(NEW)).filter(lambda _: False).to(OUT)


@pytest.mark.parametrize(("declare", "pauses"), [(copied, False), (merged, True)])
def test_a_replay_pauses_no_partition_of_a_task_that_can_go_on(
    declare: Any, pauses: bool, tmp_path: Path
) -> None:
    """Two tasks of one topic: one has nothing until all of the other is read. One task of two topics must
    read both, and pauses the one that it has enough of."""
    app, clock, pages = App("app"), ManualClock(), 20
    declare(app)
    with closing(UnevenLog(tmp_path / "log.db", clock)) as log:
        run = prepare(app.build(), log, clock, partitions=2)
        sources = [TopicPartition(name, number) for name in run.manifest.sources for number in range(2)]
        for source in sources:
            for _ in range(pages):
                log.append(source, to_batch([Row(b"k", b"v" * 1_000, 1_000)] * 1_000))
        [slot] = run.slots(tmp_path / "state", 1, pinned=log.ends(sources))
        slot.pace = slot.pace._replace(buffered_records=3_000)
        most, total = 0, len(sources) * pages * 1_000
        for _ in range(10 * pages * len(sources)):
            slot.step()
            most = max(most, sum(task.merge.buffered for task in slot.tasks))
        assert slot.processed == total
        assert most < 3_000 + len(sources) * 5_000
        assert bool(set(log.paused) - {frozenset()}) == pauses
        slot.close()
