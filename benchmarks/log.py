"""`python -m benchmarks.log`: the embedded log against its targets.

append and read     at least 5 times a plain SQLite table with one row per record
commits             16 writers, each 100 ms: p99 below 3 times that of one; below 5 beside a bulk load
size                a compacted file at most 1.3 times its live rows
memory              flat while 5M records are read
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks import log_commits, log_memory, log_size, log_throughput
from benchmarks.report import Report, run


def measure(report: Report, quick: bool) -> None:
    """Each part in a folder that is gone afterwards, on the disk of the working folder: the place for
    temporary files may be memory, where a sync costs nothing."""
    for part in (log_throughput, log_commits, log_size, log_memory):
        with tempfile.TemporaryDirectory(prefix=".benchmark-", dir=Path.cwd()) as folder:
            part.measure(report, Path(folder), quick=quick)


if __name__ == "__main__":
    run("log", measure)
