"""The process that Spark forks its Python workers from, in local sessions that tidegate starts.

Spark puts two zip files, the sources of PySpark and py4j, in front of the import path of workers, and Python
compiles what it imports from a zip file again each time: a second of each start, and more in each worker.
They belong to an installation of PySpark that Python has compiled before, so they are moved to the end of the
path.

This is no module of the package `tidegate`, since that imports pyarrow, which starts threads: workers must be
forked before there are any. `tidegate.spark.python_workers` lets Spark find it.
"""

from __future__ import annotations

import sys
from pathlib import Path

ZIPS = ("pyspark", "python", "lib")


def prefer_installed(path: list[str]) -> list[str]:
    """Return the import path with Spark's zip files at its end, if the PySpark that they belong to is on the
    path. A Spark of another place (SPARK_HOME) keeps its own in front."""
    folders = {Path(entry).resolve() for entry in path}
    zips = [entry for entry in path if _is_zip(entry) and Path(entry).resolve().parents[3] in folders]
    return [entry for entry in path if entry not in zips] + zips


def _is_zip(entry: str) -> bool:
    return entry.endswith(".zip") and Path(entry).parts[-4:-1] == ZIPS


if __name__ == "__main__":
    here = str(Path(__file__).parent)
    sys.path[:] = prefer_installed([entry for entry in sys.path if entry != here])

    from pyspark.daemon import manager

    manager()
