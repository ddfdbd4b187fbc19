"""Which headers a frame of a topic has."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from pyspark.sql import SparkSession

from tidegate import App, TableTopic, Topic, read_topic
from tidegate.log.sqlite.log import SqliteLog
from tidegate.testing import Driver

LINES = Topic("lines", str)
COUNTS = TableTopic("counts", int)


def test_headers_of_tidegate_are_in_a_frame_on_request(spark: SparkSession, tmp_path: Path) -> None:
    app = App("words")
    app.stream(LINES).count("counted").to(COUNTS)
    with closing(SqliteLog(tmp_path / "log.db")) as log, Driver(app, log=log, partitions=1) as driver:
        driver.send(LINES, "ada", "hello", headers=[("source", b"web")])
        driver.send(LINES, "bob", "hello")
        driver.run()
    url = f"sqlite:///{tmp_path / 'log.db'}"

    def headers(*, internal: bool) -> dict[str, list[str]]:
        found = read_topic(spark, COUNTS, rows=True, log=url, internal_headers=internal).collect()
        return {row.key: [header.name for header in row.headers] for row in found}

    assert headers(internal=False) == {"ada": ["source"], "bob": []}
    added = ["tidegate.owner"]
    assert headers(internal=True) == {"ada": ["source", *added], "bob": added}
