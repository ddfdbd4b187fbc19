"""The checks of `tidegate doctor` for the embedded log."""

from __future__ import annotations

import time
from contextlib import closing, suppress
from pathlib import Path

from tidegate.cli.doctor_kafka import NotChecked
from tidegate.config.config import Config
from tidegate.errors import LogError, TidegateError
from tidegate.log.location import LogLocation
from tidegate.log.open import open_log
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.sqlite.upkeep_lock import Report

NO_ROUND = "no round yet: the first begins some seconds after a log is opened for writing"
LONG_SECONDS = 60.0
"""A round that takes longer may hang."""


def upkeep(config: Config) -> str:
    """The outcome of the last round of retention, compaction and sweeping."""
    try:
        log = open_log(LogLocation.of(config), create=False)
    except TidegateError as error:
        if error.code == "no-log":
            return NO_ROUND
        raise
    with closing(log):
        if not isinstance(log, SqliteLog):
            raise NotChecked("the log is on Kafka")
        return _found(log.upkeep_report(), time.time())


def _found(report: Report, now: float) -> str:
    if not report.pid:
        return NO_ROUND
    if report.troubles:
        failures = "; ".join(f"{one.what}: [{one.code}] {one.message}" for one in report.troubles)
        raise LogError(
            "upkeep-failed",
            f"the last round of upkeep failed in part: {failures}",
            "the topics named keep all their records and grow; if the log is damaged, restore it from a copy",
        )
    if not report.ended and now - report.began > LONG_SECONDS and _is_stopped(report.pid):
        raise LogError(
            "upkeep-stopped",
            f"process {report.pid} is stopped in a round of upkeep that began {now - report.began:.0f} s ago,"
            " and no other process can begin one",
            f"continue it with kill -CONT {report.pid}, or end it",
        )
    if not report.ended:
        return f"process {report.pid} is in a round for {now - report.began:.0f} s"
    return f"last round {now - report.ended:.0f} s ago, by process {report.pid}"


def _is_stopped(pid: int) -> bool:
    with suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "Tt"
    return False


EMBEDDED_CHECKS = {"upkeep": upkeep}
