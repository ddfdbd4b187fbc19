"""What happened to an app: failures, warnings, moves, rebuilt stores."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from tests.gate.app import gated
from tests.server.conftest import Client
from tests.server.test_gates import got
from tests.server.test_watching import numbers

from tidegate.clock import SystemClock
from tidegate.log.positions import TaskId
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.driver.prepare import prepare
from tidegate.runtime.driver.run import Run
from tidegate.runtime.driver.takeover import request_stop, take_over
from tidegate.runtime.topics.control import Cause, Plan, SlotPlan
from tidegate.runtime.topics.status import Ended, Failure, Landing, Warned, publish_status
from tidegate.server.app_events import MOST, AppEvent, AppEvents, Home

CLOCK = SystemClock()


@pytest.fixture
def run(log: SqliteLog) -> Run:
    return prepare(gated().build(), log, CLOCK, partitions=2)


def folded(*statuses: Any) -> list[AppEvent]:
    events = AppEvents("shop")
    for offset, one in enumerate(statuses):
        events.take_status(one, offset, 1000 + offset)
    return events.all()


def test_events_of_a_slot_in_order() -> None:
    found = folded(
        Landing(1, 0, 1, "one", 7, "m"),
        Warned(1, 0, 1, "clock-skew", "late", "set it"),
        Failure(1, 0, 1, "user-code", "broke", "fix"),
        Failure(1, 0, 1, "slot-lost", "the job ended", "", by_driver=True),
        Landing(1, 0, 2, "one", 8, "m"),
        Ended(1, 0, 2, 5),
    )
    assert [(one.kind, one.code, one.host) for one in found] == [
        ("started", "", "one"),
        ("warning", "clock-skew", "one"),
        ("failure", "user-code", "one"),
        ("restarted", "", "one"),
        ("stopped", "", ""),
    ]
    assert [one.id for one in found] == ["s0", "s1", "s2", "s4", "s5"]


def test_a_failure_that_only_the_driver_saw_is_shown() -> None:
    [found] = folded(Failure(1, 0, 1, "slot-lost", "the job ended", "", by_driver=True))
    assert (found.kind, found.code) == ("failure", "slot-lost")


def test_stores_that_were_rebuilt_are_counted_once() -> None:
    found = folded(
        numbers(0, rebuilt=2),
        numbers(0, rebuilt=2),
        numbers(0, rebuilt=3, emptied=1),
        Landing(1, 0, 2, "one", 8, "m"),
        numbers(0, gaps=1),
    )
    kinds = [(one.kind, one.count) for one in found if one.count]
    assert kinds == [("rebuilt", 2), ("rebuilt", 1), ("emptied", 1), ("gap", 1)]


def test_only_the_newest_are_kept() -> None:
    found = folded(*(Warned(1, 0, 1, f"w-{number}", "", "") for number in range(MOST + 10)))
    assert (len(found), found[0].code, found[-1].code) == (MOST, "w-10", f"w-{MOST + 9}")


def test_tasks_that_change_slot_or_host_have_moved(client: Client, log: SqliteLog, run: Run) -> None:
    tasks = [task for _, task in run.tasks()]
    plans: list[tuple[dict[int, list[TaskId]], dict[int, str]]] = [
        ({0: tasks[:2], 1: tasks[2:]}, {0: "here", 1: "there"}),
        ({0: tasks}, {0: "here"}),
        ({0: tasks}, {0: "elsewhere"}),
    ]
    for slots, hosts in plans:
        with closing(take_over(log, "gated", 1, CLOCK)) as claim:
            run.plan(claim, slots, hosts)
    moves = got(client, "/events", app="gated", kind="move")["events"]
    assert [(one["from"], one["to"], sorted(one["tasks"])) for one in moves] == [
        ({"slot": 1, "host": "there"}, {"slot": 0, "host": "here"}, sorted(map(str, tasks[2:]))),
        ({"slot": 0, "host": "here"}, {"slot": 0, "host": "elsewhere"}, sorted(map(str, tasks))),
    ]
    assert len({one["id"] for one in moves}) == 2


def test_a_job_that_lands_elsewhere_has_moved_its_tasks() -> None:
    events = AppEvents("shop")
    task = TaskId("c", 1, 0, 0)
    events._plan = Plan(3, [SlotPlan(0, "w", [task])])
    events.take_status(Landing(3, 0, 1, "one", 1, "m"), 1, 1)
    events.take_status(Landing(3, 0, 2, "two", 1, "m"), 2, 2)
    [move] = [one for one in events.all() if one.kind == "move"]
    assert (move.source, move.to, move.tasks) == (Home(0, "one"), Home(0, "two"), [str(task)])


def test_a_driver_that_gave_up_has_a_cause(client: Client, log: SqliteLog, run: Run) -> None:
    with closing(take_over(log, "gated", 1, CLOCK)) as claim:
        run.plan(claim, {0: [task for _, task in run.tasks()]}, {0: "here"})
    cause = Cause("too-few-cores", "no room", "add some")
    request_stop(log, "gated", "driver", CLOCK.now(), 1, failure=cause)
    [found] = got(client, "/events", kind="gave-up")["events"]
    assert (found["code"], found["hint"], found["app"]) == ("too-few-cores", "add some", "gated")


def test_the_newest_events_of_all_apps_are_last(client: Client, log: SqliteLog, run: Run) -> None:
    assert run
    for number in range(5):
        publish_status(log, "gated", Warned(1, 0, 1, f"w-{number}", "", ""), CLOCK.now() + number)
    assert [one["code"] for one in got(client, "/events", limit=2)["events"]] == ["w-3", "w-4"]
    assert got(client, "/events", app="none", code=404)["error"]["code"] == "never-started"
    assert got(client, "/events", kind="none") == {"events": [], "unreadable": {}}
