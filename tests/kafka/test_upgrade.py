"""Upgrades with Kafka as the log: killed at the decision and in the middle of publishing, too."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing

import pytest
from tests.kafka.own_names import OwnNames
from tests.upgrade import versions
from tests.upgrade.stories import STORY, send
from tests.upgrade.test_upgrade import check_live, check_rows, known_sinks, rows_of
from tests.upgrade.versions import PARTITIONS, START, Rows

from tidegate.clock import ManualClock
from tidegate.log import names
from tidegate.testing import Driver
from tidegate.testing.broker import KafkaCluster


@pytest.fixture
def log(kafka: KafkaCluster) -> Iterator[OwnNames]:
    with closing(OwnNames(kafka.bootstrap, f"u{uuid.uuid4().hex[:8]}-", clock=ManualClock(START))) as opened:
        yield opened


@pytest.mark.parametrize(
    ("name", "crashes"), [("chained", ["upgrade.6", "upgrade.7"]), ("gated", ["upgrade.8"]), ("modelled", [])]
)
def test_an_upgrade_on_kafka_has_the_rows_of_a_fresh_run(
    name: str, crashes: list[str], log: OwnNames
) -> None:
    build, version = versions.ALL[name], 3 if name == "chained" else 2
    with Driver(build(1), partitions=PARTITIONS, log=log, clock=ManualClock(START)) as d:
        send(d, STORY[:40])
        d.run()
        before = versions.manifest_of(log)
        rows: Rows = {sink: rows_of(d, sink) for sink in known_sinks(before) & {"out", "texts", "sums"}}
        for point in crashes:
            d.crash(at=point)
        entry = d.upgrade(build(version))
        assert entry is not None
        check_rows(d, build(version), entry, before, rows)
        assert not any(names.of_preview(topic) for topic in log.names())
        send(d, STORY[40:])
        d.run()
        check_live(d, build(version), before)
        d.assert_stores_match_changelogs()
        assert len(d.happened) == len(crashes)
