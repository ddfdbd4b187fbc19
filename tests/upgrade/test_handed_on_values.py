"""A replay hands on the bytes of values that a `group_by` leaves as they are, and decodes them behind the
internal topic only where a step uses them. Its rows are those of record by record, where each is written."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from tests.upgrade.versions import PARTITIONS, START, fresh_rows, rows_of_side

from tidegate import App, TableTopic, Topic
from tidegate.clock import ManualClock
from tidegate.log import names
from tidegate.log.partitioner import partition_for
from tidegate.log.reads import read_between
from tidegate.log.records import Row, to_batch
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.topic import TopicSpec
from tidegate.runtime.output.blocks import parts
from tidegate.runtime.replay import Cut
from tidegate.state.manager import Limits
from tidegate.types import TopicPartition
from tidegate.upgrade.compared_rows import Compared
from tidegate.upgrade.cut import by_topic
from tidegate.upgrade.recalculate import Recalculation
from tidegate.upgrade.recalculation import prepare_recalculation
from tidegate.upgrade.runners import InProcess


class Order(msgspec.Struct, frozen=True):
    name: str
    cents: int = 0


ORDERS, OUT, LATEST = Topic("in", Order), TableTopic("out", int), TableTopic("latest", Order)


def counted(app: App) -> None:
    app.stream(ORDERS).filter(lambda order: order.cents > 1).group_by("by", lambda o: o.name).count("c").to(
        OUT
    )


def summed(app: App) -> None:
    by_name = app.stream(ORDERS).filter(lambda order: order.cents > 1).group_by("by", lambda o: o.name)
    by_name.filter(lambda order: order.cents > 2).sum("s", lambda order: order.cents).to(OUT)


def written_as_read(app: App) -> None:
    app.stream(ORDERS).group_by("by", lambda order: order.name).to(LATEST)


def upper(order: Order) -> Order:
    return Order(order.name.upper(), order.cents)


def mapped(app: App) -> None:
    app.stream(ORDERS).map(upper).group_by("by", lambda order: order.name).count("c").to(OUT)


def source_value(number: int) -> bytes:
    """What another program wrote: spaces, a field that is not known, and a default that is left out."""
    cents = "" if number % 5 == 0 else f', "cents" : {number % 7}'
    return f'{{ "name":"n{number % 11}", "more": [{number}]{cents} }}'.encode()


@pytest.mark.parametrize(
    ("steps", "handed_on"), [(counted, True), (summed, True), (written_as_read, True), (mapped, False)]
)
def test_a_replay_hands_on_bytes_and_comes_to_the_same_rows(
    steps: Callable[[App], None], handed_on: bool, tmp_path: Path
) -> None:
    app, clock = App("shop"), ManualClock(START + 1_000_000)
    steps(app)
    with closing(SqliteLog(clock=clock)) as log:
        log.create(TopicSpec("in", PARTITIONS, {}))
        for number in range(300):
            key = b"k%d" % number
            at = TopicPartition("in", partition_for(key, PARTITIONS))
            log.append(at, to_batch([Row(key, source_value(number), START + number)]))
        run = prepare_recalculation(
            app.build(), names.preview("shop"), log, clock, live=None, partitions=PARTITIONS, batches=True
        )
        sources = [TopicPartition("in", number) for number in range(PARTITIONS)]
        cut = Cut(by_topic(log.ends(sources)), clock.now())
        Recalculation(run, InProcess(tmp_path, limits=Limits(sync=False))).run(cut)
        staged = {
            topic: rows_of_side(log, Compared(topic, None, info, b""))
            for topic, info in run.context.staging.items()
        }
        assert staged == fresh_rows(app, log, cut, None)
        assert any(staged.values())
        [internal] = run.manifest.internal.values()
        between = [
            value
            for at, end in log.ends(
                [TopicPartition(internal, number) for number in range(PARTITIONS)]
            ).items()
            for batch in read_between(log, at, 0, end)
            for part in parts(at, batch)
            for value in part.records.column(2).to_pylist()
            if value is not None
        ]
        assert between
        assert (set(between) <= {source_value(number) for number in range(300)}) is handed_on
