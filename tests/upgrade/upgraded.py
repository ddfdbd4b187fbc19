"""Upgrade an app in a driver, and compare what its consumers see with a fresh run of the new version."""

from __future__ import annotations

from collections import Counter

from msgspec.structs import replace
from tests.upgrade.checks import live_rows
from tests.upgrade.versions import PARTITIONS, Rows, fresh_rows, manifest_of

from tidegate import App
from tidegate.log import names
from tidegate.log.protocol import Log
from tidegate.log.reads import read_between
from tidegate.log.route import partitions_of
from tidegate.runtime.replay import Cut
from tidegate.runtime.topics.upgrades import UpgradeEntry
from tidegate.testing import Driver
from tidegate.topology.manifest import Manifest
from tidegate.types import TopicPartition
from tidegate.upgrade.consent import Consent
from tidegate.upgrade.cut import by_topic

Seen = list[tuple[bytes, bytes | None]]


def seen(log: Log, topic: str) -> dict[int, Seen]:
    """What a committed reader gets, by partition."""
    found: dict[int, Seen] = {}
    for at in partitions_of(log.describe(topic)):
        end = int(log.ends([at])[at])
        batches = read_between(log, at, 0, end)
        columns = ([batch.column(number).to_pylist() for number in (2, 3)] for batch in batches)
        found[at.partition] = [pair for keys, values in columns for pair in zip(keys, values, strict=True)]
    return found


def added(before: dict[int, Seen], after: dict[int, Seen]) -> Seen:
    """What came to the end of each partition; nothing else has changed."""
    found: Seen = []
    for number, records in after.items():
        old = before.get(number, [])
        assert records[: len(old)] == old
        found += records[len(old) :]
    return found


def folded(records: dict[int, Seen]) -> dict[bytes, bytes]:
    rows = {key: value for one in records.values() for key, value in one}
    return {key: value for key, value in rows.items() if value is not None}


def upgraded(d: Driver, app: App, *sinks: str, consent: Consent | None = None) -> tuple[UpgradeEntry, Rows]:
    """Upgrade, and check that the rows of the sinks are those of a fresh run, that a committed reader sees
    exactly one record for each key that differs, and that nothing else is left of it."""
    before, known = {sink: seen(d.log, sink) for sink in sinks}, manifest_of(d.log)
    entry = d.upgrade(app, consent)
    assert entry is not None
    return entry, check_upgraded(d.log, app, entry, before, known)


def check_upgraded(
    log: Log, app: App, entry: UpgradeEntry, before: dict[str, dict[int, Seen]], known: Manifest | None
) -> Rows:
    assert entry.state == "done"
    assert entry.cut is not None
    expected = fresh_rows(app, log, entry.cut, _with_gates(known, entry.cut))
    for sink, records in before.items():
        after = seen(log, sink)
        rows, fresh = folded(records), expected[sink]
        assert folded(after) == fresh
        differing = {key for key in rows.keys() | fresh.keys() if rows.get(key) != fresh.get(key)}
        published = added(records, after)
        assert Counter(key for key, _ in published) == Counter(differing)
        assert dict(published) == {key: fresh.get(key) for key in differing}
        assert entry.differences[sink].differing == len(differing)
    check_nothing_left(log, app.id)
    return expected


def _with_gates(known: Manifest | None, cut: Cut) -> Manifest | None:
    """The manifest without gates that are gone: what they admitted is no source any more."""
    if known is None:
        return None
    gates = {name: gate for name, gate in known.gates.items() if gate.admitted in cut.ends}
    return replace(known, gates=gates)


def check_nothing_left(log: Log, app: str) -> None:
    """No topic of a recalculation of this app is left. Other tests may use the same broker."""
    mine = {topic for topic in log.names() if topic.startswith(app)}
    assert not any(names.of_preview(topic) for topic in mine)


def check_live(d: Driver, app: App, *sinks: str) -> None:
    """The rows are those of this version over all records there are: for apps that do not depend on how the
    records of tasks mix."""
    known = manifest_of(d.log)
    assert known is not None
    topics = [*known.sources, *(gate.admitted for gate in known.gates.values())]
    at = [TopicPartition(topic, n) for topic in topics for n in range(PARTITIONS)]
    fresh = fresh_rows(app, d.log, Cut(by_topic(d.log.ends(at)), d.clock.now()), known)
    for sink in sinks:
        assert live_rows(d, sink) == fresh[sink]
    d.assert_stores_match_changelogs()
