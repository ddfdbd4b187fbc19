"""An app that meets a log which does not fit: other partition counts, another topology."""

from __future__ import annotations

from contextlib import closing

import pytest

from tidegate import App, ConfigError, TableTopic, Topic, UpgradeError
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.topic import TopicSpec
from tidegate.testing.driver import Driver
from tidegate.types import TopicPartition

IN, OUT, MORE = (Topic(name, int) for name in ("in", "out", "more"))
ROWS = TableTopic("rows", int)


def test_topics_that_meet_must_have_one_partition_count() -> None:
    app = App("errors")
    two, three = Topic("two", int, partitions=2), TableTopic("three", int, partitions=3)
    app.stream(two).join(app.table(three), lambda one, other: one + other).to(OUT)
    with Driver(app) as d, pytest.raises(ConfigError, match=r"two.* has 2.*three.* has 3") as caught:
        d.run()
    assert caught.value.code == "not-co-partitioned"


def counting() -> App:
    app = App("errors")
    app.stream(IN).count("counts").to(ROWS)
    return app


def test_a_source_with_another_partition_count_than_at_the_first_start_is_refused() -> None:
    with closing(SqliteLog()) as log:
        with Driver(counting(), log=log, partitions=2) as d:
            d.send(IN, "ada", 1)
            d.run()
        log.delete("in")
        log.create(TopicSpec("in", 3))
        with Driver(counting(), log=log, partitions=2) as d, pytest.raises(ConfigError) as caught:
            d.run()
        assert caught.value.code == "partitions-changed"
        assert "had 2" in caught.value.message


def test_an_output_with_another_partition_count_than_at_the_first_start_is_refused() -> None:
    with closing(SqliteLog()) as log:
        with Driver(counting(), log=log, partitions=2) as d:
            d.send(IN, "ada", 1)
            d.run()
        log.delete("rows")
        log.create(TopicSpec("rows", 3, {"cleanup.policy": "compact"}))
        with Driver(counting(), log=log, partitions=2) as d:
            d.send(IN, "ada", 1)
            before = ends(log)
            with pytest.raises(ConfigError) as caught:
                d.run()
            assert ends(log) == before
        assert caught.value.code == "partitions-changed"
        assert "'rows' has 3 partitions, and had 2" in caught.value.message
        assert "write to a topic of another name" in caught.value.hint
        assert "tidegate reset errors" in caught.value.hint


def ends(log: SqliteLog) -> dict[TopicPartition, int]:
    infos = [log.describe(name) for name in log.names()]
    found = [TopicPartition(info.name, number) for info in infos for number in range(info.partitions)]
    return {partition: int(end) for partition, end in log.ends(found, committed=False).items()}


def test_a_changed_app_on_the_same_log_is_refused_and_the_old_one_goes_on() -> None:
    changed = App("errors")
    changed.stream(IN).sum("counts", lambda value: value / 2).to(ROWS)  # type: ignore[arg-type]
    changed.stream(MORE).to(OUT)
    with closing(SqliteLog()) as log:
        with Driver(counting(), log=log) as d:
            d.send(IN, "ada", 1)
            d.run()
        with Driver(changed, log=log) as d, pytest.raises(UpgradeError) as caught:
            d.run()
        assert caught.value.code == "changed-app"
        with Driver(counting(), log=log) as d:
            d.send(IN, "ada", 1)
            d.run()
            assert d.rows(ROWS) == {"ada": 2}
