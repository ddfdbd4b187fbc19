"""The same count in PySpark's own `transformWithStateInPandas`, on the same session and the same records.

It reads Parquet files and writes nowhere, which is cheaper than a log; its state lies in RocksDB on the same
disk, with changelog checkpoints; one shuffle partition for each slot of ours. It spends its time on one call
for each key and micro-batch, so a full run has three cases: a key comes 50 times in a batch, 5 times, or
at most once. Ours counts ten times as many records: of 200,000 all are in the first two commits, and the time
between these is no measure.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from benchmarks.apps.runtime_apps import counting
from benchmarks.report import Report
from benchmarks.runtime_orders import key_of, value_of
from benchmarks.runtime_throughput import on_spark

TARGET = 5.0
SLOTS = 2
TIMES_AS_MANY = 10
CONF = {
    "spark.sql.shuffle.partitions": str(SLOTS),
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}


def measure(report: Report, session: SparkSession, *, quick: bool) -> None:
    """Ours and theirs in turn."""
    records, batch = 200_000, 50_000
    ours_records = TIMES_AS_MANY * records
    for keys in (1_000,) if quick else (1_000, 10_000, 100_000):
        name = f"count, {keys:,} keys"
        target = f"{name}: ours, times transformWithStateInPandas"
        if not has_protobuf():
            report.missing(target, "x", f">= {TARGET:g}", "protobuf is not installed")
            continue
        report.progress(f"{name}: ours")
        ours = on_spark(session, counting, ours_records, slots=SLOTS, keys=keys)
        report.progress(f"{name}: transformWithStateInPandas")
        theirs = in_pandas(session, records, batch, keys)
        report.measured(f"{name}: {SLOTS} slots, {ours_records:,} records", ours, "records/s")
        report.measured(f"{name}: transformWithStateInPandas, {records:,} records", theirs, "records/s")
        report.at_least(target, ours / theirs, "x", TARGET)


def has_protobuf() -> bool:
    """Spark talks to Python about state with it; it comes with no extra of ours."""
    return find_spec("google") is not None and find_spec("google.protobuf") is not None


class Count(StatefulProcessor):
    """How often each key came."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._count = handle.getValueState("count", "count long")

    def handleInputRows(  # noqa: N802 - Spark's names
        self,
        key: Any,
        rows: Iterator[Any],
        timerValues: Any,  # noqa: ARG002, N803
    ) -> Iterator[Any]:
        found = self._count.get()
        total = sum(len(frame) for frame in rows) + (0 if found is None else found[0])
        self._count.update((total,))
        yield pd.DataFrame({"key": [key[0]], "count": [total]})

    def close(self) -> None:
        pass


def in_pandas(session: SparkSession, records: int, batch: int, keys: int) -> float:
    """Records per second behind the first micro-batch, which starts the processes and opens the state."""
    own = session.newSession()
    for name, value in CONF.items():
        own.conf.set(name, value)
    with tempfile.TemporaryDirectory(prefix=".benchmark-", dir=Path.cwd()) as name:
        folder = Path(name)
        write_orders(folder / "orders", records, batch, keys)
        query = (
            own.readStream.schema("key string, value binary")
            .option("maxFilesPerTrigger", SLOTS)
            .parquet(str(folder / "orders"))
            .groupBy("key")
            .transformWithStateInPandas(Count(), "key string, count long", "Update", "None")
            .writeStream.format("noop")
            .outputMode("update")
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        batches = [(ended(one), one.numInputRows) for one in query.recentProgress if one.numInputRows]
    assert sum(rows for _, rows in batches) == records
    (begun, first), (end, _) = batches[0], batches[-1]
    return (records - first) / (end - begun)


def ended(progress: Any) -> float:
    """When a micro-batch was done."""
    begun = datetime.fromisoformat(progress.timestamp).timestamp()
    return begun + float(progress.durationMs["triggerExecution"]) / 1000


def write_orders(folder: Path, records: int, batch: int, keys: int) -> None:
    """The same orders as in the log; one file for each slot and micro-batch."""
    folder.mkdir()
    for begin in range(0, records, batch):
        for part in range(SLOTS):
            numbers = range(begin + part, min(begin + batch, records), SLOTS)
            table = pa.table(
                {
                    "key": pa.array([key_of(number, keys).decode() for number in numbers], pa.string()),
                    "value": pa.array([value_of(number) for number in numbers], pa.binary()),
                }
            )
            pq.write_table(table, folder / f"{begin:09}-{part}.parquet")
