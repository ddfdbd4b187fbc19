"""The order in which a strict task takes what several tasks wrote: by the stream time at each origin."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from random import Random

import pytest
from tests.gate.app import EVENTS, gated
from tests.runtime.stories import START
from tests.runtime.task.test_strict import IN, TEXTS, inputs_of, open_task, started, work

from tidegate import App, Context, Record, stores
from tidegate.clock import ManualClock
from tidegate.connect.connection import Connection
from tidegate.log.partitioner import partition_for
from tidegate.log.positions import read_positions
from tidegate.log.reads import read_between
from tidegate.log.records import rows_of
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.driver.prepare import prepare
from tidegate.runtime.driver.run import Run
from tidegate.runtime.output.origin import origin_of
from tidegate.runtime.output.time_only import is_time_only
from tidegate.testing import Driver
from tidegate.types import TopicPartition

TAKEN = stores.key_value("taken", str)
SENT = {
    0: [(100, 1), (300, 2), (200, 3), (500, 4)],
    1: [(200, 11), (400, 12), (100, 13), (600, 14)],
}
"""(time, value) by source partition. Both have one late record, which comes at the stream time before it."""
TIMES = {1: 100, 2: 300, 3: 300, 4: 500, 11: 200, 12: 400, 13: 400, 14: 600}


def app() -> App:
    """All values meet behind an internal topic, in the order in which they are taken."""

    def take(record: Record[str, int], ctx: Context[str, str]) -> None:
        taken = f"{ctx.store(TAKEN).get('all') or ''} {record.value}"
        ctx.store(TAKEN).put("all", taken)
        ctx.forward(Record("all", taken, record.timestamp))

    app = App("strict")
    app.stream(IN).group_by("together", lambda _: "all").process("take", take, stores=[TAKEN]).to(TEXTS)
    return app


def send(connection: Connection, order: Iterable[int]) -> None:
    """The records of both partitions; the log has those of the partition that is named first, first."""
    keys = {partition_for(name.encode(), 2): name for name in "abcdefgh"}
    for partition in order:
        for at, value in SENT[partition]:
            connection.send(IN, keys[partition], value, timestamp=START + at)


def run_in_turn(run: Run, log: SqliteLog, folder: Path) -> None:
    """The subtopologies one after the other, up to what is there."""
    for slot in run.slots(folder / "first", 1):
        slot.drop()  # the first positions are written
    for sub in run.context.topology.subtopologies():
        ids = [task for part, task in run.tasks() if part is sub]
        ends = {
            tp: int(end) for one in ids for tp, end in log.ends(inputs_of(run, sub, one.partition)).items()
        }
        positions = read_positions(log, "strict")
        tasks = [started(open_task(run, sub, one, folder, ends), log, positions[one]) for one in ids]
        assert work(run, log, tasks, ends, Random(1))
        for task in tasks:
            task.close()


@pytest.mark.parametrize("batches", [True, False])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_records_of_several_tasks_are_taken_by_stream_time(
    tmp_path: Path, order: tuple[int, int], batches: bool
) -> None:
    clock = ManualClock(START)
    with closing(SqliteLog(clock=clock)) as log:
        send(Connection(log, partitions=2, clock=clock), order)
        run = prepare(app().build(), log, clock, partitions=2, batches=batches)
        run_in_turn(run, log, tmp_path)
        [last] = [one[-1] for number in range(2) if (one := texts(log, TopicPartition("texts", number)))]
        assert last.split() == ["1", "11", "2", "3", "12", "13", "4", "14"]
        assert origin_times(log) == {value: START + time for value, time in TIMES.items()}


def texts(log: SqliteLog, partition: TopicPartition) -> list[str]:
    end = int(log.ends([partition])[partition])
    return [
        (row.value or b"").decode() for one in read_between(log, partition, 0, end) for row in rows_of(one)
    ]


def origin_times(log: SqliteLog) -> dict[int, int]:
    """The stream time that each value carries across the internal topic."""
    found = {}
    for number in range(2):
        partition = TopicPartition("strict-together-repartition", number)
        end = int(log.ends([partition])[partition])
        for row in (row for one in read_between(log, partition, 0, end) for row in rows_of(one)):
            origin = origin_of(row.headers)
            if not is_time_only(row.headers) and origin is not None:
                found[IN.value_serde.decode(row.value or b"")] = origin.time
    return found


def test_a_held_event_keeps_the_stream_time_at_which_it_came() -> None:
    """Else a replay would take it behind what came while it was held."""
    with Driver(gated(), partitions=1) as driver:
        driver.gate("door").pause("ada")
        driver.send(EVENTS, "ada", 1, timestamp=START + 100)
        driver.send(EVENTS, "bob", 2, timestamp=START + 500)
        driver.run()
        driver.gate("door").resume("ada")
        driver.run()
        admitted = TopicPartition("gated-door-admitted", 0)
        end = int(driver.log.ends([admitted])[admitted])
        rows = [row for one in read_between(driver.log, admitted, 0, end) for row in rows_of(one)]
        times = {row.key: origin.time for row in rows if row.key and (origin := origin_of(row.headers))}
        assert times == {b"ada": START + 100, b"bob": START + 500}
