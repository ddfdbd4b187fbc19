"""Apps in two versions, and what a fresh run of a version comes to."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.upgrade.stages import stages_without_spark

from tidegate import App, Context, Record, TableTopic, Topic, stores
from tidegate.clock import ManualClock
from tidegate.log import names
from tidegate.log.protocol import Log
from tidegate.log.reads import read_between
from tidegate.log.records import APPEND_SCHEMA
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.topic import TopicSpec
from tidegate.runtime.driver.run import Run
from tidegate.runtime.replay import Cut
from tidegate.runtime.slot.slot import Slot
from tidegate.runtime.topics.manifests import find_manifest
from tidegate.state.manager import Limits
from tidegate.topology.manifest import Manifest
from tidegate.types import Offset, TopicPartition
from tidegate.upgrade.compared_rows import Compared
from tidegate.upgrade.comparison import PartitionComparison
from tidegate.upgrade.cut import by_topic
from tidegate.upgrade.recalculate import Pins, Recalculation
from tidegate.upgrade.recalculation import prepare_recalculation
from tidegate.upgrade.runners import InProcess

START = 1_700_000_000_000
PARTITIONS = 2
IN, MORE = Topic("in", int), Topic("more", int)
NAMES, RATES = TableTopic("names", str), TableTopic("rates", int)
OUT, TEXTS = TableTopic("out", int), TableTopic("texts", str)
EVENTS = Topic("events", int)
CHAINS = stores.key_value("chains", str)


def changed(version: int) -> Callable[[int], int]:
    """Version 2 counts multiples of three twice, and version 3 drops those of five."""

    def weighted(value: int) -> int:
        if version == 3 and value % 5 == 0:
            return 0
        return 2 * value if version == 2 and value % 3 == 0 else value

    return weighted


def aggregated(version: int) -> App:
    app = App("shop")
    app.stream(IN).map(changed(version)).filter(bool).sum("sums", lambda value: value).to(OUT)
    return app


def grouped(version: int) -> App:
    app = App("shop")
    group = changed(version)
    counted = app.stream(IN).peek(never).group_by("by-value", lambda value: f"v{group(value) % 7}")
    counted.count("counts").to(OUT)
    app.stream(IN).to(EVENTS)
    return app


def never(value: int) -> None:
    """Called live only."""
    CALLS.append(value)


CALLS: list[int] = []


def chained(version: int) -> App:
    """Two internal topics in a row, the second one behind a table."""
    app = App("shop")
    counted = app.stream(IN).map(changed(version)).group_by("by-value", lambda value: f"v{value % 9}")
    by_count = counted.count("counts").group_by("by-count", lambda count: f"c{count % 4}")
    by_count.count("of-counts").to(OUT)
    return app


class Chain:
    """Depends on the order of all records of a key."""

    def process(self, record: Record[str, int], ctx: Context[str, str]) -> None:
        chain = f"{ctx.store(CHAINS).get(record.key) or ''}{record.value}."
        ctx.store(CHAINS).put(record.key, chain)
        ctx.forward(record.with_value(chain))


def ordered(version: int) -> App:
    """The order behind a repartition of two merged sources."""
    app = App("shop")
    merged = app.stream(IN).map(changed(version)).merge(app.stream(MORE))
    one = merged.group_by("by-digit", lambda value: f"d{value % 3}")
    one.process("chain", Chain, stores=[CHAINS]).to(TEXTS)
    return app


def tables_joined(version: int) -> App:
    app = App("shop")
    weight = changed(version)
    rates, labels = app.table(RATES, "rates-rows"), app.table(NAMES, "names-rows")
    rates.join(labels, lambda rate, label: f"{label}{weight(rate)}").to(TEXTS)
    return app


def enriched(version: int) -> App:
    """A stream-table join, where the times of the records decide."""
    app = App("shop")
    weight = changed(version)
    joined = app.stream(IN).join(app.table(RATES, "rates-rows"), lambda value, rate: weight(value) * rate)
    joined.sum("sums", lambda value: value).to(OUT)
    return app


def gated(version: int) -> App:
    app = App("shop")
    admitted = app.stream(IN).gate("gate")
    admitted.map(changed(version)).group_by("by-value", lambda value: f"v{value % 7}").count("counts").to(OUT)
    return app


def modelled(version: int) -> App:
    app = App("shop")
    weight = changed(version)

    @app.model("sums", source=IN, initial=dict)
    def sums(state: dict[str, int], value: int) -> dict[str, int]:
        return {**state, "sum": state.get("sum", 0) + weight(value)}

    return app


ALL = {
    one.__name__: one
    for one in (aggregated, grouped, chained, ordered, tables_joined, enriched, gated, modelled)
}
TOPICS: Mapping[str, Topic[Any, Any] | TableTopic[Any, Any]] = {
    topic.name: topic for topic in (IN, MORE, NAMES, RATES)
}


def copied(log: Log, cut: Cut) -> tuple[SqliteLog, Cut]:
    """The records below a cut in a log of their own, and the same cut there: a broker has gaps in its
    offsets."""
    copy = SqliteLog(clock=ManualClock(cut.wall))
    for topic in cut.ends:
        info = log.describe(topic)
        copy.create(TopicSpec(topic, info.partitions, {"cleanup.policy": info.policy}))
        for number in range(info.partitions):
            at = TopicPartition(topic, number)
            for batch in read_between(log, at, 0, cut.ends[topic][number]):
                copy.append(at, batch.select(APPEND_SCHEMA.names))
    return copy, Cut(by_topic(copy.ends(cut.offsets())), cut.wall)


Rows = dict[str, dict[bytes, bytes]]


class Otherwise(InProcess):
    """Takes tasks in another order, and commits after a few records of each."""

    def _opened(self, run: Run, pinned: Pins) -> list[Slot]:
        slots = super()._opened(run, pinned)[::-1]
        for number, slot in enumerate(slots):
            slot.records_per_step = 1 + 2 * number
        return slots


def fresh_rows(app: App, log: Log, cut: Cut, live: Manifest | None) -> Rows:
    """R(new, cut): the rows of each table topic when this version runs alone over the records below the cut,
    on a log of its own, on more slots, in another order, and record by record."""
    folder = Path(tempfile.mkdtemp(prefix="tidegate-fresh-"))
    try:
        copy, ends = copied(log, cut)
        with closing(copy):
            run = prepare_recalculation(
                app.build(),
                names.preview("fresh"),
                copy,
                ManualClock(cut.wall),
                live=live,
                partitions=PARTITIONS,
                batches=False,
            )
            runner = Otherwise(
                folder, 3, Limits(sync=False), commit_seconds=0, open_stages=stages_without_spark
            )
            Recalculation(run, runner).run(ends)
            compared = {
                topic: Compared(topic, None, info, b"") for topic, info in run.context.staging.items()
            }
            compared |= {
                name: Compared(name, None, copy.describe(model.changelog), None)
                for name, model in run.manifest.models.items()
            }
            return {name: rows_of_side(copy, one) for name, one in compared.items()}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def rows_of_side(log: Log, compared: Compared) -> dict[bytes, bytes]:
    """The recalculated rows: what differs from nothing."""
    assert compared.live is None
    assert compared.staged is not None
    found: dict[bytes, bytes] = {}
    for number in range(compared.staged.partitions):
        for batch in PartitionComparison(log, compared, number):
            found |= dict(zip(batch.column(0).to_pylist(), batch.column(2).to_pylist(), strict=True))
    return found


def all_ends(log: Log) -> dict[TopicPartition, Offset]:
    """The ends of all topics, and so which there are."""
    at = [TopicPartition(topic, n) for topic in log.names() for n in range(log.describe(topic).partitions)]
    return dict(log.ends(at, committed=False))


def manifest_of(log: Log) -> Manifest | None:
    return find_manifest(log, "shop")
