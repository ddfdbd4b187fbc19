"""Draining in the driver: internal topics to their ends, nothing more of sources, and timers that wait."""

from __future__ import annotations

from tests.runtime.stories import START

from tidegate import App, Context, Record, TableTopic, Topic, stores
from tidegate.dsl.processor import TimeKind
from tidegate.runtime.topics.unread import task_positions, unread
from tidegate.state.builder import StoreBuilder
from tidegate.state.key_timers import KeyTimers
from tidegate.testing import Driver
from tidegate.testing.pytest_plugin import DriverFactory

IN = Topic("in", int)
RATES = TableTopic("rates", int)
OUT = Topic("out", int)
TIMERS = {by: stores.timers("timers", by=by) for by in ("stream", "wall")}


def relay() -> App:
    """Two internal topics, the second one joined with a source."""
    app = App("relay")
    first = app.stream(IN).select_key(lambda value: f"a{value % 5}").repartition("first")
    second = first.select_key(lambda value: f"b{value % 3}").repartition("second")
    second.left_join(app.table(RATES), lambda value, _: value).to(OUT)
    return app


def reminding(by: TimeKind) -> App:
    """Behind an internal topic, each value is written when its time has come; negative ones never pass."""
    timers: StoreBuilder[KeyTimers[str]] = TIMERS[by]

    class Step:
        def process(self, record: Record[str, int], ctx: Context[str, int]) -> None:
            ctx.store(timers).set(record.key, START + record.value)

        def on_timer(self, key: str, at: int, ctx: Context[str, int]) -> None:
            ctx.forward(Record(key, at - START, at))

    app = App("reminding")
    passed = app.stream(IN).filter(lambda value: value > 0).select_key(lambda value: f"k{value}")
    passed.repartition("passed").process("step", Step, stores=[timers]).to(OUT)
    return app


def left(d: Driver) -> int:
    """How many records of internal topics were not processed."""
    manifest = d._prepared().manifest
    found = unread(d.log, manifest, task_positions(d.log, manifest), manifest.internal.values())
    return sum(one.end - one.position for one in found)


def test_records_of_internal_topics_are_processed_and_none_of_sources(driver: DriverFactory) -> None:
    d = driver(relay(), partitions=3, slots=2)
    d.send(RATES, "b0", 1)
    for value in range(20):
        d.send(IN, f"k{value % 4}", value)
    d._start()
    for slot in d._open * 2:  # restore, then take what the sources hold
        d._step_slot(slot, 0.1)
    assert left(d) > 0
    d.send(IN, "k9", 100)
    d._drain()
    assert left(d) == 0
    assert sorted(d.values(OUT)) == list(range(20))
    d.run()
    assert sorted(d.values(OUT)) == [*range(20), 100]


def test_timers_by_wall_clock_wait_if_they_are_due_after_the_request(driver: DriverFactory) -> None:
    d = driver(reminding("wall"))
    d.advance(START - d.clock.now())
    for value in (5, 50):
        d.send(IN, "k", value)
    d.run()
    [slot] = d._open
    slot.drain(START + 10)
    d.advance(9)
    d._step_slot(slot, 0.0)
    assert (d.values(OUT), slot.rests) == ([5], False), "another timer may still be called"
    d.advance(91)
    d._step_slot(slot, 0.0)
    assert (d.values(OUT), slot.rests) == ([5], True)
    slot.drain(None)
    d._step_slot(slot, 0.0)
    assert d.values(OUT) == [5, 50]


def test_stream_time_passes_internal_topics_without_delay(driver: DriverFactory) -> None:
    """The record that advances the time is dropped before the internal topic. The task behind it gets the
    time, and calls its timer, before the app has drained."""
    d = driver(reminding("stream"), partitions=2)
    d.advance(START - d.clock.now())
    d.send(IN, "k", 5, timestamp=START)
    d.send(IN, "k", -1, timestamp=START + 100)
    d.run()
    assert d.values(OUT) == []
    d._drain()
    assert d.values(OUT) == [5]
    assert left(d) == 0


def test_held_events_stay_held_and_go_out_once_later(driver: DriverFactory) -> None:
    app = App("held")
    app.stream(IN).gate("door").select_key(lambda value: f"k{value}").repartition("passed").to(OUT)
    d = driver(app, partitions=2)
    door = d.gate("door")
    door.pause("ada")
    d.send(IN, "ada", 1, 2)
    d.send(IN, "bob", 3)
    d.run()
    door.resume("ada")
    d._drain()
    assert d.values(OUT) == [3]
    assert left(d) == 0
    d.run()
    assert sorted(d.values(OUT)) == [1, 2, 3]
