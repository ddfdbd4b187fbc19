"""The function that Spark runs on an executor for a slot. It imports only what it needs: the imports are part
of the time until a slot lands."""

from __future__ import annotations

import os
from collections.abc import Iterable

from pyspark import TaskContext

from tidegate.spark.worker import run_order


def run_slot(order: bytes, rows: Iterable[int]) -> None:
    """Run one attempt of a slot until it is asked to stop.

    A task that Spark itself starts again would be a second run of the same attempt: it ends at once, so that
    the driver starts the next one. It also ends when the process that forked it is gone: the executor has
    ended then, and there is nobody to report to.
    """
    for _ in rows:
        pass
    context = TaskContext.get()
    if context is not None and context.attemptNumber() > 0:
        return
    parent = os.getppid()
    for _ in run_order(order):
        if os.getppid() != parent:
            return
