"""Spark's daemon for Python workers, with the modules of a slot imported before it forks them.

Each worker of the stock daemon imports them by itself, which takes a second of CPU, and the session of the
tests starts more than a hundred. `tidegate run`, the demo and the pages of the docs have the stock daemon.
"""

from __future__ import annotations

import gc
import importlib
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONF = {
    "spark.python.daemon.module": "tests.spark.warm_daemon",
    "spark.executorEnv.PYTHONPATH": str(ROOT),
    "spark.executorEnv.OPENBLAS_NUM_THREADS": "1",  # a thread would not live on in what is forked
}
"""Of a session with this daemon."""
IMPORTED = (
    "pandas",
    "pyspark.worker",
    "tidegate.log.kafka.log",
    "tidegate.log.sqlite.log",
    "tidegate.spark.slot_task",
    "tidegate.spark.topic_source",
)


def main() -> None:
    from pyspark.daemon import manager

    for module in IMPORTED:
        importlib.import_module(module)
    gc.freeze()
    manager()


if __name__ == "__main__":
    main()
