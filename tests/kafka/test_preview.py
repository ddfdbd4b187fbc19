"""A preview with Kafka as the log: topics, offsets with gaps, and transactions of a broker."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing

import pytest
from tests.kafka.own_names import OwnNames
from tests.upgrade import versions
from tests.upgrade.checks import check_against_fresh, noted_cuts
from tests.upgrade.stories import STORY, send
from tests.upgrade.versions import OUT, PARTITIONS, START, all_ends

from tidegate.clock import ManualClock
from tidegate.testing import Driver
from tidegate.testing.broker import KafkaCluster


@pytest.fixture
def log(kafka: KafkaCluster) -> Iterator[OwnNames]:
    with closing(OwnNames(kafka.bootstrap, f"p{uuid.uuid4().hex[:8]}-", clock=ManualClock(START))) as opened:
        yield opened


def test_a_preview_on_kafka_equals_a_fresh_run_and_leaves_nothing(log: OwnNames) -> None:
    clock = ManualClock(START)
    with noted_cuts() as cuts, Driver(versions.grouped(1), partitions=PARTITIONS, log=log, clock=clock) as d:
        send(d, STORY[:30])
        d.run()
        send(d, STORY[30:])
        d.run()
        before = all_ends(log)
        preview = d.preview(versions.grouped(2))
        check_against_fresh(d, versions.grouped(2), preview, cuts[-1])
        assert preview.counts["out"].differing > 0
        assert all_ends(log) == before
        assert d.preview(versions.grouped(1)).counts["out"].differing == 0
        d.run()
        assert all_ends(log) == before
        assert len(d.rows(OUT)) > 0
