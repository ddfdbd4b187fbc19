"""An upgrade: the rows of the new version, only what differs is published, and nothing is mixed."""

from __future__ import annotations

from contextlib import closing

import pytest
from tests.upgrade import versions
from tests.upgrade.checks import live_rows, states
from tests.upgrade.stories import STORY, send
from tests.upgrade.versions import EVENTS, OUT, PARTITIONS, Rows, fresh_rows

from tidegate import App, TableTopic, Topic
from tidegate.log import names
from tidegate.log.positions import read_positions
from tidegate.runtime.replay import REPLAYED, SENT
from tidegate.runtime.topics.status import Recalculating, StatusFollower
from tidegate.runtime.topics.upgrades import UpgradeEntry
from tidegate.testing import Driver
from tidegate.topology.manifest import Manifest
from tidegate.types import TopicPartition

ORDERS, TOTALS = Topic("orders", int), TableTopic("totals", int)
STEPS = [f"upgrade.{number}" for number in range(1, 9)]


def shop(limit: int | None = None) -> App:
    app = App("shop")
    orders = app.stream(ORDERS)
    (orders if limit is None else orders.filter(lambda cents: cents < limit)).sum("sums", int).to(TOTALS)
    return app


def rows_of(d: Driver, sink: str) -> dict[bytes, bytes]:
    return states(d) if sink == "sums" else live_rows(d, sink)


def check_rows(
    d: Driver, app: App, entry: UpgradeEntry, before: Manifest | None, rows: dict[str, dict[bytes, bytes]]
) -> Rows:
    """The rows are those of a fresh run, and one record was published per key that differs."""
    assert entry.cut is not None
    expected = fresh_rows(app, d.log, entry.cut, before)
    for sink, fresh in expected.items():
        assert rows_of(d, sink) == fresh
        differing = sum(rows[sink].get(key) != fresh.get(key) for key in rows[sink].keys() | fresh.keys())
        assert entry.differences[sink].differing == differing
        if sink != "sums":
            topic = next(one for one in (OUT, versions.TEXTS) if one.name == sink)
            assert len(d.published(topic)) == differing
    return expected


def test_only_a_tombstone_for_the_key_that_is_gone() -> None:
    with Driver(shop(), partitions=3) as d:
        d.send(ORDERS, "keyA", 1, 2)
        d.send(ORDERS, "keyB", 5)
        d.send(ORDERS, "keyC", 900)
        d.run()
        d.upgrade(shop(500))
        assert d.published(TOTALS) == [("keyC", None)]
        d.send(ORDERS, "keyA", 10)
        d.run()
        assert d.rows(TOTALS) == {"keyA": 13, "keyB": 5}
        d.assert_stores_match_changelogs()


def test_live_positions_hold_nothing_that_only_the_recalculation_needs() -> None:
    with Driver(versions.grouped(1), partitions=PARTITIONS) as d:
        send(d, STORY)
        d.run()
        d.upgrade(versions.grouped(2))
        send(d, STORY[:5])
        d.run()
        names_of_entries = {name for one in read_positions(d.log, "shop").values() for name in one.progress}
        assert "sequence" in names_of_entries
        assert not [name for name in names_of_entries if name == REPLAYED or name.startswith(SENT)]


def test_its_progress_is_in_the_status_topic() -> None:
    with Driver(shop(), partitions=3) as d:
        d.send(ORDERS, "keyA", 1, 2)
        d.run()
        with closing(StatusFollower(d.log, "shop")) as status:
            d.upgrade(shop(500))
            found = [one for one in status.poll(1.0) if isinstance(one, Recalculating)]
        assert (found[-1].done, found[-1].to_do) == (2, 2)


def test_equal_results_publish_nothing() -> None:
    with Driver(shop(), partitions=3) as d:
        d.send(ORDERS, "keyA", 1, 2)
        d.run()
        ends = d.log.ends([TopicPartition("totals", number) for number in range(3)], committed=False)
        entry = d.upgrade(shop(500))
        assert entry is not None
        assert entry.state == "done"
        assert d.log.ends(ends, committed=False) == ends
        assert d.upgrade(shop(500)) is None


@pytest.mark.parametrize("name", versions.ALL)
def test_the_rows_are_those_of_a_fresh_run(name: str) -> None:
    build, version = versions.ALL[name], 3 if name == "chained" else 2
    with Driver(build(1), partitions=PARTITIONS) as d:
        send(d, STORY[:50])
        d.run()
        before = versions.manifest_of(d.log)
        rows: Rows = {
            sink: rows_of(d, sink) for sink in ("out", "texts", "sums") if sink in known_sinks(before)
        }
        events, calls = len(d.records(EVENTS)) if name == "grouped" else 0, len(versions.CALLS)
        entry = d.upgrade(build(version))
        assert entry is not None
        expected = check_rows(d, build(version), entry, before, rows)
        assert any(expected[sink] != rows[sink] for sink in expected)
        assert len(versions.CALLS) == calls
        assert not any(names.of_preview(topic) for topic in d.log.names())
        send(d, STORY[50:])
        d.run()
        d.assert_stores_match_changelogs()
        if name == "grouped":
            assert len(d.records(EVENTS)) == events + sum(which == 0 for which, *_ in STORY[50:])
        if name not in ("ordered", "enriched"):
            check_live(d, build(version), before)


def known_sinks(manifest: Manifest | None) -> set[str]:
    assert manifest is not None
    return {*manifest.sinks, *manifest.models}


def check_live(d: Driver, app: App, before: Manifest | None) -> None:
    """After more records the rows are those of the new version over everything."""
    from tidegate.runtime.replay import Cut
    from tidegate.upgrade.cut import by_topic

    assert before is not None
    gates = [gate.admitted for gate in before.gates.values()]
    at = [
        TopicPartition(topic, number) for topic in [*before.sources, *gates] for number in range(PARTITIONS)
    ]
    cut = Cut(by_topic(d.log.ends(at)), d.clock.now())
    for sink, rows in fresh_rows(app, d.log, cut, before).items():
        assert rows_of(d, sink) == rows


@pytest.mark.parametrize("at", [*STEPS, "recalculate.1", "recalculate.2", "recalculate.3", "commit.5"])
def test_killed_at_any_step_it_goes_on(at: str) -> None:
    with Driver(versions.chained(1), partitions=PARTITIONS) as d:
        send(d, STORY[:40])
        d.run()
        before = versions.manifest_of(d.log)
        rows: Rows = {"out": rows_of(d, "out")}
        d.crash(at=at)
        d.crash(at=at)
        entry = d.upgrade(versions.chained(3))
        assert entry is not None
        check_rows(d, versions.chained(3), entry, before, rows)
        send(d, STORY[40:])
        d.run()
        check_live(d, versions.chained(3), before)
        assert not any(names.of_preview(topic) for topic in d.log.names())
        assert len(d.happened) == 2
