"""A preview on real Spark, while the live app goes on on the same session."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.spark.two_versions import PARTITIONS, WORD_LIST, two_versions
from tests.waiting import wait_for

import tidegate.upgrade
from tidegate import App, TableTopic, Topic
from tidegate.clock import ManualClock, SystemClock
from tidegate.config.config import Config
from tidegate.connect.connection import Connection
from tidegate.load import load_app
from tidegate.log import names
from tidegate.log.location import LogLocation
from tidegate.log.open import open_log
from tidegate.log.protocol import Log
from tidegate.log.sqlite.log import SqliteLog
from tidegate.spark.running import Running
from tidegate.testing import Driver
from tidegate.testing.broker import KafkaCluster
from tidegate.types import TopicPartition
from tidegate.upgrade.difference import Counts

Start = Callable[..., Running]
APP = '''
"""Counts words behind an internal topic; version 2 writes two of them in capital letters."""

from tidegate import App, TableTopic, Topic

WORDS = Topic("{prefix}-words", str)
COUNTS = TableTopic("{prefix}-counts", int)
app = App("{prefix}")


def changed(word: str) -> str:
    return word.upper() if {version} == 2 and word in ("efgh", "ijkl") else word


app.stream(WORDS).group_by("by-word", changed).count("counts").to(COUNTS)
'''


@pytest.fixture
def prefix() -> str:
    return f"p{uuid.uuid4().hex[:8]}"


@pytest.fixture
def config(prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Config]:
    with two_versions(APP, prefix, tmp_path, monkeypatch) as found:
        yield found


def test_a_preview_shows_what_changes_while_the_live_app_goes_on(
    start: Start, spark: SparkSession, config: Config, log: Connection, prefix: str
) -> None:
    words, counts = Topic(f"{prefix}-words", str), TableTopic(f"{prefix}-counts", int)
    sent = [(f"k{number % 5}", WORD_LIST[number % 4]) for number in range(400)]
    for key, word in sent:
        log.send(words, key, word)
    live = start(f"{prefix}_1:app", slots=1)
    wait_for(lambda: counts.name in log.log.names() and sum(log.rows(counts).values()) == len(sent))
    stop = threading.Event()

    def go_on() -> None:
        while not stop.wait(0.2):
            sent.append((f"k{len(sent) % 5}", f"n{len(sent)}"))
            log.send(words, *sent[-1])

    sender = threading.Thread(target=go_on)
    sender.start()
    try:
        app = load_app(f"{prefix}_2:app", config.settings)
        found = tidegate.upgrade.preview(app, spark=spark, name=f"{prefix}_2:app", config=config, slots=2)
    finally:
        stop.set()
        sender.join()
    wait_for(lambda: log.rows(counts) == Counter(word for _, word in sent))
    live.stop()
    assert live.wait(60)
    rows = {(row.sink, row.key): (row.before, row.after) for row in found.frame(spark).collect()}
    assert rows == {
        (counts.name, "EFGH"): (None, "100"),
        (counts.name, "IJKL"): (None, "100"),
        (counts.name, "efgh"): ("100", None),
        (counts.name, "ijkl"): ("100", None),
    }
    [one] = found.counts.values()
    assert (one.put, one.changed, one.removed) == (2, 0, 2)
    assert one.equal >= 2
    assert [topic for topic in log.log.names() if names.of_preview(topic) and prefix in topic] == []
    assert not (config.folder / config.state_dir / names.preview(prefix)).exists()


def test_a_preview_on_slots_with_kafka_is_that_of_one_process(
    spark: SparkSession, kafka: KafkaCluster, config: Config, prefix: str
) -> None:
    words, counts = Topic(f"{prefix}-words", str), TableTopic(f"{prefix}-counts", int)
    before, after = (load_app(f"{prefix}_{version}:app") for version in (1, 2))
    on_kafka = msgspec.structs.replace(config, log=kafka.url)
    with closing(open_log(LogLocation.of(on_kafka), clock=SystemClock())) as log:
        with Driver(before, partitions=PARTITIONS, log=log) as driver:
            for number in range(5):
                driver.send(words, f"k{number}", *WORD_LIST * 10)
            driver.run()
            expected = driver.preview(after)
        ends = ends_of(log, prefix)
        found = tidegate.upgrade.preview(after, spark=spark, name=f"{prefix}_2:app", config=on_kafka, slots=2)
        assert ends_of(log, prefix) == ends
    assert (found.counts, found.records) == (expected.counts, expected.records)
    assert found.texts() == expected.texts()
    assert found.counts[counts.name] == Counts(put=2, removed=2, equal=2)
    assert {row["key"] for row in found.texts()} == {"EFGH", "IJKL", "efgh", "ijkl"}


def ends_of(log: Log, prefix: str) -> dict[TopicPartition, int]:
    """The end of each partition of each topic of a test."""
    topics = [topic for topic in log.names() if prefix in topic]
    found = [
        TopicPartition(topic, number) for topic in topics for number in range(log.describe(topic).partitions)
    ]
    return {partition: int(end) for partition, end in log.ends(found).items()}


def test_the_command_starts_spark_shows_the_rows_and_writes_them(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(APP.format(prefix="shop", version=1))
    words, counts = Topic("shop-words", str), TableTopic("shop-counts", int)
    with closing(SqliteLog(tmp_path / "log.db")) as log:
        with Driver(load_version(tmp_path), partitions=PARTITIONS, log=log, clock=ManualClock()) as driver:
            for number in range(40):
                driver.send(words, f"k{number}", WORD_LIST[number % 4])
            driver.run()
            assert sum(driver.rows(counts).values()) == 40
        (tmp_path / "shop.py").write_text(APP.format(prefix="shop", version=2))
        command = [sys.executable, "-m", "tidegate", "plan", "shop:app", "--preview", "--rows", "1", "--json"]
        options = ["--log", "sqlite:///log.db", "--parquet", "rows.parquet"]
        done = subprocess.run([*command, *options], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 2, done.stderr
        found = json.loads(done.stdout)["preview"]
        assert (found["records"], found["settled"]) == (40, True)
        assert {name: found["sinks"][counts.name][name] for name in ("put", "removed", "equal")} == {
            "put": 2,
            "removed": 2,
            "equal": 2,
        }
        assert len(found["rows"]) == 1
        assert pq.read_table(tmp_path / "rows.parquet").num_rows == 4
        assert re.search(r"shop: recalculated (\d+) of \1 records", done.stderr)
        assert [topic for topic in log.names() if names.of_preview(topic)] == []


def load_version(folder: Path) -> App:
    """Import the app as it is in its file now."""
    spec = importlib.util.spec_from_file_location("shop", folder / "shop.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["shop"] = module
    try:
        spec.loader.exec_module(module)
        app: App = module.app
        app.build()
        return app
    finally:
        del sys.modules["shop"]
