"""Rebuild the damaged folder of a task from the log, whether its app runs or not.

1 mark the folder, durably: from here on no task uses its rows; 2 if a live task holds it, leave it: its slot
notices the mark within a second and rebuilds the folder itself; 3 else restore the task as any slot would, up
to the committed position; 4 commit, without the position: a store that has no changelog is empty now, and the
task must notice that at its next start. What cannot be restored without the app's code is only discarded, and
restored when the app starts.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from tidegate.clock import Clock
from tidegate.errors import TidegateError
from tidegate.log.faultpoints import reach
from tidegate.log.positions import Position, TaskId, read_positions
from tidegate.log.protocol import Log
from tidegate.serde import Serde
from tidegate.state.builder import StoreBuilder
from tidegate.state.environment import DAMAGED, StoreFacts, mark_damaged
from tidegate.state.folders import empty, take_unheld
from tidegate.state.formats import LAYOUTS
from tidegate.state.manager import Owner, StateManager
from tidegate.state.restore import Restore


class RepairOutcome(StrEnum):
    """What was done about a damaged folder. REQUESTED: the task that holds it was requested to rebuild it."""

    REBUILT = "rebuilt"
    DISCARDED = "discarded"
    REQUESTED = "asked"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Repaired:
    """The result of repairing one task's folder."""

    outcome: RepairOutcome
    message: str


@dataclass(frozen=True, slots=True)
class Damaged:
    """A folder to repair. `stores` describes the task's stores; None if they are unknown."""

    app: str
    task: TaskId
    folder: Path
    stores: dict[str, StoreFacts] | None


def repair(log: Log, clock: Clock, damaged: Damaged, wait_seconds: float) -> Repaired:
    """Run the steps above; wait up to `wait_seconds` for a live task to do its part. Errors of tidegate and
    the system become the outcome FAILED."""
    try:
        reach("repair.1")
        mark_damaged(damaged.folder)
        reach("repair.2")
        held = take_unheld(damaged.folder)
        if held is None:
            return _wait_for_holder(damaged.folder, wait_seconds)
        held.release()
        return _rebuild(log, clock, damaged)
    except (TidegateError, OSError) as error:
        return Repaired(RepairOutcome.FAILED, str(error))


def _wait_for_holder(folder: Path, seconds: float) -> Repaired:
    """Wait until the task that holds the folder has emptied it, including the mark."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not (folder / DAMAGED).exists():
            return Repaired(RepairOutcome.REBUILT, "by the running task that holds it")
        time.sleep(0.1)
    return Repaired(
        RepairOutcome.REQUESTED,
        "a running task holds it; that task's slot rebuilds it when it notices the mark, or opens it next",
    )


def _rebuild(log: Log, clock: Clock, damaged: Damaged) -> Repaired:
    read_at = clock.now()
    position = read_positions(log, damaged.app).get(damaged.task)
    builders = None if position is None else _builders(damaged, position)
    if position is None or builders is None:
        return _discard(damaged.folder)
    owner = Owner(damaged.app, damaged.task, log.id)
    manager = StateManager(owner, damaged.folder.parent, clock)
    for builder in builders:
        assert damaged.stores is not None  # noqa: S101 - the builders are created from it
        manager.register(builder, damaged.stores[builder.name].changelog)
    restore = Restore(manager, log, position, read_at=read_at)
    reach("repair.3")
    restore.open()
    try:
        if manager.folder != damaged.folder:
            return Repaired(RepairOutcome.REQUESTED, "a task has opened it in the meantime, and rebuilds it")
        restore.run()
        reach("repair.4")
        manager.position = None
        manager.close()
    finally:
        manager.drop()
    return Repaired(
        RepairOutcome.REBUILT, f"from the log: {', '.join(one.name for one in builders) or 'nothing'}"
    )


def _discard(path: Path) -> Repaired:
    folder = take_unheld(path)
    if folder is None:
        return Repaired(RepairOutcome.REQUESTED, "a task has opened it in the meantime, and rebuilds it")
    try:
        empty(folder)
    finally:
        folder.release()
    return Repaired(RepairOutcome.DISCARDED, "it is rebuilt from the log when the app starts")


def _builders(damaged: Damaged, position: Position) -> list[StoreBuilder[Any]] | None:
    """Return the stores in the folder that have a changelog; None if they are not known for sure."""
    if damaged.stores is None or not position.changelogs.keys() <= damaged.stores.keys():
        return None
    found = []
    for name in position.changelogs:
        facts = damaged.stores[name]
        if (
            facts.kind not in LAYOUTS
            or facts.changelog is None
            or (facts.kind == "window" and not facts.window)
        ):
            return None
        if not (facts.in_memory or (damaged.folder / f"store-{name}").is_dir()):
            found.append(_builder(name, facts))
    return found


def _builder(name: str, facts: StoreFacts) -> StoreBuilder[Any]:
    """Return a builder for restoring a store's rows as plain bytes."""
    return StoreBuilder(
        name,
        facts.kind,
        _Opaque(facts.key),
        _Opaque(facts.value),
        LAYOUTS[facts.kind],
        lambda *_: None,
        window_size=facts.window,
        retention=0 if facts.kind in ("window", "session") else None,
    )


class _Opaque(Serde[bytes]):
    """Replaces a serde of the app: it has the same name, and returns bytes unchanged."""

    def __init__(self, name: str) -> None:
        self.name = name

    def encode(self, value: bytes) -> bytes:
        return value

    def decode(self, data: bytes) -> bytes:
        return data

    def schema(self) -> dict[str, Any]:
        return {"format": self.name}
