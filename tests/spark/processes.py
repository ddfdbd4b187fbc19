"""The processes of this test's Spark."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from tests.spark.warm_daemon import CONF

DAEMONS = (b"pyspark.daemon", b"tidegate_daemon", CONF["spark.python.daemon.module"].encode())


_known: dict[int, str] = {}
"""When each worker started that was found: one whose daemon is replaced by Spark works on, and is nobody's
child that could be found."""


def python_workers() -> list[int]:
    """Python processes of this session's Spark that run tasks: children of its daemon, now or when they were
    found before."""
    parents: dict[int, int] = {}
    started: dict[int, str] = {}
    daemons: set[int] = set()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError, ValueError):
                pid = int(folder.name)
                facts = (folder / "stat").read_text().rsplit(")", 1)[1].split()
                parents[pid], started[pid] = int(facts[1]), facts[19]
                command = (folder / "cmdline").read_bytes()
                if any(daemon in command for daemon in DAEMONS):
                    daemons.add(pid)
    children = [pid for pid in daemons if parents[pid] in daemons and descends(pid, parents)]
    _known.update((pid, started[pid]) for pid in children)
    return [pid for pid in daemons if pid in _known and _known[pid] == started[pid]]


def descends(pid: int, parents: dict[int, int]) -> bool:
    while pid in parents and pid != os.getpid():
        pid = parents[pid]
    return pid == os.getpid()
