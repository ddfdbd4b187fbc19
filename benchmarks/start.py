"""`python -m benchmarks.start`: from `tidegate run` to the first output, on local Spark.

The app counts orders of which one waits in the embedded log. Beside it, in turns, a bare PySpark program: its
session and one Python function on each core, which is what Spark itself takes. The first start of each is
left out: it compiles Python files, and `tidegate run` writes its archive of Spark's classes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from benchmarks.apps.runtime_apps import COUNTS
from benchmarks.environment import of_programs
from benchmarks.report import Report, run
from benchmarks.runtime_latency import OUTPUTS
from benchmarks.runtime_orders import fresh
from tidegate.log.ensure import find_topic
from tidegate.testing.broker.program import Program

TARGET_SECONDS = 8.0
PATIENCE = 120.0
RUN = "import os, sys; os.chdir(sys.argv.pop(1)); from tidegate.cli.main import main; main()"
BARE = """
from pyspark.sql import SparkSession
session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
session.sparkContext.parallelize(range(2), 2).map(lambda number: number + 1).collect()
print('{"event": "done"}', flush=True)
session.stop()
"""


def measure(report: Report, quick: bool) -> None:
    """Both in turns."""
    starts: dict[Callable[[], float], list[float]] = {bare_spark: [], tidegate_run: []}
    for number in range(2 if quick else 6):
        for start, seconds in starts.items():
            report.progress(f"{start.__name__}, start {number + 1}")
            seconds.append(start())
    report.measured("bare PySpark to its first result", starts[bare_spark][1:], "s")
    report.at_most("tidegate run to its first output", starts[tidegate_run][1:], "s", TARGET_SECONDS)


def tidegate_run() -> float:
    """Seconds until the output can be read."""
    with fresh(1) as place:
        folder = place.config.folder
        (folder / "tidegate.toml").write_text('app = "benchmarks.apps.runtime_apps:counting"\n')
        settings = {"TIDEGATE_LOG": "sqlite:///log.db", "TIDEGATE_PARTITIONS": str(place.config.partitions)}
        begun = time.monotonic()
        command = [sys.executable, "-c", RUN, str(folder), "run"]
        program = Program("run", command, folder, env=of_programs() | settings)
        try:
            while not find_topic(place.log, COUNTS.name) or not sum(place.log.ends(OUTPUTS).values()):
                if not program.running or time.monotonic() > begun + PATIENCE:
                    raise program.failed("no output")
                time.sleep(0.01)
            return time.monotonic() - begun
        finally:
            program.stop()


def bare_spark() -> float:
    """Seconds until a function in Python has run on each core."""
    with fresh(0) as place:
        begun = time.monotonic()
        program = Program("bare", [sys.executable, "-c", BARE], place.config.folder, env=of_programs())
        try:
            program.wait_for(lambda event: event["event"] == "done", PATIENCE)
            return time.monotonic() - begun
        finally:
            program.stop()


if __name__ == "__main__":
    run("start", measure)
