"""The part `reset` of `benchmarks.upgrade`: an upgrade beside a reset of Kafka Streams, on one broker.

The job and its change are the same: a count per key, whose second version leaves out one key in hundred.
Kafka Streams is stopped, reset with its own tool, loses its local state, and processes everything again with
the second version. tidegate's second version starts while the first one runs, and upgrades it. Measured are
the pause, from the end of the first version's processing until the second one has processed everything, and
what was written to the output topic meanwhile.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import KafkaException

from benchmarks.peers.bench import COMMIT_MS, CONFIG, JVM, LONGEST_SECONDS
from benchmarks.peers.kafka_streams import KafkaStreams
from benchmarks.peers.peer import Programs
from benchmarks.peers.verify import WrongResultError
from benchmarks.peers.watch import Lag
from benchmarks.report import Report
from benchmarks.upgrade_run import upgrade
from benchmarks.upgrade_source import (
    KEYS,
    PARTITIONS,
    QUICK_KEYS,
    RECORDS_PER_KEY,
    SOURCE,
    Output,
    fill,
    removed_keys,
)
from benchmarks.upgrade_switch import add_results
from tidegate.log.kafka.log import KafkaLog
from tidegate.log.protocol import Log
from tidegate.log.topic import TopicSpec
from tidegate.testing.broker import KafkaCluster
from tidegate.testing.broker.tool import run_tool

RESETTER = "org.apache.kafka.tools.StreamsResetter"
"""What `kafka-streams-application-reset.sh` runs."""
APP_ID, OUTPUT = "streams-count", "streams-counts"
POLL_SECONDS = 0.1


class Reset(NamedTuple):
    """What was measured of Kafka Streams."""

    stop: float
    reset: float
    again: float
    """From the start of the second version until it has processed everything."""
    written: int
    """Records written to the output meanwhile."""
    stale: int
    """Rows of keys that the second version does not count, which are still there."""

    @property
    def pause(self) -> float:
        return self.stop + self.reset + self.again


def measure(report: Report, quick: bool, keys: int | None = None) -> None:
    keys = keys or (QUICK_KEYS if quick else KEYS)
    name = f"reset, {keys:,} keys"
    with tempfile.TemporaryDirectory(prefix=".benchmark-", dir=Path.cwd(), ignore_cleanup_errors=True) as at:
        folder = Path(at)
        with (
            KafkaCluster(folder / "kafka", config=CONFIG, jvm=JVM) as kafka,
            closing(KafkaLog(kafka.bootstrap)) as log,
        ):
            report.progress(f"reset: filling the source with {RECORDS_PER_KEY * keys:,} records")
            fill(log, keys)
            theirs = streams(report, log, kafka.bootstrap, folder / "streams")
            url = f"kafka://{kafka.bootstrap}"
            ours = upgrade(log, url, folder / "tidegate", keys, report.progress)
    report.measured(f"{name}: Kafka Streams, stop", theirs.stop, "s")
    report.measured(f"{name}: Kafka Streams, reset tool and local state", theirs.reset, "s")
    report.measured(f"{name}: Kafka Streams, start and reprocessing", theirs.again, "s")
    report.measured(f"{name}: Kafka Streams, pause", theirs.pause, "s")
    report.measured(f"{name}: Kafka Streams, records written to the output", theirs.written, "records")
    report.measured(f"{name}: Kafka Streams, rows left of keys that are gone", theirs.stale, "rows")
    if theirs.stale != removed_keys(keys):
        raise WrongResultError(f"{theirs.stale:,} stale rows, not {removed_keys(keys):,}")
    add_results(report, f"{name}: tidegate", ours, keys)
    report.measured(f"{name}: pause of tidegate, times that of Kafka Streams", ours.pause / theirs.pause, "x")


def streams(report: Report, log: Log, bootstrap: str, folder: Path) -> Reset:
    """Count, stop, reset, and count with the second version."""
    log.create(TopicSpec(OUTPUT, PARTITIONS, {"cleanup.policy": "compact"}))
    output = Output(log, OUTPUT)
    first, second = KafkaStreams("tuned"), KafkaStreams("tuned", version=2)
    first.prepare()
    with closing(Lag(log, bootstrap, APP_ID, SOURCE)) as lag:
        report.progress("reset: Kafka Streams counts")
        run = first.start(bootstrap, SOURCE, OUTPUT, APP_ID, folder, COMMIT_MS)
        try:
            until_done(lag, run)
            output.mark()
            report.progress("reset: Kafka Streams is stopped, reset and started again")
            began = time.monotonic()
            run.stop()
            stopped = time.monotonic()
            options = ["--bootstrap-server", bootstrap, "--application-id", APP_ID, "--input-topics", SOURCE]
            run_tool(RESETTER, *options, "--force")
            shutil.rmtree(folder / "state")
            was_reset = time.monotonic()
            run = second.start(bootstrap, SOURCE, OUTPUT, APP_ID, folder, COMMIT_MS)
            until_done(lag, run)
            ended = time.monotonic()
            run.stop()
        finally:
            run.kill()
    gone = sum(int(key.rpartition(b"-")[2]) % 100 == 0 for key in output.rows())
    return Reset(stopped - began, was_reset - stopped, ended - was_reset, output.records()[0], gone)


def done(lag: Lag) -> bool:
    """Return whether the whole source is committed. A broker that has just started may not know the group."""
    try:
        return lag.now() == 0
    except KafkaException:
        return False


def until_done(lag: Lag, run: Programs) -> None:
    """Until the whole source is committed."""
    deadline = time.monotonic() + LONGEST_SECONDS
    while not done(lag):
        if not run.pids or time.monotonic() > deadline:
            raise WrongResultError("Kafka Streams did not come to an end")
        time.sleep(POLL_SECONDS)
