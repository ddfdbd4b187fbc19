"""A Spark session whose SQL engine is loaded when it is first used."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession


class LateSession:
    """Stands in for a `SparkSession`. Slots are jobs of its context; loading the SQL engine would delay the
    first of them by a second. Everything but the context is looked up in the session, which is created for
    that."""

    def __init__(self, conf: Mapping[str, Any]) -> None:
        """Start Spark. `conf` includes master and name."""
        self._conf: dict[str, Any] = {name: str(value) for name, value in conf.items()}
        self._lock = Lock()
        self._session: SparkSession | None = None
        self.sparkContext = SparkContext.getOrCreate(SparkConf().setAll(list(self._conf.items())))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        with self._lock:
            if self._session is None:
                # Not `builder`: after `stop` it would start Spark again, and it may be set to Spark Connect.
                self._session = SparkSession(self.sparkContext, options=self._conf)
        return getattr(self._session, name)

    def stop(self) -> None:
        """Stop Spark, whether there is a session or not."""
        (self.sparkContext if self._session is None else self._session).stop()
