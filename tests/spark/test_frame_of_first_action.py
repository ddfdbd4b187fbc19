"""What a frame that is not streaming holds: what was committed at its first action."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from pyspark.sql import SparkSession

from tidegate import App, TableTopic, Topic, connect, read_store, read_topic
from tidegate.log.sqlite.log import SqliteLog
from tidegate.testing import Driver

LINES = Topic("lines", str)
COUNTS = TableTopic("counts", int)


def test_a_frame_of_a_topic_keeps_its_records_and_a_new_one_has_later_ones(
    spark: SparkSession, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/log.db"
    with connect(url) as log:
        log.send(COUNTS, "a", 1)
        frames = [read_topic(spark, COUNTS, rows=rows, log=url) for rows in (False, True)]
        log.send(COUNTS, "b", 2)
        assert [frame.count() for frame in frames] == [2, 2]
        log.send(COUNTS, "c", 3)
        assert [frame.count() for frame in frames] == [2, 2]
        assert [frame.select("key").distinct().count() for frame in frames] == [2, 2]
        assert [read_topic(spark, COUNTS, rows=rows, log=url).count() for rows in (False, True)] == [3, 3]


def test_a_frame_of_a_store_keeps_its_rows_and_a_new_one_has_later_ones(
    spark: SparkSession, tmp_path: Path
) -> None:
    app = App("words")
    app.stream(LINES).count("counted").to(COUNTS)
    url = f"sqlite:///{tmp_path}/log.db"
    with closing(SqliteLog(tmp_path / "log.db")) as log, Driver(app, log=log, partitions=1) as driver:
        driver.send(LINES, "ada", "hello")
        driver.run()
        frame = read_store(spark, "words", "counted", log=url)
        assert [(row.key, row.value) for row in frame.collect()] == [("ada", 1)]
        driver.send(LINES, "ada", "hello")
        driver.run()
        assert [(row.key, row.value) for row in frame.collect()] == [("ada", 1)]
        again = read_store(spark, "words", "counted", log=url)
        assert [(row.key, row.value) for row in again.collect()] == [("ada", 2)]
