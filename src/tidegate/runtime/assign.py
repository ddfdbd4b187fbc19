"""Which slot runs which stream tasks: where their state lies, and evenly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidegate.log.positions import TaskId
from tidegate.runtime.status import Landing


def assign(tasks: Sequence[TaskId], landings: Mapping[int, Landing]) -> dict[int, list[TaskId]]:
    """Each task to a slot, no slot with more than one task above another's share.

    A task goes to a slot on the host that holds most of its state, unless that slot is full: then to where
    there is most of it among the others. Who would lose most by going elsewhere chooses first. Same input,
    same answer.
    """
    share = -(-len(tasks) // len(landings))
    given: dict[int, list[TaskId]] = {slot: [] for slot in sorted(landings)}
    held = {task: _held(task, landings) for task in tasks}
    loss = {task: _loss(held[task], landings) for task in tasks}
    for task in sorted(tasks, key=lambda task: (-loss[task], -max(held[task].values()), task)):
        mine = held[task]
        free = [slot for slot in given if len(given[slot]) < share]
        given[min(free, key=lambda slot: (-mine[slot], len(given[slot]), slot))].append(task)
    return {slot: sorted(mine) for slot, mine in given.items()}


def _loss(held: Mapping[int, int], landings: Mapping[int, Landing]) -> int:
    """How much less of a task's state there is on the second best host."""
    best = max(held, key=lambda slot: held[slot])
    elsewhere = [held[slot] for slot in held if landings[slot].host != landings[best].host]
    return held[best] - max(elsewhere, default=-1)


def _held(task: TaskId, landings: Mapping[int, Landing]) -> dict[int, int]:
    """How much of the task's state each slot's host holds; -1 for nothing."""
    return {slot: landing.folders.get(str(task), -1) for slot, landing in landings.items()}
