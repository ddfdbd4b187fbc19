"""What Spark runs on an executor for a slot. It imports no more than that needs: who waits for a slot waits
for its imports."""

from __future__ import annotations

import os
from collections.abc import Iterable

from pyspark import TaskContext

from tidegate.spark.worker import run_order


def run_slot(order: bytes, rows: Iterable[int]) -> None:
    """One attempt of a slot, until it is told to stop.

    A task that Spark itself starts again would be a second run of the same attempt: it ends at once, so that
    the driver starts the next one. It ends, too, when the process that forked it is gone: nobody is left to
    tell, and the executor went with it.
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
