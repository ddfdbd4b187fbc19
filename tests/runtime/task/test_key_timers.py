"""Timers of keys: rows of a store that call their step when their time has come."""

from __future__ import annotations

from typing import Any

import pytest
from tests.runtime.stories import START

from tidegate import App, Context, Record, Topic, UserCodeError, stores
from tidegate.clock import ManualClock
from tidegate.dsl.processor import TimeKind
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.task import task as task_module
from tidegate.testing.driver import Commit, Driver

IN, OUT = Topic("in", int), Topic("out", str)
BY_STREAM, BY_WALL = stores.timers("timers"), stores.timers("timers", by="wall")
SECOND = stores.timers("second")
TIMERS = {"stream": BY_STREAM, "wall": BY_WALL}
BOTH = pytest.mark.parametrize("by", ["stream", "wall"])
CANCEL, FAIL_AFTER_CANCEL, FAIL = -1, -2, 13


class Step:
    """A value above 0 sets the key's timer to START + value, 0 does nothing, -1 cancels it; -2 fails behind
    that, 13 behind setting one."""

    by: TimeKind = "stream"

    def process(self, record: Record[str, int], ctx: Context[str, str]) -> None:
        timers = ctx.store(TIMERS[self.by])
        if record.value > 0:
            timers.set(record.key, START + record.value)
            assert timers.get(record.key) == START + record.value
        elif record.value < 0:
            timers.cancel(record.key)
            assert timers.get(record.key) is None
        if record.value in (FAIL, FAIL_AFTER_CANCEL):
            raise ValueError("no")

    def on_timer(self, key: str, at: int, ctx: Context[str, str]) -> None:
        assert ctx.store(TIMERS[self.by]).get(key) is None
        ctx.forward(Record(key, f"{key}@{at - START}", at))


class WallStep(Step):
    by = "wall"


STEPS: dict[str, Any] = {"stream": Step, "wall": WallStep}


def reminding(by: str, on_error: Any = "stop", step: Any = None) -> App:
    app = App("reminding")
    source = app.stream(IN, on_error=on_error)
    source.process("step", step or STEPS[by], stores=[TIMERS[by]]).to(OUT)
    return app


def send(d: Driver, *sent: tuple[str, int, int]) -> None:
    for key, value, at in sent:
        d.send(IN, key, value, timestamp=START + at)


def pass_time(d: Driver, to: int) -> None:
    """Both clocks to START + `to`."""
    d.advance(START + to - d.clock.now())
    send(d, ("clock", 0, to))
    d.run()


def fired(d: Driver) -> list[str]:
    """In the order in which they were written."""
    return [value for part in d.by_partition(OUT) for _, value in part]


def left(d: Driver) -> dict[str, int]:
    view = d.store("timers")
    assert view.contents == view.changelog
    return {key: at - START for key, at in view.contents.items()}


@BOTH
def test_due_timers_come_once_in_the_order_of_time_and_key(by: str) -> None:
    with Driver(reminding(by)) as d:
        send(d, ("b", 20, 0), ("a", 20, 0), ("c", 10, 0), ("d", 30, 0), ("e", 40, 0))
        pass_time(d, 9)
        assert fired(d) == []
        pass_time(d, 30)
        assert fired(d) == ["c@10", "a@20", "b@20", "d@30"]
        assert left(d) == {"e": 40}
        pass_time(d, 35)
        assert len(fired(d)) == 4


def test_stream_time_alone_moves_timers_of_the_stream() -> None:
    with Driver(reminding("stream")) as d:
        send(d, ("a", 20, 0))
        d.run()
        d.advance(100_000)
        d.run()
        assert fired(d) == []


def test_wall_clock_timers_need_no_input() -> None:
    with Driver(reminding("wall")) as d:
        send(d, ("a", 20, 0), ("b", 10, 99))
        d.run()
        assert fired(d) == []
        d.advance(20)
        d.run()
        assert fired(d) == ["b@10", "a@20"]


@BOTH
def test_a_new_time_replaces_the_old_and_a_cancelled_timer_does_not_come(by: str) -> None:
    with Driver(reminding(by)) as d:
        send(d, ("a", 10, 0), ("a", 30, 1), ("b", 30, 2), ("b", 10, 3), ("c", 10, 4), ("c", CANCEL, 5))
        d.run()
        pass_time(d, 20)
        assert fired(d) == ["b@10"]
        pass_time(d, 30)
        assert fired(d) == ["b@10", "a@30"]
        assert left(d) == {}


@BOTH
def test_a_time_that_is_past_is_due_at_once(by: str) -> None:
    with Driver(reminding(by)) as d:
        pass_time(d, 100)
        send(d, ("a", 5, 100))
        d.run()
        assert fired(d) == ["a@5"]


@BOTH
def test_what_a_failed_record_did_to_timers_never_was(by: str) -> None:
    with Driver(reminding(by, "skip")) as d:
        send(d, ("a", FAIL, 0), ("b", 10, 1), ("b", FAIL_AFTER_CANCEL, 2), ("c", 20, 3), ("c", FAIL, 4))
        d.run()
        assert left(d) == {"b": 10, "c": 20}
        pass_time(d, 50)
        assert fired(d) == ["b@10", "c@20"]


@BOTH
@pytest.mark.parametrize("at", list(Commit))
@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_timer_comes_once_whatever_crash_is_on_its_way(by: str, at: Commit, elsewhere: bool) -> None:
    with Driver(reminding(by), partitions=2) as d:
        send(d, ("a", 10, 0), ("b", 20, 0))
        d.crash(at, elsewhere=elsewhere)
        d.run()
        d.advance(10)
        for key in ("p", "q", "r", "s"):
            send(d, (key, 0, 10))
        d.crash(at, elsewhere=elsewhere)
        d.run()
        assert fired(d) == ["a@10"]
        d.advance(10)
        for key in ("p", "q", "r", "s"):
            send(d, (key, 0, 20))
        d.run()
        assert sorted(fired(d)) == ["a@10", "b@20"]
        assert left(d) == {}


