"""What `tidegate run` prints of trouble as it happens: one line, or one object, for each thing."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.cli.run_events import RunEvents
from tidegate.cli.run_screen import RunScreen
from tidegate.errors import LogError
from tidegate.runtime.driver.slot_overview import SlotOverview
from tidegate.runtime.topics.status import Ended, Failure, Landing, Numbers, Warned


class Now:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def now() -> Now:
    return Now()


@pytest.fixture
def view() -> SlotOverview:
    return SlotOverview()


@pytest.fixture
def events(now: Now) -> RunEvents:
    return RunEvents("shop", now)


def numbers(slot: int = 0, **more: Any) -> Numbers:
    reported = {"records": 9, "per_second": 3.0, "lag": 0, "skipped": 0, "running": 1, "restoring": 0, **more}
    return Numbers(1, slot, 0, **reported)


def texts(events: RunEvents, view: SlotOverview) -> list[str]:
    return [line.text for line in events.new(view)]


def test_a_slot_that_fails_and_starts_again_is_two_lines(events: RunEvents, view: SlotOverview) -> None:
    view.add(Landing(1, 0, 1, "here", 7, "m"))
    view.add(Failure(1, 0, 1, "user-code", "ValueError: no", "mend it"))
    view.add(Failure(1, 0, 1, "slot-lost", "slot 0 ended: Py4JJavaError", "look", by_driver=True))
    view.add(Landing(1, 0, 2, "there", 8, "m"))
    assert texts(events, view) == [
        "slot 0: attempt 1 runs on here, process 7",
        "slot 0: attempt 1 failed and is restarted: [user-code] ValueError: no  Do: mend it",
        "slot 0: attempt 2 runs on there, process 8",
    ]
    assert texts(events, view) == [], "each is printed once"


def test_a_worker_that_was_killed_is_named_as_that(events: RunEvents, view: SlotOverview) -> None:
    view.add(Failure(1, 1, 3, "slot-lost", "slot 1 ended: worker exited", "see its log", by_driver=True))
    [line] = texts(events, view)
    assert line == (
        "slot 1: attempt 3 ended without a report (its worker was killed or lost) and is restarted: "
        "[slot-lost] slot 1 ended: worker exited  Do: see its log"
    )


def test_a_stage_that_fails_is_no_slot(events: RunEvents, view: SlotOverview) -> None:
    view.add(Failure(1, -2, 1, "slot-lost", "slot -2 ended: AnalysisException", "", by_driver=True))
    [line] = texts(events, view)
    assert line.startswith("stage 2: attempt 1 failed and is restarted: ")


def test_dead_letters_and_skipped_records_are_counted_as_they_come(
    events: RunEvents, view: SlotOverview
) -> None:
    view.add(numbers(skipped=2, dead_letters=2))
    assert texts(events, view) == [
        "slot 0: 2 records went to shop-dead-letters, 2 since its job began",
    ]
    view.add(numbers(skipped=2, dead_letters=2))
    assert texts(events, view) == []
    view.add(numbers(skipped=6, dead_letters=3))
    assert texts(events, view) == [
        "slot 0: 1 record went to shop-dead-letters, 3 since its job began",
        "slot 0: 3 records were skipped, 3 since its job began",
    ]
    view.add(Ended(1, 0, 1, 20, skipped=7, dead_letters=4))
    assert texts(events, view) == ["slot 0: 1 record went to shop-dead-letters, 4 since its job began"]


def test_the_counts_of_a_new_job_begin_again(events: RunEvents, view: SlotOverview) -> None:
    view.add(numbers(skipped=5, dead_letters=5))
    assert len(texts(events, view)) == 1
    view.add(Landing(1, 0, 2, "here", 7, "m"))
    view.add(numbers(skipped=5, dead_letters=5))
    assert texts(events, view)[1:] == ["slot 0: 5 records went to shop-dead-letters, 5 since its job began"]


def test_a_log_that_does_not_answer_and_then_does(events: RunEvents, view: SlotOverview) -> None:
    view.log_trouble = LogError("log-unreachable", "no broker", "start it", retryable=True)
    assert texts(events, view) == ["[log-unreachable] no broker  Do: start it"]
    assert texts(events, view) == []
    view.log_trouble = None
    assert texts(events, view) == ["the log responds again"]


def test_restores_are_reported_now_and_then_and_at_their_end(
    events: RunEvents, view: SlotOverview, now: Now
) -> None:
    view.add(numbers(restoring=1, restored=10, to_restore=1000))
    assert texts(events, view) == ["restoring: 10 of 1,000 changelog records"]
    view.add(numbers(restoring=1, restored=500, to_restore=1000))
    assert texts(events, view) == []
    now.seconds += 10
    assert texts(events, view) == ["restoring: 500 of 1,000 changelog records"]
    view.add(numbers(restoring=0, restored=1000, to_restore=1000))
    assert texts(events, view) == ["restored 1,000 changelog records"]
    assert texts(events, view) == []


def test_a_new_plan_is_one_line(events: RunEvents, view: SlotOverview) -> None:
    view.plans = 1
    assert texts(events, view) == [], "the first is what was asked for"
    view.begin_epoch()
    for slot in range(3):
        view.add(Landing(2, slot, 1, "here", 7, "m"))
    view.plans = 2
    assert texts(events, view)[-1] == "a new plan: 3 slots"


def test_as_json_each_is_one_object_on_stdout(view: SlotOverview, capsys: pytest.CaptureFixture[str]) -> None:
    view.add(Failure(1, 0, 1, "user-code", "no", "h"))
    view.add(Warned(1, -1, 0, "code-not-compared", "m", "h"))
    view.add(numbers(dead_letters=2, skipped=2))
    with RunScreen("shop", json=True) as screen:
        screen.show("running", view)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == [
        '{"app":"shop","event":"failure","slot":0,"attempt":1,"code":"user-code","message":"no","hint":"h"}',
        '{"app":"shop","event":"warning","code":"code-not-compared","message":"m","hint":"h"}',
        '{"app":"shop","event":"dead-letters","slot":0,"records":2,"since_job_began":2}',
    ]
    assert lines[3:] == ['{"app":"shop","state":"running","slots":0}']
