"""Memory of a slot's Python process while 5M records go through it: it must not grow with what it did."""

from __future__ import annotations

import os
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.apps.runtime_apps import adding, counting
from benchmarks.report import Report, median
from benchmarks.runtime_orders import fresh
from benchmarks.runtime_throughput import running
from benchmarks.runtime_watch import commits, wait_for
from tidegate import App

TARGET = 1.1


def measure(report: Report, session: SparkSession, *, quick: bool) -> None:
    """Both apps, as their paths through a task differ."""
    records = 500_000 if quick else 5_000_000
    for app, what in ((counting, "whole-batch count"), (adding, "processor")):
        report.progress(f"memory: {what}, {records:,} records")
        first, second = halves(session, app, records)
        name = f"RSS of the slot, {what}, {records:,} records"
        report.measured(f"{name}: median, first half", median(first) / 2**20, "MiB")
        report.measured(f"{name}: median, second half", median(second) / 2**20, "MiB")
        report.measured(f"{name}: peak", max(first + second) / 2**20, "MiB")
        report.at_most(f"{name}: second half to first", median(second) / median(first), "x", TARGET)
        report.at_most(f"{name}: peak of second to first", max(second) / max(first), "x", TARGET)


def halves(session: SparkSession, app: App, records: int) -> tuple[list[int], list[int]]:
    """What was resident at each commit, in the first and in the second half of the records."""
    first: list[int] = []
    second: list[int] = []
    with fresh(records) as place, running(session, app, place) as run:
        wait_for(lambda: bool(run.view.landings))
        worker = run.view.landings[0].pid
        for commit in commits(place.log, app.id, records, lambda: not run.wait(0)):
            (first if commit.records <= records // 2 else second).append(resident(worker))
    return first, second


def resident(process: int) -> int:
    """Bytes of a process in memory, as Linux reports them."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
