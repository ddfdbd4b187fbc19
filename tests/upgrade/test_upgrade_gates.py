"""Gates across an upgrade: what passed is not passed again, and what is held stays held, in order."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.upgrade.upgraded import check_live, check_upgraded, seen, upgraded
from tests.upgrade.versions import IN, MORE, OUT, PARTITIONS, TEXTS, manifest_of

from tidegate import App, Topic, UpgradeError
from tidegate.log.topic import TopicSpec
from tidegate.testing import Driver
from tidegate.upgrade.consent import Consent

KEYS = [f"k{n}" for n in range(5)]


def large(value: int) -> bool:
    return value >= 20


def everything(value: int) -> bool:
    return value >= 0


def before_it(version: int) -> App:
    """The filter before the gate changes."""
    app = App("shop")
    passed = app.stream(IN).filter(everything if version == 1 else large).gate("door")
    passed.sum("sums", int).to(OUT)
    return app


def behind_it(version: int) -> App:
    """The filter behind the gate changes."""
    app = App("shop")
    passed = app.stream(IN).gate("door")
    passed.filter(everything if version == 1 else large).sum("sums", int).to(OUT)
    return app


def behind_a_repartition(version: int) -> App:
    app = App("shop")
    moved = app.stream(IN).filter(everything if version == 1 else large).repartition("moved")
    passed = moved.gate("door")
    passed.filter(everything if version == 1 else large).sum("sums", int).to(OUT)
    return app


def also_calculates(version: int) -> App:
    """The subtopology of the gate also counts, from the source and from an internal topic."""
    app = App("shop")
    chosen = app.stream(IN).filter(everything if version == 1 else large)
    chosen.gate("door").sum("sums", int).to(OUT)
    chosen.count("counts").map(label).to(TEXTS)
    return app


def internal_also_counted(version: int) -> App:
    app = App("shop")
    moved = app.stream(IN).filter(everything if version == 1 else large).repartition("moved")
    moved.gate("door").sum("sums", int).to(OUT)
    moved.count("counts").map(label).to(TEXTS)
    return app


def gets_a_repartition(version: int) -> App:
    app = App("shop")
    events = app.stream(IN)
    (events if version == 1 else events.repartition("moved")).gate("door").sum("sums", int).to(OUT)
    return app


def loses_a_repartition(version: int) -> App:
    return gets_a_repartition(3 - version)


def label(count: int) -> str:
    return f"{count} times"


APPS = (
    before_it,
    behind_it,
    behind_a_repartition,
    also_calculates,
    internal_also_counted,
    gets_a_repartition,
    loses_a_repartition,
)


def send(d: Driver, start: int, end: int) -> None:
    for number in range(start, end):
        d.send(IN, KEYS[number % len(KEYS)], number)


@pytest.mark.parametrize("build", APPS, ids=lambda build: build.__name__)
def test_nothing_passes_twice_and_held_events_come_in_order(build: Callable[[int], App]) -> None:
    with Driver(build(1), partitions=PARTITIONS) as d:
        gate = d.gate("door")
        send(d, 0, 20)
        d.run()
        gate.pause("k1", reason="check")
        gate.pause("k2")
        d.run()
        send(d, 20, 40)
        d.run()
        manifest = manifest_of(d.log)
        assert manifest is not None
        admitted = Topic(manifest.gates["door"].admitted, int)
        passed, held = d.by_key(admitted), gate.events("k1")
        before = {sink: seen(d.log, sink) for sink in manifest.sinks if sink in ("out", "texts")}
        audit = gate.audit()
        d.stop()
        send(d, 40, 50)  # the new version processes these
        entry = d.upgrade(build(2))
        assert entry is not None
        check_upgraded(d.log, build(2), entry, before, manifest)
        assert d.by_key(admitted) == passed
        gate = d.gate("door")
        assert (gate.events("k1"), gate.audit()) == (held, audit)
        gate.resume("k2")
        d.run()
        status = gate.status("k1")
        assert status is not None
        assert status.reason == "check"
        send(d, 50, 60)
        d.run()
        assert gate.held("k1") == 8
        gate.resume("k1")
        d.run()
        assert d.by_key(admitted) == {key: list(range(n, 60, 5)) for n, key in enumerate(KEYS)}
        check_live(d, build(2), *before)


def without(version: int) -> App:
    app = App("shop")
    passed = app.stream(IN).gate("door") if version == 2 else app.stream(IN)
    passed.sum("sums", int).to(OUT)
    return app


def test_a_new_gate_lets_what_was_processed_pass_without_it() -> None:
    with Driver(without(1), partitions=PARTITIONS) as d:
        send(d, 0, 20)
        d.run()
        upgraded(d, without(2), "out")
        gate = d.gate("door")
        gate.pause("k1")
        d.run()
        send(d, 20, 40)
        d.run()
        assert gate.held("k1") == 4
        expected = {key: sum(range(n, 40, 5)) for n, key in enumerate(KEYS)}
        assert d.rows(OUT) == {**expected, "k1": 1 + 6 + 11 + 16}
        gate.resume("k1")
        d.run()
        assert d.rows(OUT) == expected


def test_a_gate_that_goes_away_releases_first_or_drops_with_consent() -> None:
    with Driver(without(2), partitions=PARTITIONS) as d:
        gate = d.gate("door")
        send(d, 0, 20)
        d.run()
        gate.pause("k1")
        d.run()
        send(d, 20, 40)
        d.run()
        ends = seen(d.log, "out")
        with pytest.raises(UpgradeError) as asked:
            d.upgrade(without(1), Consent(max_removed=1, former=True))
        assert "gate door is gone, and holds 4 events" in asked.value.message
        assert seen(d.log, "out") == ends
        gate.resume("k1")
        d.run()
        upgraded(d, without(1), "out", consent=Consent(max_removed=1))
        send(d, 40, 60)
        d.run()
        assert d.rows(OUT) == {key: sum(range(n, 60, 5)) for n, key in enumerate(KEYS)}


def gets_a_source(version: int) -> App:
    """A second source before a gate that stays, and a table that counts beside it."""
    app = App("shop")
    events = app.stream(IN) if version == 1 else app.stream(IN).merge(app.stream(MORE))
    events.gate("door").sum("sums", int).to(OUT)
    events.count("counts").map(label).to(TEXTS)
    return app


def only_gets_a_source(version: int) -> App:
    app = App("shop")
    events = app.stream(IN) if version == 1 else app.stream(IN).merge(app.stream(MORE))
    events.gate("door").sum("sums", int).to(OUT)
    return app


@pytest.mark.parametrize("build", [only_gets_a_source, gets_a_source], ids=lambda build: build.__name__)
def test_records_of_a_new_source_come_to_the_gate(build: Callable[[int], App]) -> None:
    with Driver(build(1), partitions=PARTITIONS) as d:
        d.log.create(TopicSpec("more", PARTITIONS))
        send(d, 0, 20)
        for number in range(20, 30):
            d.send(MORE, KEYS[number % len(KEYS)], number)
        d.run()
        d.upgrade(build(2))
        send(d, 30, 40)
        d.run()
        admitted = Topic("shop-door-admitted", int)
        assert sorted(d.values(admitted)) == list(range(40))
        assert d.rows(OUT) == {key: sum(range(n, 40, 5)) for n, key in enumerate(KEYS)}
        if build is gets_a_source:
            assert d.rows(TEXTS) == dict.fromkeys(KEYS, "8 times")
