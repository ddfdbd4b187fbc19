"""A slot holds a bounded number of records, however much lies before it and however uneven."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from tidegate import App, Topic
from tidegate.clock import ManualClock
from tidegate.log.records import Row, to_batch
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.driver.prepare import prepare
from tidegate.runtime.slot.pace import LIVE
from tidegate.runtime.slot.slot import RECORDS_PER_STEP
from tidegate.types import TopicPartition

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
