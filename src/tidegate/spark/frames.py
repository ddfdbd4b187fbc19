"""Topics and stores as DataFrames of the user's session."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tidegate.config.config import Config
from tidegate.errors import ConfigError
from tidegate.log.ensure import check_topic
from tidegate.log.open import open_log
from tidegate.spark.session import check_session
from tidegate.spark.store_source import find_store
from tidegate.spark.topic_source import NAME, Shipped, TopicSource, resolved_location, shipped
from tidegate.topics import TableTopic, Topic


def read_topic(
    spark: SparkSession,
    topic: Topic[Any, Any] | TableTopic[Any, Any],
    *,
    streaming: bool = False,
    rows: bool = False,
    internal_headers: bool = False,
    log: str | None = None,
    config: Config | None = None,
) -> DataFrame:
    """Return a topic as a DataFrame: key, value, timestamp, partition, offset, headers.

        orders = tidegate.read_topic(spark, ORDERS)
        totals = tidegate.read_topic(spark, TOTALS, rows=True)

    The frame holds what is committed at its first action. Later actions, and frames and views made of it, see
    the same; call this again for what came since. With `streaming` the frame starts at the first record of
    the log and continues with each committed one, exactly once per checkpoint. The timestamp is the event
    time, as everywhere. A deleted row of a table has a null value; with `rows` (batch only) the frame is the
    current table, one row per key, without deleted ones.

    Headers are the record's own, and `tidegate.error.*` of a dead letter; those that tidegate adds for itself
    are included with `internal_headers`.

    The types are in `tidegate.spark.spark_types`. A record that the topic's serdes cannot decode fails the
    query: `undecodable` with its position; Spark wraps the error in its own. A topic that does not exist, or
    with `rows` is not a table, raises at this call.
    """
    check_session(spark)
    if rows and (streaming or not isinstance(topic, TableTopic)):
        raise ConfigError(
            "rows-of-what",
            f"rows=True returns the current rows of a table, which is not possible for {topic!r}"
            + (" as it changes" if streaming else ""),
            "use it with a TableTopic and without streaming",
        )
    location = resolved_location(log, config)
    spec = replace(shipped(topic, location), internal_headers=internal_headers)
    with closing(spec.open()) as opened:
        info = opened.describe(topic.name)
    if rows:
        check_topic(info, table=True)
    return _frame(spark, spec, streaming=streaming, rows=rows)


def read_store(
    spark: SparkSession,
    app_id: str,
    store: str,
    *,
    streaming: bool = False,
    log: str | None = None,
    config: Config | None = None,
) -> DataFrame:
    """Return the rows of a store, from its changelog: key, value, timestamp, partition, offset.

        totals = tidegate.read_store(spark, "orders", "totals")

    A window store also has `window_start`, a session store `session_start` and `session_end`; windows that
    are past their retention may still be included. With `streaming` the frame holds the changes, a null value
    for each deleted row. The changelog holds what is committed, so at its first action the frame is at most
    one commit interval old; later actions see the same rows. Types come from the app's manifest, without its
    code: see `tidegate.spark.store_source` for what is JSON or binary then.
    """
    check_session(spark)
    location = resolved_location(log, config)
    with closing(open_log(location, create=False)) as opened:
        spec = find_store(opened, app_id, store, location)
    return _frame(spark, spec, streaming=streaming, rows=not streaming)


def _frame(spark: SparkSession, spec: Shipped, *, streaming: bool, rows: bool) -> DataFrame:
    spark.dataSource.register(TopicSource)
    reader: Any = spark.readStream if streaming else spark.read
    # Spark hides options called url when it shows a plan, and this one holds the log's.
    frame: DataFrame = reader.format(NAME).options(url=spec.as_text(), rows=str(rows).lower()).load()
    return frame
