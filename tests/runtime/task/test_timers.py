"""Calls that come by stream time or by the wall clock."""

from __future__ import annotations

from typing import Any

import pytest
from tests.runtime.stories import START

from tidegate import App, Context, Record, StateError, Topic, UserCodeError, stores
from tidegate.dsl.processor import Cancellable, TimeKind
from tidegate.testing.driver import Commit, Driver

IN, OUT = Topic("in", int), Topic("out", int)
KEPT = stores.key_value("kept", int)


def ticking(every: int, by: TimeKind) -> tuple[App, list[int]]:
    """An app whose step beats, forwards each beat, and writes it down."""
    beats: list[int] = []

    class Step:
        def init(self, ctx: Context[str, int]) -> None:
            def beat(now: int) -> None:
                beats.append(now)
                ctx.forward(Record("beat", now, now))

            ctx.schedule(every, beat, by=by)

        def process(self, record: Record[str, int], ctx: Context[str, int]) -> None: ...

        def close(self) -> None: ...

    app = App("timers")
    app.stream(IN).process("step", Step).to(OUT)
    return app, beats


def test_stream_time_timers_fire_by_the_times_of_records_alone() -> None:
    app, beats = ticking(10, "stream")
    with Driver(app) as d:
        d.advance(1_000)
        d.run()
        assert beats == []
        for at in (0, 5, 10, 12, 3, 19, 20):
            d.send(IN, "ada", 1, timestamp=START + at)
        d.run()
        d.advance(1_000)
        d.run()
        assert beats == d.values(OUT) == [START + 10, START + 20]


def test_wall_clock_timers_need_no_input() -> None:
    app, beats = ticking(10, "wall")
    with Driver(app) as d:
        d.run()
        for millis in (9, 1, 5, 5):
            d.advance(millis)
            d.run()
        assert beats == d.values(OUT) == [START + 10, START + 20]


@pytest.mark.parametrize("by", ["stream", "wall"])
def test_a_timer_that_was_missed_several_times_fires_once(by: TimeKind) -> None:
    app, beats = ticking(10, by)
    with Driver(app) as d:
        d.send(IN, "ada", 1, timestamp=START)
        d.run()
        d.advance(57)
        d.send(IN, "ada", 1, timestamp=START + 57)
        d.run()
        d.advance(3)
        d.send(IN, "ada", 1, timestamp=START + 60)
        d.run()
        assert beats == [START + 57]


@pytest.mark.parametrize("by", ["stream", "wall"])
def test_timers_are_scheduled_again_by_init_after_a_crash_and_a_move(by: TimeKind) -> None:
    app, _ = ticking(10, by)
    with Driver(app) as d:
        d.send(IN, "ada", 1, timestamp=START)
        d.run()
        d.move()
        d.run()
        d.advance(10)
        d.send(IN, "ada", 1, timestamp=START + 10)
        d.crash(at=Commit.LOG)
        d.run()
        d.advance(10)
        d.send(IN, "ada", 1, timestamp=START + 20)
        d.run()
        assert d.values(OUT)[-1] == START + 20
        assert len(d.values(OUT)) == len(set(d.values(OUT)))


def test_what_a_timer_writes_to_a_store_is_committed_with_its_output() -> None:
    class Step:
        def init(self, ctx: Context[str, int]) -> None:
            ctx.schedule(10, lambda now: ctx.store(KEPT).put("now", now), by="wall")

        def process(self, record: Record[str, int], ctx: Context[str, int]) -> None: ...

        def close(self) -> None: ...

    app = App("timers")
    app.stream(IN).process("step", Step, stores=[KEPT])
    with Driver(app) as d:
        d.run()
        d.advance(10)
        d.run()
        d.move()
        d.run()
        assert d.store("kept").contents == d.store("kept").changelog == {"now": START + 10}


