"""Takeover: how a driver becomes the only one that may write for an app.

1 open the driver's writer, fencing another driver; 2 only then read the control topic to its end, and write
the highest epoch found + 1, unless another generation of the app is active by now; 3 read it back as a
committed reader; 4 open, and so fence, every writer that the plan found in 2 names; 5 start the slots, wait
until they land, and write the plan over those that did, with first positions where there are none. Only then
do slots open tasks.

Steps 1 to 4 are here. A plan that was read before step 1 may be older than the one in force, and its writers
would not be fenced.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import msgspec

from tidegate.clock import Clock
from tidegate.errors import FencedError, LogError, UpgradeError
from tidegate.log import names
from tidegate.log.faultpoints import reach
from tidegate.log.positions import TaskId
from tidegate.log.protocol import Log, Writer
from tidegate.runtime.slot.stage import Stage
from tidegate.runtime.topics.control import (
    ROLE,
    Attempt,
    Cause,
    Control,
    EpochEntry,
    Plan,
    SlotPlan,
    StagePlan,
    Stop,
    read_control,
    write_control,
)
from tidegate.runtime.topics.manifests import visible_control

FENCING_THREADS = 16
STOP_TRIES = 20
WRITTEN_AGAIN = ("commit-unknown", "writer-spent")
"""After these errors the driver writes the record again, which is harmless if it was already written. All
threads share one writer, so a failure in one of them makes it unusable for the others too."""
Entries = Mapping[str, msgspec.Struct | bytes | None]


def no_entries(_control: Control) -> Entries:
    return {}


class Claim:
    """The right to write for an app under an epoch, until another driver takes the app over."""

    def __init__(self, app: str, generation: int, epoch: int, writer: Writer, before: Plan) -> None:
        """`before` is the plan that the takeover found."""
        self.before = before
        self.app = app
        self.generation = generation
        self.epoch = epoch
        self.writer = writer

    def writer_id(self, slot: int) -> str:
        """Return the writer id of a slot of this epoch."""
        return names.writer_id(self.app, self.generation, self.epoch, slot)

    def stage_writer_id(self, stage: Stage) -> str:
        """Return the writer id of a stage of this epoch."""
        return names.writer_id(self.app, self.generation, self.epoch, f"stage-{stage.name}")

    def begin_attempt(self, slot: int, attempt: int, now: int) -> None:
        """Record that a slot's job is started: its older attempts are void from here on."""
        entry = {f"attempt/{ROLE}/{slot}": Attempt(self.epoch, attempt)}
        write_control(self.writer, self.app, entry, now)
        self.writer.commit()

    def regain(self, log: Log) -> None:
        """Reopen the driver's writer after the log failed or it was fenced. Only the driver with the highest
        epoch may keep it. An older driver may open it once too often: it then finds the newer epoch and ends,
        and the newer driver, fenced by it, reopens the writer in turn. So the first look takes what is
        visible: a transaction of its own that failed may be open until the writer is reopened."""
        self._check_newest(visible_control(log, self.app))
        self.writer.close()
        self.writer = log.writer(names.driver_id(self.app, ROLE))
        self._check_newest(read_control(log, self.app))

    def _check_newest(self, control: Control) -> None:
        check_active(self.app, self.generation, control)
        newest = control.epoch(ROLE)
        if newest > self.epoch:
            raise FencedError(names.driver_id(self.app, ROLE), self.epoch, newest)

    def write_plan(
        self,
        tasks: Mapping[int, Sequence[TaskId]],
        hosts: Mapping[int, str],
        stages: Sequence[Stage],
        topics: dict[str, str],
        now: int,
    ) -> Plan:
        """Write the plan: step 5. First positions that the caller appended are committed with it."""
        slots = [
            SlotPlan(number, self.writer_id(number), list(own), hosts[number])
            for number, own in tasks.items()
        ]
        plan = Plan(
            self.epoch,
            slots,
            [StagePlan(stage.name, self.stage_writer_id(stage)) for stage in stages],
            topics,
        )
        reach("driver.5")
        write_control(self.writer, self.app, {f"plan/{ROLE}": plan}, now)
        self.writer.commit()
        return plan

    def renew(self, log: Log, clock: Clock) -> Claim:
        """Repeat steps 2 to 4 for a new plan of the same driver: a higher epoch, with the old writers fenced.

        A fenced writer may only have been idle for so long that the log forgot its id, and an unusable one
        may have failed in the thread of a starting slot: it is reopened once. Raises FencedError if another
        driver took over, or if an unacknowledged commit turns out to have raised the epoch.
        """
        try:
            epoch, before = _write_epoch(log, self.app, self.generation, self.writer, clock)
        except LogError as error:
            if not may_regain(error):
                raise
            self.regain(log)
            epoch, before = _write_epoch(log, self.app, self.generation, self.writer, clock)
        _fence_previous(log, self.app, epoch, before)
        return Claim(self.app, self.generation, epoch, self.writer, before)

    def close(self) -> None:
        self.writer.close()


