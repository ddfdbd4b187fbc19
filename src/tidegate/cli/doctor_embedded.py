"""The checks of `tidegate doctor` for the embedded log."""

from __future__ import annotations

import time
from contextlib import closing, suppress
from pathlib import Path

from tidegate.cli.doctor_kafka import NotLookedAt
from tidegate.config.config import Config
from tidegate.errors import LogError, TidegateError
from tidegate.log.location import LogLocation
from tidegate.log.open import open_log
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.sqlite.upkeep_lock import Report

NO_ROUND = "no round yet: the first begins some seconds after a log is opened for writing"
LONG_SECONDS = 60.0
"""A round that takes longer may be stuck."""


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
            raise NotLookedAt("the log is on Kafka")
        return _found(log.upkeep_report(), time.time())


def _found(report: Report, now: float) -> str:
    if not report.pid:
        return NO_ROUND
    if report.troubles:
        told = "; ".join(f"{one.what}: [{one.code}] {one.message}" for one in report.troubles)
        raise LogError(
            "upkeep-failed",
            f"the last round of upkeep could not do everything: {told}",
            "what is named keeps all its records and grows; restore the log from a copy if it is damaged",
        )
    if not report.ended and now - report.began > LONG_SECONDS and _is_stopped(report.pid):
        raise LogError(
            "upkeep-stopped",
            f"process {report.pid} is stopped in a round of upkeep that began {now - report.began:.0f} s ago,"
            " and no other can begin one",
            f"let it go on (kill -CONT {report.pid}), or end it",
        )
    if not report.ended:
        return f"process {report.pid} is in a round since {now - report.began:.0f} s"
    return f"last round {now - report.ended:.0f} s ago, by process {report.pid}"


def _is_stopped(pid: int) -> bool:
    with suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "Tt"
    return False


EMBEDDED_CHECKS = {"upkeep": upkeep}
