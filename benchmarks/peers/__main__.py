"""`python -m benchmarks.peers`: the same count in tidegate, Kafka Streams and Quix Streams, on one broker.

throughput  4M records of 100 bytes, 100k keys, 4 partitions, exactly once: whole batches at least twice tuned
            Kafka Streams and 12 times Quix; a Python processor at least 0.75 times tuned Kafka Streams, and
            as fast as its defaults; CPU and memory
latency     5,000 records/s for 40 seconds, commits every 100 ms: p50 and p99 at most Kafka Streams'
restore     of the changelog of those 4M records: at least 1.5 times as fast as Kafka Streams
commit      of a slot with 1 to 64 tasks

A wrong count fails the benchmark; a missed target is a result. Parts and engines can be chosen, so that a
full run can be split; what compares engines of which one was left out is left out too.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rich.console import Console

from benchmarks.peers import commits, latency, restore, throughput
from benchmarks.peers.bench import Bench, opened
from benchmarks.peers.engines import ENGINES
from benchmarks.report import Report, machine, shown

PARTS: dict[str, Callable[[Bench], None]] = {
    "throughput": throughput.measure,
    "latency": latency.measure,
    "restore": restore.measure,
    "commit": commits.measure,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print the table whatever happens."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--quick", action="store_true", help="measure less, for a first impression")
    parser.add_argument("--parts", type=_some(PARTS), default=list(PARTS), help=", ".join(PARTS))
    parser.add_argument("--engines", type=_some(ENGINES), default=list(ENGINES), help=", ".join(ENGINES))
    parser.add_argument("--rounds", type=int, help="of what is compared, 5 if not given")
    options = parser.parse_args(arguments)
    rounds = options.rounds or (1 if options.quick else 5)
    report = Report("peers", machine())
    reported = Progress(report)
    report.progress = reported.next
    records = 200_000 if options.quick else 4_000_000
    try:
        # On the disk of the working folder: the place for temporary files may be memory.
        with (
            tempfile.TemporaryDirectory(
                prefix=".benchmark-", dir=Path.cwd(), ignore_cleanup_errors=True
            ) as folder,
            opened(
                report, Path(folder), options.engines, records=records, quick=options.quick, rounds=rounds
            ) as bench,
        ):
            for part in options.parts:
                PARTS[part](bench)
                reported.rows()
    finally:
        if options.json:
            print(report.as_json())
        else:
            Console(width=None if sys.stdout.isatty() else 140).print(report.table())


class Progress:
    """Rows as they come: a full run takes long."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._count = 0

    def next(self, what: str) -> None:
        """What is being measured now, after the rows that came of what was before."""
        self.rows()
        print(f"... {what}", file=sys.stderr, flush=True)

    def rows(self) -> None:
        fresh = self._report.results[self._count :]
        self._count += len(fresh)
        for one in fresh:
            value = "not measured" if one.value is None else shown(one.value)
            verdict = "" if one.holds is None else f" ({one.target}: {'yes' if one.holds else 'NO'})"
            print(f"{one.name}: {value} {one.unit}{verdict}", file=sys.stderr, flush=True)


def _some(known: Mapping[str, object]) -> Callable[[str], list[str]]:
    """Reads names with commas between, refusing others."""

    def read(text: str) -> list[str]:
        names = text.split(",")
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(known)}")
        return names

    return read


if __name__ == "__main__":
    main()
