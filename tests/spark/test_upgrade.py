"""An upgrade on real Spark, while records are sent all the time."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.spark.two_versions import PARTITIONS, WORD_LIST, two_versions
from tests.waiting import wait_for

from tidegate import TableTopic, Topic
from tidegate.clock import ManualClock
from tidegate.config.config import Config
from tidegate.connect.connection import Connection
from tidegate.load import load_app
from tidegate.log import names
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.topics.control import read_control
from tidegate.runtime.topics.manifests import find_manifest
from tidegate.runtime.topics.upgrades import upgrade_of
from tidegate.spark.recalculating import upgrade_on_spark
from tidegate.spark.running import Running, Upgrading
from tidegate.testing import Driver
from tidegate.upgrade.consent import Consent

Start = Callable[..., Running]
APP = '''
"""Counts words behind an internal topic, and sends each as an event; version 2 writes two of them in capital
letters."""

from tidegate import App, TableTopic, Topic

WORDS = Topic("{prefix}-words", str)
COUNTS = TableTopic("{prefix}-counts", int)
EVENTS = Topic("{prefix}-events", str)
app = App("{prefix}")


def changed(word: str) -> str:
    return word.upper() if {version} == 2 and word in ("efgh", "ijkl") else word


by_word = app.stream(WORDS).select_key(changed).repartition("by-word")
by_word.count("counts").to(COUNTS)
by_word.to(EVENTS)
'''


@pytest.fixture
def prefix() -> str:
    return f"u{uuid.uuid4().hex[:8]}"


@pytest.fixture
def config(prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Config]:
    with two_versions(APP, prefix, tmp_path, monkeypatch) as found:
        yield found


def test_a_new_version_replaces_the_old_one_while_records_are_sent(
    start: Start, config: Config, log: Connection, prefix: str
) -> None:
    words, counts = Topic(f"{prefix}-words", str), TableTopic(f"{prefix}-counts", int)
    events = Topic(f"{prefix}-events", str)
    sent = [(f"k{number % 5}", WORD_LIST[number % 4]) for number in range(400)]
    for key, word in sent:
        log.send(words, key, word)
    old = start(f"{prefix}_1:app", slots=1)
    wait_for(lambda: counts.name in log.log.names() and sum(log.rows(counts).values()) == len(sent))
    stop = threading.Event()

    def go_on() -> None:
        while not stop.wait(0.05):
            sent.append((f"k{len(sent) % 5}", WORD_LIST[len(sent) % 4]))
            log.send(words, *sent[-1])

    sender = threading.Thread(target=go_on)
    sender.start()
    try:
        allowed = Upgrading(Consent(removals=frozenset([counts.name])))
        new = start(f"{prefix}_2:app", slots=1, upgrading=allowed)
        assert old.wait(60)
        assert old.state.value == "stopped"
    finally:
        stop.set()
        sender.join()
    expected = Counter(word.upper() if word in ("efgh", "ijkl") else word for _, word in sent)
    wait_for(lambda: log.rows(counts) == expected)
    new.stop()
    assert new.wait(60)
    assert Counter(record.value.lower() for record in log.read(events)) == Counter(word for _, word in sent)
    entry = upgrade_of(read_control(log.log, prefix))
    assert entry is not None
    found = entry.differences[counts.name]
    assert (entry.state, found.put, found.removed, found.equal) == ("done", 2, 2, 2)
    manifest = find_manifest(log.log, prefix)
    assert manifest is not None
    assert manifest.generation == 2
    assert [topic for topic in log.log.names() if names.of_preview(topic)] == []
    assert not (config.folder / config.state_dir / names.upgrade(prefix)).exists()


def test_an_upgrade_that_starts_no_slot_leaves_the_session_usable(
    spark: SparkSession, config: Config, log: Connection, prefix: str
) -> None:
    """Each task of a session fetches all files that were ever shipped."""
    log.send(Topic(f"{prefix}-words", str), "k", "ab")
    name = f"{prefix}_1:app"
    assert upgrade_on_spark(load_app(name), spark, name=name, config=config) is None
    assert spark.sparkContext.parallelize([1], 1).count() == 1


def test_the_commands_upgrade_and_roll_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Version 1 ran in the driver of testing: it is a former generation like any other."""
    (tmp_path / "shop.py").write_text(APP.format(prefix="shop", version=1))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    words = Topic("shop-words", str)
    with closing(SqliteLog(tmp_path / "log.db")) as log:
        with Driver(load_app("shop:app"), partitions=PARTITIONS, log=log, clock=ManualClock()) as driver:
            for number in range(40):
                driver.send(words, f"k{number}", WORD_LIST[number % 4])
            driver.run()
        del sys.modules["shop"]
        (tmp_path / "shop.py").write_text(APP.format(prefix="shop", version=2))
        done = command(tmp_path, 0, "upgrade", "shop:app", "--allow-removals", "shop-counts")["upgrade"]
        assert (done["state"], done["generation"]) == ("done", 2)
        counts = {"put": 2, "changed": 0, "removed": 2, "equal": 2, "foreign": 0}
        assert done["differences"]["shop-counts"] == counts
        (tmp_path / "shop.py").write_text(APP.format(prefix="shop", version=1))
        back = command(tmp_path, 0, "rollback", "shop:app", "--allow-removals", "shop-counts")["upgrade"]
        assert (back["generation"], back["differences"]["shop-counts"]) == (3, counts)
        assert find_manifest(log, "shop") is not None
        assert [topic for topic in log.names() if names.of_preview(topic)] == []


def command(folder: Path, code: int, *arguments: str) -> Any:
    words = [sys.executable, "-m", "tidegate", *arguments, "--log", "sqlite:///log.db", "--json"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == code, (done.stdout, done.stderr)
    return json.loads(done.stdout)
