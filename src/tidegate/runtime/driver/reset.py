"""Reset an app: delete what belongs to it alone, so that its next run starts from the beginning of its
sources.

1 find what belongs to the app; topics that another app owns too are left alone; 2 check that no run holds the
app, or stop the one that does and wait for its slots; 3 take the app over, as a driver does: no holder of a
writer of its last plan can commit any more. Unless it is forced, the reset ends here if a run began after 2,
while the question was on screen: no topic is deleted; 4 delete its topics, the control topic last: a reset
that is killed can be run again, and until then a start is refused by name. Before each topic the control
topic is read: a run that takes the app over meanwhile ends the reset.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from tidegate.clock import Clock
from tidegate.errors import FencedError, StateError
from tidegate.log import names
from tidegate.log.ensure import find_topic
from tidegate.log.faultpoints import reach
from tidegate.log.protocol import Log
from tidegate.log.reads import read_between
from tidegate.runtime.driver.takeover import request_stop, take_over
from tidegate.runtime.topics.control import ROLE, Control, read_control
from tidegate.runtime.topics.manifests import manifests
from tidegate.runtime.topics.status import Ended, Failure, Status, StatusFollower, decoded
from tidegate.topology.belongings import Belongings, of_manifest
from tidegate.types import TopicPartition

SILENT_SECONDS = 3.0
"""Slots report once a second: one that has reported nothing for this long does not run."""
LOOK_BACK_MS = 600_000
POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Reset:
    """The topics that a reset deletes, in this order, and those that it leaves alone."""

    app: str
    topics: list[str]
    shared: dict[str, str]
    """Topics that another app owns as well, with its id."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A run that may still write."""

    epoch: int
    ending: bool
    """Whether a stop was requested."""
    last_report_ms: int | None
    """How long ago one of its slots reported anything; None if none did lately."""


def planned_reset(log: Log, belongings: Belongings) -> Reset:
    """Plan a reset: step 1. Sources, outputs, topics of gates, requests of models and topics that the user
    named are kept."""
    control, own = names.control(belongings.app), set(belongings.state) - belongings.named
    of_each = (names.positions, names.status, names.dead_letters, names.redrives)
    own |= {topic_name(belongings.app) for topic_name in of_each}
    shared = {
        topic: other.app
        for other in map(of_manifest, manifests(log))
        if other.app != belongings.app
        for topic in sorted((own | {control}) & belongings.shared_with(other))
    }
    ordered = [
        *(topic for topic in belongings.state if topic in own),
        *sorted(own - set(belongings.state)),
        control,
    ]
    topics = [topic for topic in ordered if topic not in shared and find_topic(log, topic) is not None]
    return Reset(belongings.app, topics, shared)


def find_holder(log: Log, app: str, clock: Clock) -> Holder | None:
    """Return the run that holds the app, or None: step 2.

    A run that ends in order writes a stop for its own epoch, and each of its slots reports its end. A run
    without that stop holds the app: it may have been killed, and nothing in the log shows the difference. If
    a slot has not reported its end, this waits a few seconds for further reports.
    """
    if find_topic(log, names.control(app)) is None:
        return _unknown_run(log, app)
    control = read_control(log, app)
    epoch, stop = control.epoch(ROLE), control.stop(ROLE)
    if not epoch:
        return None
    now = clock.now()
    reports = [(at, one) for at, one in _reports(log, app, now - LOOK_BACK_MS) if one.epoch == epoch]
    newest = max((at for at, _ in reports), default=None)
    ago = None if newest is None else max(0, now - newest)
    if stop.epoch < epoch or stop.for_new_plan:
        return Holder(epoch, ending=False, last_report_ms=ago)
    ended = {one.slot for _, one in reports if isinstance(one, Ended)}
    if planned_slots(control, epoch) <= ended or not reports_again(log, app, epoch):
        return None
    return Holder(epoch, ending=True, last_report_ms=ago)


