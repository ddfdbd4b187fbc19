"""DataFrame stages in previews and upgrades on real Spark."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.two_versions import PARTITIONS, WORD_LIST, two_versions
from tests.waiting import HANG_SECONDS, wait_for

import tidegate.upgrade
from tidegate import TableTopic, Topic, UserCodeError
from tidegate.config.config import Config
from tidegate.connect.connection import Connection
from tidegate.load import load_app
from tidegate.log import names
from tidegate.log.positions import read_positions
from tidegate.log.protocol import Log
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.driver.coordinator import DriverState, Patience
from tidegate.runtime.topics.control import read_control
from tidegate.runtime.topics.manifests import find_manifest
from tidegate.runtime.topics.upgrades import UpgradeEntry, upgrade_of
from tidegate.spark.recalculating import upgrade_on_spark
from tidegate.spark.running import Running, Upgrading
from tidegate.testing import Driver
from tidegate.types import TopicPartition
from tidegate.upgrade.consent import Consent
from tidegate.upgrade.difference import Counts

Start = Callable[..., Running]
APP = '''
"""Counts words behind a DataFrame stage; version 2 of the stage writes two of them in capital letters. The
file `broken` makes it fail, the file `lost` kills the worker that runs its next batch."""

import os
import signal

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from tidegate import App, TableTopic, Topic

BROKEN, LOST = "{folder}/broken", "{folder}/lost"
WORDS = Topic("{prefix}-words", str)
COUNTS = TableTopic("{prefix}-counts", int)
EVENTS = Topic("{prefix}-events", str)
app = App("{prefix}")


def shouted(words: DataFrame) -> DataFrame:
    loud = f.upper("value") if {version} == 2 else f.col("value")
    if os.path.exists(BROKEN) and words.agg(f.max("offset")).first()[0] > 19:
        raise ValueError("it is broken")
    kept = words.select("key", "value", "partition", "offset")
    if os.path.exists(LOST):
        kept = kept.mapInArrow(lost, kept.schema)
    return kept.withColumn("value", f.when(f.length("value") > 2, loud).otherwise(f.col("value")))


def lost(batches):
    if os.path.exists(LOST):
        os.unlink(LOST)
        os.kill(os.getpid(), signal.SIGKILL)
    yield from batches


framed = app.stream(WORDS).frame("shout", shouted)
framed.group_by("by-word", lambda word: word).count("counts").to(COUNTS)
framed.to(EVENTS)
'''
SENT = [(f"k{number % 5}", WORD_LIST[number % 4]) for number in range(60)]
NEW = Counter(word.upper() if len(word) > 2 else word for _, word in SENT)


@pytest.fixture
def prefix() -> str:
    return f"s{uuid.uuid4().hex[:8]}"


@pytest.fixture
def flags(tmp_path: Path) -> Path:
    """The folder of the files that make the stage fail: inside of the project, which executors have in a zip
    file."""
    folder = tmp_path / "flags"
    folder.mkdir()
    return folder


@pytest.fixture
def config(prefix: str, flags: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Config]:
    text = APP.replace("{folder}", str(flags))
    with two_versions(text, prefix, tmp_path, monkeypatch) as found:
        yield found


@pytest.fixture
def words(prefix: str) -> Topic[str, str]:
    return Topic(f"{prefix}-words", str)


@pytest.fixture
def counts(prefix: str) -> TableTopic[str, int]:
    return TableTopic(f"{prefix}-counts", int)


def ends_of(log: Log, topic: str) -> int:
    return sum(log.ends([TopicPartition(topic, number) for number in range(PARTITIONS)]).values())


def test_a_new_version_of_a_stage_replaces_the_old_one_and_goes_on_live(
    start: Start,
    log: Connection,
    prefix: str,
    words: Topic[str, str],
    counts: TableTopic[str, int],
) -> None:
    events = Topic(f"{prefix}-events", str)
    for key, word in SENT:
        log.send(words, key, word)
    old = start(f"{prefix}_1:app", slots=1)
    wait_for(lambda: counts.name in log.log.names() and sum(log.rows(counts).values()) == len(SENT))
    before = ends_of(log.log, counts.name)
    new = start(f"{prefix}_2:app", slots=1, upgrading=Upgrading(Consent(removals=frozenset([counts.name]))))
    assert old.wait(HANG_SECONDS)
    wait_for(lambda: new.state is DriverState.RUNNING)
    assert log.rows(counts) == NEW
    entry = upgrade_of(read_control(log.log, prefix))
    assert entry is not None
    assert (entry.state, entry.generation) == ("done", 2)
    assert entry.differences[counts.name].differing == 4 == ends_of(log.log, counts.name) - before
    for key, word in SENT[:20]:
        log.send(words, key, word)
    added = Counter(word.upper() if len(word) > 2 else word for _, word in SENT[:20])
    wait_for(lambda: log.rows(counts) == NEW + added)
    new.stop()
    assert new.wait(HANG_SECONDS)
    sent = [word for _, word in SENT] + list(added.elements())
    wait_for(lambda: Counter(record.value for record in log.read(events)) == Counter(sent))
    assert not [topic for topic in log.log.names() if names.of_preview(topic)]


@pytest.fixture
def ran(
    config: Config,
    spark: SparkSession,
    prefix: str,
    words: Topic[str, str],
    counts: TableTopic[str, int],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Driver]:
    """Version 1 has run. Batches are small from here on."""
    with closing(SqliteLog(config.folder / "log.db")) as log:
        app = load_app(f"{prefix}_1:app")
        with Driver(app, partitions=PARTITIONS, log=log, spark=spark) as driver:
            for number, (key, word) in enumerate(SENT):
                driver.send(words, key, word, timestamp=1_000 + number)
            driver.run()
            driver.stop()
            assert driver.rows(counts) == Counter(word for _, word in SENT)
            monkeypatch.setattr("tidegate.runtime.slot.stage.RECORDS_PER_BATCH", 40)
            yield driver


def upgrade(config: Config, spark: SparkSession, prefix: str, failures: int) -> UpgradeEntry | None:
    return upgrade_on_spark(
        load_app(f"{prefix}_2:app"),
        spark,
        name=f"{prefix}_2:app",
        config=config,
        slots=1,
        patience=Patience(failures=failures, back_off_seconds=0.05),
        consent=Consent(removals=frozenset([f"{prefix}-counts"])),
    )


def test_killed_in_a_stage_an_upgrade_goes_on_from_its_position(
    ran: Driver, config: Config, flags: Path, spark: SparkSession, prefix: str, counts: TableTopic[str, int]
) -> None:
    """The first try ends in its second batch; in the next one a worker is killed."""
    before = ends_of(ran.log, counts.name)
    (flags / "broken").touch()
    with pytest.raises(UserCodeError, match=r"stage 'shout': .*it is broken"):
        upgrade(config, spark, prefix, failures=0)
    assert ends_of(ran.log, counts.name) == before
    assert read_control(ran.log, prefix).active() == 1
    reached = [
        position.sources
        for task, position in read_positions(ran.log, names.upgrade(prefix)).items()
        if task.subtopology == 1
    ]
    topic = f"{prefix}-shout-input.g2-repartition"
    assert [sources.keys() for sources in reached] == [{topic}]
    assert 20 <= sum(reached[0][topic].values()) <= 40 < ends_of(ran.log, topic)
    (flags / "broken").unlink()
    (flags / "lost").touch()
    entry = upgrade(config, spark, prefix, failures=3)
    assert not (flags / "lost").exists()
    assert entry is not None
    assert (entry.state, entry.generation) == ("done", 2)
    assert ran.rows(counts) == NEW
    assert entry.differences[counts.name].differing == 4 == ends_of(ran.log, counts.name) - before
    put = [record.timestamp for record in ran.records(counts) if record.key.isupper()]
    assert len(put) == 2
    assert max(put) < 2_000, "stream time, not the clock"
    manifest = find_manifest(ran.log, prefix)
    assert manifest is not None
    assert manifest.internal["shout-input"] == topic


def test_a_preview_with_a_stage_is_that_of_the_driver_of_testing(
    ran: Driver, config: Config, spark: SparkSession, prefix: str, counts: TableTopic[str, int]
) -> None:
    app = load_app(f"{prefix}_2:app")
    expected = ran.preview(app)
    found = tidegate.upgrade.preview(app, spark=spark, name=f"{prefix}_2:app", config=config, slots=1)
    assert found.counts == expected.counts == {counts.name: Counts(put=2, removed=2, equal=2)}
    assert found.texts() == expected.texts()
    assert not [topic for topic in ran.log.names() if names.of_preview(topic)]
