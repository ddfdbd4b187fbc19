"""The numbers that a slot publishes."""

from __future__ import annotations

from tidegate.gate.task_gates import gate_numbers
from tidegate.runtime.slot.restore_progress import RestoreProgress
from tidegate.runtime.slot.slot import Slot
from tidegate.runtime.topics.slot_order import SlotOrder
from tidegate.runtime.topics.status import Numbers


def slot_numbers(
    order: SlotOrder, slot: Slot, progress: RestoreProgress, now: int, per_second: float, rests_until: int
) -> Numbers:
    """Return the numbers of a slot at a wall time in ms."""
    return Numbers(
        order.epoch,
        order.slot,
        at=now,
        records=slot.records,
        per_second=per_second,
        lag=slot.lag(),
        skipped=sum(task.skipped for task in slot.tasks),
        running=len(slot.tasks),
        restoring=slot.restoring,
        restored=progress.done,
        to_restore=progress.wanted,
        rebuilt=progress.rebuilt,
        emptied=progress.emptied,
        gaps=progress.gaps,
        batches_taken_apart=sum(task.batches_taken_apart for task in slot.tasks),
        gates=gate_numbers(task.gates for task in slot.tasks),
        null_values=sum(task.null_values.count for task in slot.tasks),
        dead_letters=sum(task.dead_letters.count for task in slot.tasks),
        rests_until=rests_until,
    )
