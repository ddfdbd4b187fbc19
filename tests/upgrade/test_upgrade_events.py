"""Event sinks, unchanged components, other apps and timers: what an upgrade leaves alone."""

from __future__ import annotations

from typing import Any

import pytest
from tests.upgrade.stories import STORY
from tests.upgrade.stories import send as send_story
from tests.upgrade.upgraded import check_live, seen, upgraded
from tests.upgrade.versions import EVENTS, IN, MORE, OUT, PARTITIONS, TEXTS, all_ends, changed

from tidegate import App, Context, LogError, Record, TableTopic, UpgradeError, stores
from tidegate.log.positions import read_positions
from tidegate.log.sqlite.log import SqliteLog
from tidegate.testing import Driver

SUMS = stores.key_value("sums", int)
MIDDLE, LAST = TableTopic("middle", int), TableTopic("last", int)


def announced(version: int) -> App:
    """Events behind a repartition, and a table."""
    app = App("shop")
    moved = app.stream(IN).repartition("moved")
    moved.to(EVENTS)
    moved.map(changed(version)).sum("sums", int).to(OUT)
    return app


def check_events() -> None:
    """Records are left in the sources when the old version stops; its internal topics are drained."""
    with Driver(announced(1), partitions=PARTITIONS, slots=2) as d:
        for number in range(20):
            d.send(IN, f"k{number % 5}", number)
        d.run()
        for number in range(20, 30):
            d.send(IN, f"k{number % 5}", number)
        for slot in d._open:
            slot.step(0)
            slot.commit()
        d._drain()
        for number in range(30, 40):
            d.send(IN, f"k{number % 5}", number)
        passed = len(d.records(EVENTS))
        assert passed == 30
        entry, _ = upgraded(d, announced(2), "out")
        assert entry.differences["out"].differing > 0
        assert len(d.records(EVENTS)) == passed
        d.run()
        assert sorted(d.values(EVENTS)) == list(range(40))
        assert d.by_key(EVENTS) == {f"k{n}": list(range(n, 40, 5)) for n in range(5)}
        check_live(d, announced(2), "out")


def test_each_event_behind_a_repartition_is_sent_once() -> None:
    check_events()


def test_an_old_version_that_was_killed_undrained_is_asked_about_and_loses_nothing() -> None:
    with Driver(announced(1), partitions=PARTITIONS, slots=2) as d:
        for number in range(20):
            d.send(IN, f"k{number % 5}", number)
        d.run()
        for number in range(20, 40):
            d.send(IN, f"k{number % 5}", number)
        for slot in d._open:
            slot.step(0)
            slot.commit()
        d._drop()
        before = all_ends(d.log)
        with pytest.raises(UpgradeError) as asked:
            d.upgrade(announced(2))
        assert asked.value.code == "upgrade-waits"
        assert "records in shop-moved-repartition" in asked.value.message
        assert all_ends(d.log) == before
        d.run()  # the old version
        upgraded(d, announced(2), "out")
        d.run()
        assert sorted(d.values(EVENTS)) == list(range(40))


def two_components(version: int) -> App:
    app = App("shop")
    app.stream(IN).map(changed(version)).sum("first", int).to(OUT)
    more = app.stream(MORE)
    more.to(EVENTS)
    more.count("second").map(label).to(TEXTS)
    return app


def label(count: int) -> str:
    return f"{count} times"


def test_an_unchanged_component_keeps_its_positions_and_reads_nothing_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Driver(two_components(1), partitions=PARTITIONS, slots=2) as d:
        send_story(d, STORY[:40])
        d.run()
        d.stop()
        before, ends = read_positions(d.log, "shop"), seen(d.log, "texts")
        events = len(d.records(EVENTS))
        read: set[str] = set()
        reader = SqliteLog.reader

        def noted(self: SqliteLog, starts: Any, *args: Any, **options: Any) -> Any:
            read.update(partition.topic for partition in starts)
            return reader(self, starts, *args, **options)

        monkeypatch.setattr(SqliteLog, "reader", noted)
        entry = d.upgrade(two_components(2))
        assert entry is not None
        assert d.published(OUT)
        assert ("in" in read, "more" in read) == (True, False)
        assert entry.differences.keys() == {"out"}
        after = read_positions(d.log, "shop")
        kept = {task for task in before if "more" in before[task].sources}
        assert kept
        assert {task: after[task] for task in kept} == {task: before[task] for task in kept}
        assert seen(d.log, "texts") == ends
        send_story(d, STORY[40:])
        d.run()
        assert not d.discarded
        assert len(d.records(EVENTS)) == events + sum(which == 1 for which, *_ in STORY[40:])
        check_live(d, two_components(2), "out", "texts")


def shop(version: int) -> App:
    app = App("shop")
    app.stream(IN).map(changed(version)).sum("sums", int).to(OUT)
    return app