def end_run(log: Log, app: str, who: str, clock: Clock, seconds: float) -> int:
    """Stop the run that holds the app: step 2 with `--force`. Waits until all slots have ended, none reports
    any more, or the time is up. Returns how many ended."""
    if find_topic(log, names.control(app)) is None:
        return 0
    with closing(StatusFollower(log, app)) as follower:
        epoch = request_stop(log, app, who, clock.now())
        planned = planned_slots(read_control(log, app), epoch)
        ended: set[int] = set()
        deadline, last_report = time.monotonic() + seconds, time.monotonic()
        while not (planned and planned <= ended) and time.monotonic() < min(
            deadline, last_report + SILENT_SECONDS
        ):
            for one in follower.poll(POLL_SECONDS):
                if one.epoch == epoch:
                    last_report = time.monotonic()
                    ended |= {one.slot} if isinstance(one, Ended | Failure) else set()
    return len(ended)


def carry_out(log: Log, reset: Reset, clock: Clock, expected: int | None = None) -> None:
    """Carry out steps 3 and 4. `expected` is the newest epoch that step 2 found; None with `--force`. Raises
    FencedError if a run takes the app over meanwhile, and StateError `app-running` if one started since step
    2."""
    if names.control(reset.app) not in reset.topics:
        for topic in reset.topics:
            log.delete(topic)
        return
    generation = read_control(log, reset.app).active()
    with closing(take_over(log, reset.app, generation, clock)) as claim:
        if expected is not None and claim.epoch != expected + 1:
            raise _started_meanwhile(reset.app, claim.epoch - 1)
        for topic in reset.topics:
            reach("reset.4")
            newest = read_control(log, reset.app).epoch(ROLE)
            if newest > claim.epoch:
                raise FencedError(names.driver_id(reset.app, ROLE), claim.epoch, newest)
            log.delete(topic)


def held_error(app: str, run: Holder) -> StateError:
    """Return the error of a reset that is refused because a run holds the app."""
    if run.ending:
        state = "is ending"
    elif run.last_report_ms is not None and run.last_report_ms < 1000 * SILENT_SECONDS:
        state = f"is running: a slot reported {run.last_report_ms / 1000:.1f} s ago"
    else:
        state = "has not ended in order: it was killed, is starting, or cannot reach the log"
    return StateError(
        "app-running",
        f"app {app!r} is held by its run of epoch {run.epoch}, which {state}",
        f"end it: tidegate stop {app}; or stop and fence it first with: tidegate reset {app} --force",
    )


def last_epoch(log: Log, app: str) -> int:
    """Return the epoch of the newest run; 0 before the first, or without a control topic. Call it before
    `find_holder`."""
    return read_control(log, app).epoch(ROLE) if find_topic(log, names.control(app)) is not None else 0


def _started_meanwhile(app: str, epoch: int) -> StateError:
    return StateError(
        "app-running",
        f"app {app!r} was started while the reset was waiting for an answer: nothing was deleted, and its run"
        f" of epoch {epoch} was fenced",
        f"start it again to continue; or stop it first and run: tidegate reset {app}",
    )


def _unknown_run(log: Log, app: str) -> Holder | None:
    """Return a holder if any slot still reports, for an app without a control topic."""
    if find_topic(log, names.status(app)) is None or not reports_again(log, app, None):
        return None
    return Holder(0, ending=False, last_report_ms=0)


def planned_slots(control: Control, epoch: int) -> set[int]:
    """Return the slots of the plan of an epoch; none before it was written."""
    plan = control.plan(ROLE)
    return {slot.slot for slot in plan.slots} if plan.epoch == epoch else set()


def reports_again(log: Log, app: str, epoch: int | None) -> bool:
    """Return whether a slot reports that it runs, within the time in which a running slot does."""
    deadline = time.monotonic() + SILENT_SECONDS
    with closing(StatusFollower(log, app)) as follower:
        while time.monotonic() < deadline:
            for one in follower.poll(POLL_SECONDS):
                if not isinstance(one, Ended | Failure) and epoch in (None, one.epoch):
                    return True
    return False


def _reports(log: Log, app: str, since: int) -> Iterator[tuple[int, Status]]:
    """Yield what slots reported since a time, each with its timestamp."""
    if find_topic(log, names.status(app)) is None:
        return
    partition = TopicPartition(names.status(app), 0)
    start, end = log.offset_at(partition, since), log.ends([partition])[partition]
    for batch in read_between(log, partition, start, end):
        times, values = (batch.column(name).to_pylist() for name in ("timestamp", "value"))
        for at, value in zip(times, values, strict=True):
            one = decoded(value)
            if one is not None:
                yield at, one
