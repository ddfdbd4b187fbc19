"""What happened to an app, folded from its status and control topics while they are read.

    failure     an error ended a slot's job            warning    a slot reported a problem and goes on
    started     a slot's job landed on a host          restarted  the same, after an earlier attempt
    stopped     a slot's job ended in order            gave-up    the driver ended the app by an error
    move        stream tasks changed slot or host      upgrade    an upgrade changed its state
    rebuilt     stores were rebuilt from changelogs    emptied, gap   stores without changelog lost rows

An id names the record that an event comes from, so every server has the same ids. The status topic holds one
hour; the control topic is compacted, so moves between older plans are missing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import msgspec

from tidegate.log.protocol import Fetched
from tidegate.log.records import rows_of
from tidegate.runtime.topics.control import ROLE, Plan, Stop
from tidegate.runtime.topics.status import Ended, Failure, Landing, Numbers, Recalculating, Status, Warned
from tidegate.runtime.topics.upgrades import UPGRADE, UpgradeEntry

MOST = 500
_plan = msgspec.json.Decoder(Plan)
_stop = msgspec.json.Decoder(Stop)
_upgrade = msgspec.json.Decoder(UpgradeEntry)
_COUNTED = {"rebuilt": "rebuilt", "emptied": "emptied", "gaps": "gap"}


class Home(msgspec.Struct, frozen=True):
    """Where stream tasks run."""

    slot: int
    host: str


class AppEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """One event; `at` is in milliseconds."""

    id: str
    at: int
    app: str
    kind: str
    slot: int | None = None
    attempt: int | None = None
    host: str = ""
    code: str = ""
    message: str = ""
    hint: str = ""
    count: int = 0
    generation: int | None = None
    state: str = ""
    """That of an upgrade."""
    tasks: list[str] = []
    source: Home | None = msgspec.field(default=None, name="from")
    to: Home | None = None


class AppEvents:
    """The newest events of one app."""

    def __init__(self, app: str) -> None:
        self._app = app
        self._kept: deque[AppEvent] = deque(maxlen=MOST)
        self._hosts: dict[int, str] = {}
        self._numbers: dict[int, Numbers] = {}
        self._plan: Plan | None = None
        self._upgrade: tuple[int, str] | None = None
        self._gave_up = 0
        self._failed: dict[int, tuple[int, int, int]] = {}
        """The job of each slot that failed last: slot, epoch, attempt."""

    def all(self) -> list[AppEvent]:
        """Return the events, ordered by their times."""
        return sorted(self._kept, key=lambda one: one.at)

    def take_status(self, one: Status, offset: int, at: int) -> None:
        """Add the events of one record of the status topic."""
        name = f"s{offset}"
        match one:
            case Failure() | Warned():
                kind = "failure" if isinstance(one, Failure) else "warning"
                job = one.slot, one.epoch, one.attempt
                if isinstance(one, Failure):
                    if one.by_driver and self._failed.get(one.slot) == job:
                        return  # the slot has reported it itself
                    self._failed[one.slot] = job
                self._add(
                    name,
                    at,
                    kind,
                    slot=one.slot,
                    attempt=one.attempt,
                    host=self._hosts.get(one.slot, ""),
                    code=one.code,
                    message=one.message,
                    hint=one.hint,
                )
            case Landing():
                self._take_landing(one, name, at)
            case Ended():
                self._add(name, at, "stopped", slot=one.slot, attempt=one.attempt)
            case Numbers():
                self._take_numbers(one, name, at)
            case Recalculating():
                pass

    def take_control(self, part: Fetched) -> None:
        """Add the events of records of the control topic. Records that cannot be decoded are those of another
        version: the follower itself reports them."""
        for row in rows_of(part.batch):
            if row.key is None or row.value is None:
                continue
            name = f"c{row.offset}"
            try:
                if row.key == f"plan/{ROLE}".encode():
                    self._take_plan(_plan.decode(row.value), name, row.timestamp)
                elif row.key == f"stop/{ROLE}".encode():
                    self._take_stop(_stop.decode(row.value), name, row.timestamp)
                elif row.key == UPGRADE.encode():
                    self._take_upgrade(_upgrade.decode(row.value), name, row.timestamp)
            except msgspec.DecodeError:
                continue

    def _take_landing(self, one: Landing, name: str, at: int) -> None:
        before = self._hosts.get(one.slot, one.host)
        self._hosts[one.slot] = one.host
        self._numbers.pop(one.slot, None)
        kind = "restarted" if one.attempt > 1 else "started"
        self._add(name, at, kind, slot=one.slot, attempt=one.attempt, host=one.host)
        if before != one.host and self._plan is not None and one.epoch == self._plan.epoch:
            self._add(
                f"{name}-move",
                at,
                "move",
                slot=one.slot,
                tasks=[task for task, home in _homes(self._plan) if home.slot == one.slot],
                source=Home(one.slot, before),
                to=Home(one.slot, one.host),
            )

    def _take_numbers(self, one: Numbers, name: str, at: int) -> None:
        before = self._numbers.get(one.slot)
        self._numbers[one.slot] = one
        for field, kind in _COUNTED.items():
            known = 0 if before is None or before.epoch != one.epoch else getattr(before, field)
            if (more := getattr(one, field) - known) > 0:
                host = self._hosts.get(one.slot, "")
                self._add(f"{name}-{kind}", at, kind, slot=one.slot, host=host, count=more)

    def _take_plan(self, plan: Plan, name: str, at: int) -> None:
        before, self._plan = self._plan, plan
        if before is None:
            return
        moved: dict[tuple[Home, Home], list[str]] = {}
        homes = dict(_homes(before))
        for task, home in _homes(plan):
            known = homes.get(task, home)
            if known.slot != home.slot or (known.host and home.host and known.host != home.host):
                moved.setdefault((known, home), []).append(task)
        for number, ((source, to), tasks) in enumerate(moved.items()):
            self._add(f"{name}-{number}", at, "move", slot=to.slot, tasks=tasks, source=source, to=to)

    def _take_stop(self, stop: Stop, name: str, at: int) -> None:
        if stop.failure is not None and stop.epoch > self._gave_up:
            self._gave_up, cause = stop.epoch, stop.failure
            self._add(name, at, "gave-up", code=cause.code, message=cause.message, hint=cause.hint)

    def _take_upgrade(self, entry: UpgradeEntry, name: str, at: int) -> None:
        now = entry.generation, entry.state
        if now != self._upgrade:
            self._upgrade = now
            self._add(name, at, "upgrade", generation=entry.generation, state=entry.state)

    def _add(self, name: str, at: int, kind: str, **fields: object) -> None:
        self._kept.append(AppEvent(name, at, self._app, kind, **fields))  # type: ignore[arg-type]


def _homes(plan: Plan) -> Iterator[tuple[str, Home]]:
    for slot in plan.slots:
        for task in slot.tasks:
            yield str(task), Home(slot.slot, slot.host)
