"""Drain an app that runs in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tidegate.runtime.driver.run import Run
from tidegate.runtime.slot.slot import Slot
from tidegate.runtime.topics.unread import task_positions, unread

WAIT_SECONDS = 0.05
"""How long to wait for records that are in the log and were not read yet."""


def drain_here(
    run: Run, slots: Sequence[Slot], stages: Sequence[Any], step: Callable[[Slot, float], bool]
) -> None:
    """Process the records of internal topics to their ends, and no more records of sources. `step` runs one
    step of a slot and commits."""
    timers_until, wait = run.context.clock.now(), 0.0
    while True:
        busy = False
        for slot in list(slots):
            slot.drain(timers_until)
            busy |= step(slot, wait)
        for stage in stages:
            busy |= stage.step()
        if all(slot.rests for slot in slots) and _all_read(run):
            return
        wait = 0.0 if busy else WAIT_SECONDS


def _all_read(run: Run) -> bool:
    manifest = run.manifest
    return not unread(run.log, manifest, task_positions(run.log, manifest), manifest.internal.values())
