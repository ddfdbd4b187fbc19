"""The rows that a preview found to differ, as a DataFrame."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession

if TYPE_CHECKING:
    from tidegate.upgrade.previews import Preview

SCHEMA = "sink string, key string, before string, after string"


def preview_frame(spark: SparkSession, preview: Preview) -> DataFrame:
    """Return the columns `sink`, `key`, `before` and `after`, as text."""
    rows = [(row["sink"], row["key"], row["before"], row["after"]) for row in preview.texts()]
    return spark.createDataFrame(rows, SCHEMA)
