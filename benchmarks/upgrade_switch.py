"""The part `switch` of `benchmarks.upgrade`: the pause of an app with many rows, step by step.

Two versions of a count run on Spark, as `tidegate run` starts them, on a log of their own. The second one
drains the first one, recalculates everything, removes one row in hundred, and runs. Its process is watched:
how long each step takes, how large transactions are, and how much memory the comparison needs.
"""

from __future__ import annotations

import tempfile
from contextlib import closing
from pathlib import Path

from benchmarks.report import Report
from benchmarks.upgrade_run import Upgraded, upgrade
from benchmarks.upgrade_source import KEYS, QUICK_KEYS, RECORDS_PER_KEY, fill, removed_keys
from tidegate.log.kafka.writer import TRANSACTION_MS
from tidegate.log.sqlite.log import SqliteLog
from tidegate.upgrade.table_publication import RECORDS_PER_TRANSACTION


def measure(report: Report, quick: bool, keys: int | None = None) -> None:
    keys = keys or (QUICK_KEYS if quick else KEYS)
    report.progress(f"switch: filling the source with {RECORDS_PER_KEY * keys:,} records of {keys:,} keys")
    # On the disk of the working folder: the place for temporary files may be memory.
    with tempfile.TemporaryDirectory(prefix=".benchmark-", dir=Path.cwd()) as name:
        folder = Path(name)
        with closing(SqliteLog(folder / "log.db")) as log:
            fill(log, keys)
            found = upgrade(log, f"sqlite:///{folder / 'log.db'}", folder, keys, report.progress)
    add_results(report, f"switch, {keys:,} keys", found, keys)


def add_results(report: Report, name: str, found: Upgraded, keys: int) -> None:
    """Report one upgrade."""
    changed = removed_keys(keys)
    if (found.published, found.tombstones, found.rows) != (changed, changed, keys - changed):
        raise RuntimeError(
            f"published {found.published:,} records, {found.tombstones:,} of them tombstones, for "
            f"{changed:,} keys that differ; {found.rows:,} rows are left of {keys:,}"
        )
    for step, seconds in found.seconds.items():
        report.measured(f"{name}: {step}", seconds, "s")
    report.measured(f"{name}: pause", found.pause, "s")
    report.measured(f"{name}: records published, for as many keys that differ", found.published, "records")
    largest, longest = (max(one[at] for one in found.transactions) for at in (0, 1))
    report.at_most(f"{name}: largest transaction", largest, "records", RECORDS_PER_TRANSACTION)
    report.below(f"{name}: longest transaction, time-out of Kafka", longest, "s", TRANSACTION_MS / 1000)
    report.measured(f"{name}: peak memory of the upgrading process", found.peak_mib, "MiB")
    report.measured(f"{name}: the same while it compares and publishes", found.compare_mib, "MiB")
    report.at_most(f"{name}: topics and folders left after finish", len(found.leftovers), "", 0)
