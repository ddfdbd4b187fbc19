"""Each reason for an upgrade on real Spark, on both logs, while records are sent all the time and workers of
slots are killed: what a committed reader of each sink sees, and the rows after it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.scenarios import SCENARIOS, UNCHANGED
from tests.spark.two_versions import SQLITE, written_versions
from tests.spark.upgrade_story import PARTITIONS, AllSeen, SlotKiller, Story
from tests.upgrade.upgraded import added
from tests.waiting import HANG_SECONDS

from tidegate.clock import SystemClock
from tidegate.config.config import Config
from tidegate.connect.connection import Connection
from tidegate.load import load_app
from tidegate.runtime.topics.manifests import find_manifest
from tidegate.spark.running import Running
from tidegate.upgrade.make_plan import make_plan

Start = Callable[..., Running]
EACH_RUN = {("removed source", "kafka")}
"""Scenarios that are not left to the soak."""


def cases() -> Iterator[object]:
    for kind in ("kafka", "sqlite"):
        for name in SCENARIOS:
            only = {} if (name, kind) in EACH_RUN else {"only": "takes 14 s of CPU"}
            yield pytest.param(name, kind, marks=pytest.mark.soak(**only), id=f"{name} on {kind}")


@pytest.fixture
def prefix() -> str:
    return f"u{uuid.uuid4().hex[:8]}"


@pytest.fixture
def config(
    name: str,
    kind: str,
    prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> Iterator[Config]:
    url = request.getfixturevalue("kafka").url if kind == "kafka" else SQLITE
    texts = SCENARIOS[name].texts(prefix)
    with written_versions(texts, prefix, tmp_path, monkeypatch, log=url, partitions=PARTITIONS) as found:
        yield found


@pytest.mark.parametrize(("name", "kind"), list(cases()))
def test_a_reader_sees_old_records_then_one_per_differing_key_then_live_ones(
    start: Start, spark: SparkSession, config: Config, log: Connection, prefix: str, name: str
) -> None:
    story = Story(SCENARIOS[name], prefix, config, log)
    story.send(150)
    old = start(story.version(1))
    story.wait_for_events()
    app = load_app(story.version(2))
    plan = make_plan(log.log, app.build(), SystemClock())
    assert name in plan.changes.kinds
    before: AllSeen = {}
    killer = SlotKiller(log.log, prefix)

    def look(point: str) -> None:
        killer.reached(point)
        if point == "upgrade.3":  # the old version has stopped
            before.update(story.seen())
        elif point == "upgrade.6":  # the next step decides
            assert story.seen() == before

    with story.sending():
        known = find_manifest(log.log, prefix)
        entry = story.upgrade(app, spark, look)
        killer.join()
        assert [one.attempt for one in killer.restarted] == [2, 2]
        assert old.wait(HANG_SECONDS)
        assert old.state.value == "stopped"
        published = story.check_upgraded(app, entry, before, known)
        assert (entry.differences[story.out].differing == 0) == (name in UNCHANGED)
        new = start(story.version(2))
        story.wait_for_events()
    story.wait_for_rows()
    story.wait_for_events()
    new.stop()
    assert new.wait(HANG_SECONDS)
    live = story.seen()
    assert added(published[story.out], live[story.out])
    events = story.sent_events()
    assert set(events.values()) == {1}
    assert events.keys() <= {*story.numbers, *story.more}
    if name == "removed source":
        assert added(before[story.out], published[story.out]) == [(b"keyC", None)]
