"""Which slot runs which stream tasks: where their state lies, and evenly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidegate.log.positions import TaskId
from tidegate.runtime.status import Landing


def assign(tasks: Sequence[TaskId], landings: Mapping[int, Landing]) -> dict[int, list[TaskId]]:
    """Each task to a slot, no slot with more than one task above another's share.

    A task goes to a slot on the host that holds most of its state, unless that slot is full; those without
    state, and those that found no room, go to the emptiest slots. Same input, same answer.
    """
    share = -(-len(tasks) // len(landings))
    given: dict[int, list[TaskId]] = {slot: [] for slot in sorted(landings)}
    homeless: list[TaskId] = []
    held = {task: _held(task, landings) for task in tasks}
    for task in sorted(tasks, key=lambda task: (-max(held[task].values()), task)):
        most = max(held[task].values())
        there = [slot for slot in given if held[task][slot] == most and len(given[slot]) < share]
        if most < 0 or not there:
            homeless.append(task)
        else:
            given[min(there, key=lambda slot: (len(given[slot]), slot))].append(task)
    for task in sorted(homeless):
        given[min(given, key=lambda slot: (len(given[slot]), slot))].append(task)
    return {slot: sorted(mine) for slot, mine in given.items()}


def _held(task: TaskId, landings: Mapping[int, Landing]) -> dict[int, int]:
    """How much of the task's state each slot's host holds; -1 for nothing."""
    return {slot: landing.folders.get(str(task), -1) for slot, landing in landings.items()}