def other() -> App:
    app = App("other")
    app.stream(MORE).sum("other-sums", int).to(OUT)
    return app


def check_foreign_rows() -> None:
    """Another app writes the same table topic; one key it wrote last."""
    with Driver(shop(1), partitions=PARTITIONS) as d, Driver(other(), partitions=PARTITIONS, log=d.log) as o:
        for key in ("k0", "k1", "k2"):
            d.send(IN, key, 3)
        d.run()
        o.send(MORE, "k1", 70)
        o.send(MORE, "theirs", 80)
        o.run()
        entry = d.upgrade(shop(2))
        assert entry is not None
        published: list[tuple[str, int | None]] = d.published(OUT)
        assert sorted(key for key, _ in published) == ["k0", "k2"]
        assert (entry.differences["out"].foreign, entry.differences["out"].changed) == (2, 2)
        assert d.rows(OUT) == {"k0": 6, "k1": 70, "k2": 6, "theirs": 80}


def test_rows_that_another_app_wrote_last_are_left_alone_and_counted() -> None:
    check_foreign_rows()


def test_an_output_with_another_number_of_partitions_is_refused() -> None:
    wider = TableTopic("out", int, partitions=PARTITIONS + 1)
    app = App("shop")
    app.stream(IN).map(changed(2)).sum("sums", int).to(wider)
    with Driver(shop(1), partitions=PARTITIONS) as d:
        d.send(IN, "k0", 3)
        d.run()
        d.stop()
        ends = all_ends(d.log)
        with pytest.raises(LogError) as refused:
            d.upgrade(app)
        assert refused.value.code == "partition-count"
        assert refused.value.message == "topic 'out' has 2 partitions, but 3 were requested"
        assert refused.value.hint == (
            "declare it with the count that it has, partitions=2; or use a topic of another name"
        )
        assert all_ends(d.log) == ends


class Flush:
    """Sends the sum of each key every second of wall-clock time."""

    def init(self, ctx: Context[str, int]) -> None:
        self._ctx = ctx
        ctx.schedule(1000, self.flush, by="wall")

    def process(self, record: Record[str, int], ctx: Context[str, int]) -> None:
        ctx.store(SUMS).put(record.key, (ctx.store(SUMS).get(record.key) or 0) + record.value)

    def flush(self, now: int) -> None:
        for key, total in list(self._ctx.store(SUMS).range()):
            self._ctx.forward(Record(key, total, now))


def flushed(version: int) -> App:
    app = App("shop")
    events = app.stream(IN)
    events.process("flush", Flush, stores=[SUMS]).to(OUT)
    events.map(changed(version)).count("counts").map(label).to(TEXTS)
    return app


def test_wall_clock_timers_publish_nothing_by_themselves() -> None:
    with Driver(flushed(1), partitions=PARTITIONS) as d:
        for number in range(10):
            d.send(IN, f"k{number % 3}", number)
            d.run()
            d.advance(700)
        d.advance(5000)
        d.run()
        ends = all_ends(d.log)
        assert d.upgrade(flushed(1)) is None
        assert {at: end for at, end in all_ends(d.log).items() if at.topic in ("out", "texts")} == {
            at: end for at, end in ends.items() if at.topic in ("out", "texts")
        }
        entry = d.upgrade(flushed(2))
        assert entry is not None
        assert (d.published(OUT), d.published(TEXTS)) == ([], [])
        d.send(IN, "k0", 100)
        d.run()
        assert d.rows(OUT)["k0"] == 0 + 3 + 6 + 9
        d.advance(1500)
        d.run()
        assert d.rows(OUT)["k0"] == 0 + 3 + 6 + 9 + 100


def second() -> App:
    app = App("second")
    app.table(OUT, "out-rows").map(double).to(MIDDLE)
    return app


def double(value: int) -> int:
    return 2 * value


def third() -> App:
    app = App("third")
    app.table(MIDDLE, "middle-rows").group_by("by-parity", parity).sum("by-parity-sums", int).to(LAST)
    return app


def parity(value: int) -> str:
    return f"p{value % 4}"


def chain(first: int, *, upgrade: bool) -> dict[str, int]:
    with (
        Driver(shop(first), partitions=PARTITIONS) as d,
        Driver(second(), partitions=PARTITIONS, log=d.log) as s,
        Driver(third(), partitions=PARTITIONS, log=d.log) as t,
    ):
        send_story(d, STORY)
        for one in (d, s, t):
            one.run()
        if upgrade:
            before = t.rows(LAST)
            upgraded(d, shop(2), "out")
            for one in (d, s, t):
                one.run()
            assert t.rows(LAST) != before
        return t.rows(LAST)


def test_the_last_of_three_apps_has_the_rows_of_a_run_from_scratch() -> None:
    assert chain(1, upgrade=True) == chain(2, upgrade=False)
