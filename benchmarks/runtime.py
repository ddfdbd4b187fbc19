"""`python -m benchmarks.runtime`: an app on Spark, on the embedded log, in one run.

throughput  one slot on Spark at least 0.8 times one slot in a plain process: a whole-batch count, and a
            processor record by record
peer        the count at least 5 times the same in PySpark's own transformWithStateInPandas
start       from nothing, and from a running session, to the first output
latency     5,000 records/s for five minutes: p50 at most 1.2 times the commit interval
curve       1 to 64 partitions, 10 thousand to a million keys
memory      5M records: the slot's process in the second half at most 10 % above the first
"""

from __future__ import annotations

import time

from benchmarks import runtime_curve, runtime_latency, runtime_memory, runtime_peer, runtime_throughput
from benchmarks.report import Report, run
from tidegate.spark.session import start_session


def measure(report: Report, quick: bool) -> None:
    """All parts on one session."""
    report.progress("starting Spark")
    begun = time.perf_counter()
    session, _ = start_session("benchmark", {"master": "local[2]"})
    started = time.perf_counter() - begun
    report.measured("start of the Spark session", started, "s")
    first = runtime_latency.first_output(session)
    report.measured("start to first output, with the session's start", started + first, "s")
    for part in (runtime_throughput, runtime_latency, runtime_curve, runtime_memory, runtime_peer):
        part.measure(report, session, quick=quick)
    session.stop()


if __name__ == "__main__":
    run("runtime", measure)
