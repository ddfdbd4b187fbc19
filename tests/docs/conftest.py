"""The Spark session of the tests, for the pages that use one."""

from __future__ import annotations

from tests.spark.conftest import spark

__all__ = ["spark"]
