"""`python -m benchmarks.kafka_reads`: CPU time of reading a record from Kafka, in Python and compiled.

Orders of about 120 bytes in one partition of a real broker, read from the first to the last in turns: CPU
time of this process, with librdkafka's threads. Needs the module of `native/`.
"""

from __future__ import annotations

import tempfile
import time
from contextlib import closing
from pathlib import Path

from benchmarks.log_records import batches_of
from benchmarks.report import Report, run
from tidegate.log.kafka.bulk import bulk
from tidegate.log.kafka.log import KafkaLog
from tidegate.log.topic import TopicSpec
from tidegate.testing.broker import KafkaCluster
from tidegate.types import Offset, TopicPartition

ORDERS = TopicPartition("orders", 0)
BATCH = 20_000
ROUNDS = 5
LEAST_TIMES = 2.0


def measure(report: Report, quick: bool) -> None:
    assert bulk().module is not None, f"{bulk().reason}: pip install ./native"
    batches = 5 if quick else 50
    with tempfile.TemporaryDirectory() as folder, KafkaCluster(Path(folder)) as kafka:
        with closing(KafkaLog(kafka.bootstrap)) as log:
            log.create(TopicSpec(ORDERS.topic, 1))
            for batch in batches_of(batches, BATCH):
                log.append(ORDERS, batch)
        costs: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(ROUNDS):
            for compiled, found in costs.items():
                found.append(_read(kafka.bootstrap, batches * BATCH, compiled=compiled))
    for compiled, name in ((False, "in Python"), (True, "compiled")):
        report.measured(f"read, {name}", sorted(costs[compiled])[ROUNDS // 2], "us CPU/record")
    times = [plain / fast for plain, fast in zip(*costs.values(), strict=True)]
    report.at_least("read, Python to compiled", times, "x", LEAST_TIMES)


def _read(bootstrap: str, records: int, *, compiled: bool) -> float:
    """Return the microseconds of CPU time for one record."""
    with (
        closing(KafkaLog(bootstrap, compiled=compiled)) as log,
        closing(log.reader({ORDERS: Offset(0)})) as reader,
    ):
        began, found = time.process_time(), 0
        while found < records:
            found += sum(fetched.batch.num_rows for fetched in reader.poll(1.0))
        return (time.process_time() - began) / records * 1e6


if __name__ == "__main__":
    run("kafka_reads", measure)