def may_regain(error: LogError) -> bool:
    """Return whether a reopened writer may continue after this error."""
    return isinstance(error, FencedError) or error.retryable or error.code in WRITTEN_AGAIN


def take_over(
    log: Log, app: str, generation: int, clock: Clock, also: Callable[[Control], Entries] = no_entries
) -> Claim:
    """Take an app over: steps 1 to 4. Raises FencedError if another driver did so meanwhile. `also` returns
    entries that are written with the epoch, by the control topic as it is then."""
    reach("driver.1")
    writer = log.writer(names.driver_id(app, ROLE))
    try:
        epoch, before = _write_epoch(log, app, generation, writer, clock, also)
        _fence_previous(log, app, epoch, before)
    except BaseException:
        writer.close()
        raise
    return Claim(app, generation, epoch, writer, before)


def check_active(app: str, generation: int, control: Control) -> None:
    """Raise UpgradeError `generation-replaced` if another generation is active. Only a holder of the driver's
    writer changes that, so it holds until the caller is fenced. A control topic without any manifest is
    refused later, by the missing positions."""
    active = control.active()
    if active not in (0, generation):
        raise UpgradeError(
            "generation-replaced",
            f"app {app!r} runs generation {active} now, and this start was prepared for generation "
            f"{generation}",
            "start again: the app is then compared with the generation that runs",
        )


def _write_epoch(
    log: Log,
    app: str,
    generation: int,
    writer: Writer,
    clock: Clock,
    also: Callable[[Control], Entries] = no_entries,
) -> tuple[int, Plan]:
    """Write the next epoch: step 2. Returns it with the plan that was found. Another generation may have
    become active since this start was prepared: then nothing is written."""
    reach("driver.2")
    found = read_control(log, app)
    check_active(app, generation, found)
    epoch = found.epoch(ROLE) + 1
    write_control(writer, app, {f"epoch/{ROLE}": EpochEntry(epoch), **also(found)}, clock.now())
    writer.commit()
    return epoch, found.plan(ROLE)


def _fence_previous(log: Log, app: str, epoch: int, before: Plan) -> None:
    """Read the epoch back and fence the writers of the previous plan: steps 3 and 4."""
    reach("driver.3")
    _read_back(log, app, epoch)
    reach("driver.4")
    fence(log, before.writers)


def fence(log: Log, writers: Sequence[str]) -> None:
    """Open each writer once, which fences its holder."""
    if len(writers) < 2:
        for writer in writers:
            log.writer(writer).close()
        return
    with ThreadPoolExecutor(min(FENCING_THREADS, len(writers))) as pool:
        for opened in pool.map(log.writer, writers):
            opened.close()


def request_stop(
    log: Log,
    app: str,
    who: str,
    now: int,
    epoch: int | None = None,
    *,
    for_new_plan: bool = False,
    failure: Cause | None = None,
) -> int:
    """Request the slots of an epoch, by default of the newest, to stop. Returns that epoch.

    1 open the writer of stops, fencing another one that requests a stop at the same time; 2 read the control
    topic to its end, and write the stop unless it already holds one that includes it; if fenced in between,
    repeat from 1. So a stop never goes back to an older epoch, and a stop that ends the app is not replaced
    by that of a new plan; 3 read the epoch again: if it was raised meanwhile, stop that one too.

    A driver that ends names its own epoch: another driver may have taken over meanwhile. A driver that raised
    its epoch looks for stops of its earlier epochs: see `Coordinator`.
    """
    for _ in range(STOP_TRIES):
        with closing(log.writer(f"{names.driver_id(app, ROLE)}.stop")) as writer:
            try:
                control = read_control(log, app)
                named = control.epoch(ROLE) if epoch is None else epoch
                before = control.stop(ROLE)
                reach("stop.2")
                if before.epoch < named or (
                    before.epoch == named and before.for_new_plan and not for_new_plan
                ):
                    write_control(writer, app, {f"stop/{ROLE}": Stop(named, for_new_plan, who, failure)}, now)
                    writer.commit()
            except FencedError:
                continue
        if epoch is not None or read_control(log, app).epoch(ROLE) == named:
            return named
    raise LogError(
        "stop-not-written",
        f"app {app!r} could not be stopped: {STOP_TRIES} tries met other stop requests",
        "try again",
        retryable=True,
    )


def _read_back(log: Log, app: str, epoch: int) -> None:
    """Check, as a committed reader, that the epoch is visible and no newer one was written."""
    found = read_control(log, app).epoch(ROLE)
    if found > epoch:
        raise FencedError(names.driver_id(app, ROLE), epoch, found)
    if found < epoch:
        raise LogError(
            "epoch-not-seen",
            f"epoch {epoch} of app {app!r} was committed and cannot be read",
            "start again; if it persists, the log loses acknowledged writes",
            retryable=True,
        )