def by_value(log: list[Any], every: int = 5) -> App:
    """0 cancels the last timer, -1 fails behind that, others schedule a timer that writes them down."""
    timers: list[Cancellable] = []

    def step(record: Record[str, int], ctx: Context[str, int]) -> None:
        if record.value > 0:
            timers.append(ctx.schedule(every, lambda now: log.append((record.value, now - START))))
        else:
            timers[-1].cancel()
        ctx.forward(record)

    def refuse(value: int) -> int:
        if value in (-1, 3):
            raise ValueError("no")
        return value

    app = App("timers")
    app.stream(IN, on_error="skip").process("step", step).map(refuse).to(OUT)
    return app


def send_at(d: Driver, *pairs: tuple[int, int]) -> None:
    for value, at in pairs:
        d.send(IN, "ada", value, timestamp=START + at)


def test_a_cancelled_timer_does_not_fire_any_more() -> None:
    log: list[Any] = []
    with Driver(by_value(log)) as d:
        send_at(d, (1, 0), (0, 6), (0, 20))
        d.run()
    assert log == []


def test_a_timer_of_a_failed_record_never_was() -> None:
    log: list[Any] = []
    with Driver(by_value(log)) as d:
        send_at(d, (1, 0), (3, 1), (2, 20))
        d.run()
    assert {value for value, _ in log} == {1}


def test_a_timer_that_a_failed_record_cancelled_still_fires() -> None:
    log: list[Any] = []
    with Driver(by_value(log)) as d:
        send_at(d, (1, 0), (-1, 1), (2, 20))
        d.run()
    assert log == [(1, 20)]


def test_a_timer_cancelled_by_another_one_of_the_same_time_does_not_fire() -> None:
    beats: list[str] = []

    class Step:
        def init(self, ctx: Context[str, int]) -> None:
            ctx.schedule(10, self.first, by="wall")
            self.second = ctx.schedule(10, lambda _: beats.append("second"), by="wall")

        def first(self, _: int) -> None:
            beats.append("first")
            self.second.cancel()

        def process(self, record: Record[str, int], ctx: Context[str, int]) -> None: ...

        def close(self) -> None: ...

    app = App("timers")
    app.stream(IN).process("step", Step)
    with Driver(app) as d:
        d.run()
        d.advance(10)
        d.run()
    assert beats == ["first"]


@pytest.mark.parametrize("policy", ["stop", "skip"])
def test_a_timer_that_raises_stops_with_its_line_and_leaves_nothing(policy: Any) -> None:
    class Step:
        def init(self, ctx: Context[str, int]) -> None:
            self.ctx = ctx
            ctx.schedule(10, self.beat, by="wall")

        def beat(self, now: int) -> None:
            self.ctx.forward(Record("beat", 1, now))
            raise ValueError("no")

        def process(self, record: Record[str, int], ctx: Context[str, int]) -> None: ...

        def close(self) -> None: ...

    app = App("timers")
    app.stream(IN, on_error=policy).process("step", Step, on_error=policy).to(OUT)
    line = Step.beat.__code__.co_firstlineno + 2
    with Driver(app) as d:
        d.run()
        d.advance(10)
        with pytest.raises(UserCodeError, match=f"a timer: ValueError: no at test_timers.py:{line}"):
            d.run()
        assert d.values(OUT) == []


@pytest.mark.parametrize(("every", "by"), [(0, "stream"), (-5, "wall"), (5, "moon")])
def test_a_timer_that_cannot_be_is_refused(every: int, by: Any) -> None:
    def step(record: Record[str, int], ctx: Context[str, int]) -> None:
        ctx.schedule(every, lambda _: None, by=by)

    app = App("timers")
    app.stream(IN).process("step", step)
    with Driver(app) as d:
        d.send(IN, "ada", 1)
        with pytest.raises(StateError, match="bad-timer"):
            d.run()


def test_the_clock_may_jump_back() -> None:
    app, beats = ticking(10, "wall")
    with Driver(app) as d:
        d.run()
        d.advance(-1_000)
        d.run()
        assert beats == []
        d.advance(1_010)
        d.run()
        assert beats == [START + 10]