@BOTH
def test_timers_survive_a_move_and_a_new_driver_over_the_same_log(by: str) -> None:
    clock = ManualClock()
    log = SqliteLog(clock=clock)
    with Driver(reminding(by), log=log, clock=clock) as d:
        send(d, ("a", 10, 0), ("b", 20, 0), ("c", 30, 0))
        d.run()
        d.move()
        pass_time(d, 10)
        assert fired(d) == ["a@10"]
    with Driver(reminding(by), log=log, clock=clock) as d:
        pass_time(d, 20)
        assert fired(d) == ["a@10", "b@20"]
        assert left(d) == {"c": 30}
    log.close()


def test_a_step_may_set_its_timer_again_and_catches_up_in_order() -> None:
    class Beating(Step):
        def on_timer(self, key: str, at: int, ctx: Context[str, str]) -> None:
            super().on_timer(key, at, ctx)
            ctx.store(BY_STREAM).set(key, at + 10)

    with Driver(reminding("stream", step=Beating)) as d:
        send(d, ("a", 10, 0), ("b", 25, 0))
        pass_time(d, 35)
        assert fired(d) == ["a@10", "a@20", "b@25", "a@30", "b@35"]
        assert left(d) == {"a": 40, "b": 45}


def test_a_timer_that_another_one_of_the_same_time_cancels_or_moves_does_not_fire() -> None:
    class Strict(Step):
        def on_timer(self, key: str, at: int, ctx: Context[str, str]) -> None:
            super().on_timer(key, at, ctx)
            if key == "a":
                ctx.store(BY_STREAM).cancel("b")
                ctx.store(BY_STREAM).set("c", START + 50)

    with Driver(reminding("stream", step=Strict)) as d:
        send(d, ("a", 10, 0), ("b", 10, 0), ("c", 10, 0), ("d", 10, 0))
        pass_time(d, 20)
        assert fired(d) == ["a@10", "d@10"]
        assert left(d) == {"c": 50}


def test_many_timers_come_some_at_a_time_and_none_is_lost() -> None:
    with Driver(reminding("wall")) as d:
        for number in range(2_500):
            d.send(IN, f"{number:05}", 10, timestamp=START)
        d.run()
        [slot] = d._open
        [task] = slot.tasks
        d.advance(10)
        task.fire()
        assert len(left_in(task)) == 1_500
        assert task.run(10) == 1_000
        d.run()
        assert fired(d) == [f"{number:05}@10" for number in range(2_500)]


def left_in(task: Any) -> list[Any]:
    return list(task.state.store(BY_WALL).all())


class Chained(Step):
    """Timers of the first step set timers of the second that are due at once."""

    def on_timer(self, key: str, at: int, ctx: Context[str, str]) -> None:
        super().on_timer(key, at, ctx)
        ctx.forward(Record(key, f"to second {key}", at), to="second")


class Second:
    def process(self, record: Record[str, str], ctx: Context[str, str]) -> None:
        if record.value.startswith("to second"):
            ctx.store(SECOND).set(record.key, record.timestamp)
        else:
            ctx.forward(record)

    def on_timer(self, key: str, at: int, ctx: Context[str, str]) -> None:
        ctx.forward(Record(key, f"{key} second@{at - START}", at))


@pytest.mark.parametrize("at_once", [1, 2, 3, 7])
def test_the_order_does_not_depend_on_how_many_come_at_once(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run() -> list[str]:
        app = App("reminding")
        first = app.stream(IN).process("step", Chained, stores=[BY_STREAM])
        first.process("second", Second, stores=[SECOND]).to(OUT)
        with Driver(app) as d:
            for number in range(12):
                send(d, (f"k{number % 5}", 7 * number % 20 + number, 3 * number))
            pass_time(d, 100)
            return fired(d)

    expected = run()
    assert len(expected) > 12
    monkeypatch.setattr(task_module, "DUE_AT_ONCE", at_once)  # a page of timers that a dozen fill
    assert run() == expected


@BOTH
@pytest.mark.parametrize("policy", ["stop", "skip"])
def test_a_timer_that_raises_stops_with_its_line_and_stays_set(by: TimeKind, policy: str) -> None:
    broken = [True]

    class Failing(Step):
        def on_timer(self, key: str, at: int, ctx: Context[str, str]) -> None:
            super().on_timer(key, at, ctx)
            if broken[0]:
                raise ValueError("no")

    Failing.by = by
    line = Failing.on_timer.__code__.co_firstlineno + 3
    with Driver(reminding(by, policy, Failing)) as d:
        send(d, ("a", 10, 0))
        with pytest.raises(UserCodeError, match=f"a timer: ValueError: no at test_key_timers.py:{line}"):
            pass_time(d, 10)
        assert fired(d) == []
        broken[0] = False
        d.run()
        assert fired(d) == ["a@10"]


def test_the_clock_may_jump_back() -> None:
    with Driver(reminding("wall")) as d:
        d.advance(1_000)
        send(d, ("a", 1_010, 0))
        d.run()
        d.advance(-1_000)
        send(d, ("b", 5, 0))
        d.run()
        assert fired(d) == []
        d.advance(5)
        d.run()
        assert fired(d) == ["b@5"]
        d.advance(1_005)
        d.run()
        assert fired(d) == ["b@5", "a@1010"]
