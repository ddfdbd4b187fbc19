"""`python -m benchmarks.kafka_writes`: CPU time of writing a record to Kafka, in Python and compiled.

Orders of about 120 bytes are written to one partition of a real broker, in transactions of 20,000: first
without headers, then with the one header of table rows. The two ways take turns. Measured is the CPU time of
this process, which includes librdkafka's threads. Needs the module of `native/`.
"""

from __future__ import annotations

import tempfile
import time
from contextlib import closing
from pathlib import Path

import pyarrow as pa

from benchmarks.log_records import batches_of
from benchmarks.report import Report, median, run
from tidegate.log.kafka.bulk import bulk
from tidegate.log.kafka.log import KafkaLog
from tidegate.log.records import Row, to_batch
from tidegate.log.topic import TopicSpec
from tidegate.testing.broker import KafkaCluster
from tidegate.types import TopicPartition

ORDERS = TopicPartition("orders", 0)
BATCH = 20_000
ROUNDS = 5
LEAST_TIMES = 1.25


def measure(report: Report, quick: bool) -> None:
    assert bulk().module is not None, f"{bulk().reason}: pip install ./native"
    plain = list(batches_of(5 if quick else 25, BATCH))
    owned = to_batch([Row(b"", b"", 1, [("tidegate.owner", b"orders/counted")])] * BATCH).column(3)
    headed = [pa.RecordBatch.from_arrays([*one.columns[:3], owned], schema=one.schema) for one in plain]
    with tempfile.TemporaryDirectory() as folder, KafkaCluster(Path(folder)) as kafka:
        with closing(KafkaLog(kafka.bootstrap)) as log:
            log.create(TopicSpec(ORDERS.topic, 1))
        for name, batches in (("no headers", plain), ("one header", headed)):
            costs: dict[bool, list[float]] = {False: [], True: []}
            for _ in range(ROUNDS):
                for compiled, found in costs.items():
                    found.append(_write(kafka.bootstrap, batches, compiled=compiled))
            for compiled, how in ((False, "in Python"), (True, "compiled")):
                report.measured(f"write, {name}, {how}", median(costs[compiled]), "us CPU/record")
            times = [slow / fast for slow, fast in zip(*costs.values(), strict=True)]
            report.at_least(f"write, {name}, Python to compiled", times, "x", LEAST_TIMES)


def _write(bootstrap: str, batches: list[pa.RecordBatch], *, compiled: bool) -> float:
    """Return the microseconds of CPU time for one record."""
    with closing(KafkaLog(bootstrap, compiled=compiled)) as log, closing(log.writer("benchmark")) as writer:
        began = time.process_time()
        for batch in batches:
            writer.append(ORDERS, batch)
            writer.commit()
        return (time.process_time() - began) / (len(batches) * BATCH) * 1e6


if __name__ == "__main__":
    run("kafka_writes", measure)
