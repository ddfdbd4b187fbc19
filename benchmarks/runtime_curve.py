"""How the whole-batch count goes with partitions and keys: one slot on Spark, everything else equal."""

from __future__ import annotations

from pyspark.sql import SparkSession

from benchmarks.apps.runtime_apps import counting
from benchmarks.report import Report
from benchmarks.runtime_throughput import on_spark


def measure(report: Report, session: SparkSession, *, quick: bool) -> None:
    """Every key comes at least twice in a full run: the state is read, and not only made."""
    records = 200_000 if quick else 2_000_000
    for partitions in (1, 64) if quick else (1, 4, 16, 64):
        for keys in (10_000, 100_000) if quick else (10_000, 100_000, 1_000_000):
            name = f"count, {partitions} partition{'s' if partitions > 1 else ''}, {keys:,} keys"
            report.progress(f"curve: {name}, {records:,} records")
            rate = on_spark(session, counting, records, partitions=partitions, keys=keys)
            report.measured(name, rate, "records/s")
