"""The function that Spark runs on an executor for a slot. It imports only what it needs: the imports are part
of the time until a slot lands."""

from __future__ import annotations

import os
from collections.abc import Iterable

from pyspark import TaskContext

from tidegate.spark.worker import run_order


def run_slot(order: bytes, rows: Iterable[int]) -> None:
    """Run one attempt of a slot until a stop is requested.

    A task that Spark itself retries would be a second run of the same attempt: it ends at once, so that the
    driver starts the next one. It also ends when its parent process has ended: the executor is gone then, and
    there is nothing to report to.
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
