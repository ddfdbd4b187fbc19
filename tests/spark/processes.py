"""The processes of this test's Spark."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from tests.spark.warm_daemon import CONF

DAEMONS = (b"pyspark.daemon", CONF["spark.python.daemon.module"].encode())


def python_workers() -> list[int]:
    """Python processes of this session's Spark that run tasks: children of its daemon."""
    parents: dict[int, int] = {}
    daemons: set[int] = set()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError, ValueError):
                pid = int(folder.name)
                parents[pid] = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
                command = (folder / "cmdline").read_bytes()
                if any(daemon in command for daemon in DAEMONS):
                    daemons.add(pid)
    return [pid for pid in daemons if parents[pid] in daemons and descends(pid, parents)]


def descends(pid: int, parents: dict[int, int]) -> bool:
    while pid in parents and pid != os.getpid():
        pid = parents[pid]
    return pid == os.getpid()
