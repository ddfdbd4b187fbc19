"""The manifest: names, partition counts, written at the first start, looked up and compared."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from tidegate import App, ConfigError, Settings, TableTopic, Topic, UpgradeError, operational, stores
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.topics.control import read_control
from tidegate.testing.driver import Driver
from tidegate.topology.code import Code
from tidegate.topology.manifest import Manifest, make_manifest, partition_counts

IN, OUT = Topic("in", int), TableTopic("out", int)
ROWS = TableTopic("rows", int)
COUNTS = {"in": 3, "out": 5, "rows": 3}


@pytest.fixture
def log() -> Iterator[SqliteLog]:
    made = SqliteLog()
    yield made
    made.close()


def name_of(value: int) -> str:
    return f"{value}"


def counting(partitions: int | None = None) -> App:
    app = App("counting")
    app.stream(IN).group_by("by-name", name_of, partitions=partitions).count("counts").to(OUT)
    return app


def test_names_and_counts_of_the_first_generation() -> None:
    manifest = make_manifest(counting().build(), COUNTS)
    assert (manifest.app, manifest.generation) == ("counting", 1)
    assert (manifest.sources, manifest.sinks) == ({"in": 3}, {"out": 5})
    assert manifest.internal == {"by-name": "counting-by-name-repartition"}
    assert manifest.internal_partitions == {"by-name": 3}
    assert manifest.stores["counts"].changelog == "counting-counts-changelog"
    assert manifest.stores["counts"].component == "by-name"
    assert [len(one.subtopologies) for one in manifest.components.values()] == [2]


def test_a_store_without_a_changelog_has_no_topic() -> None:
    app = App("counting")
    app.stream(IN).count(stores.key_value("counts", int).without_changelog()).to(OUT)
    assert make_manifest(app.build(), COUNTS).stores["counts"].changelog is None


def test_a_repartition_takes_the_count_it_is_given() -> None:
    assert make_manifest(counting(partitions=7).build(), COUNTS).internal_partitions == {"by-name": 7}


def test_a_repartition_takes_the_count_of_what_it_meets() -> None:
    app = App("counting")
    app.stream(IN).repartition("again").join(app.table(ROWS), lambda one, two: one + two).to(Topic("o", int))
    counts = {"in": 2, "rows": 6, "o": 1}
    assert make_manifest(app.build(), counts).internal_partitions == {"again": 6}
    assert sorted(partition_counts(app.build(), counts).values()) == [2, 6]


def test_topics_that_meet_with_different_counts_are_refused() -> None:
    app = App("counting")
    app.stream(IN).join(app.table(ROWS), lambda one, two: one + two).to(Topic("o", int))
    with pytest.raises(ConfigError) as caught:
        make_manifest(app.build(), {"in": 2, "rows": 3, "o": 1})
    assert caught.value.code == "not-co-partitioned"


def test_a_repartition_with_a_count_of_its_own_must_fit_what_it_meets() -> None:
    app = App("counting")
    moved = app.stream(IN).repartition("again", partitions=2)
    moved.join(app.table(ROWS), lambda one, two: one + two).to(Topic("o", int))
    with pytest.raises(ConfigError, match="not-co-partitioned"):
        make_manifest(app.build(), {"in": 2, "rows": 3, "o": 1})


def test_it_is_written_at_the_first_start_and_found_at_the_next(log: SqliteLog) -> None:
    with Driver(counting(), log=log, partitions=2) as d:
        d.run()
    written = read_control(log, "counting").entries["manifest/1"]
    manifest = msgspec.json.decode(written, type=Manifest)
    starts = {"in": [0, 0]}
    assert manifest == make_manifest(counting().build(), {"in": 2, "out": 2}, starts=starts, code=Code())
    with Driver(counting(), log=log, partitions=4) as d:
        d.send(IN, "ada", 1)
        d.run()
        assert d.rows(OUT) == {"1": 1}
    assert read_control(log, "counting").entries["manifest/1"] == written


def test_the_topics_of_the_log_are_those_of_the_manifest(log: SqliteLog) -> None:
    with Driver(counting(partitions=3), log=log, partitions=2) as d:
        d.run()
    for name, count in (("counting-by-name-repartition", 3), ("counting-counts-changelog", 3), ("in", 2)):
        assert log.describe(name).partitions == count


class Config(Settings):
    limits: tuple[int, ...] = (1, 2)
    note: str = operational("")


def configured(config: Config) -> App:
    app = App("counting", config)
    app.stream(IN).count("counts").to(OUT)
    return app


def test_settings_that_json_writes_in_another_way_are_the_same_at_the_next_start(log: SqliteLog) -> None:
    for note in ("a", "b"):
        with Driver(configured(Config(note=note)), log=log) as d:
            d.run()
    with (
        Driver(configured(Config(limits=(1, 3))), log=log) as d,
        pytest.raises(UpgradeError, match='setting "limits" changed'),
    ):
        d.run()


@pytest.mark.parametrize("change", ["store", "repartition", "sink", "step", "type"])
def test_any_change_that_shows_is_refused_by_name(log: SqliteLog, change: str) -> None:
    with Driver(counting(), log=log) as d:
        d.run()
    app = App("counting")
    stream = app.stream(IN).group_by("moved" if change == "repartition" else "by-name", name_of)
    if change == "step":
        stream = stream.filter(bool)
    target = TableTopic("other", int) if change == "sink" else OUT
    if change == "type":
        stream.sum("counts", float).to(TableTopic("floats", float))
    else:
        stream.count("others" if change == "store" else "counts").to(target)
    with Driver(app, log=log) as d, pytest.raises(UpgradeError) as caught:
        d.run()
    assert caught.value.code == "changed-app"
