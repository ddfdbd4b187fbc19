"""Which slot runs which stream tasks: where their state lies, and evenly."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tidegate.log.positions import TaskId
from tidegate.runtime.topics.status import Landing

_ALL = 2**62
"""More than any host has of a task that runs elsewhere."""


def assign(tasks: Sequence[TaskId], landings: Mapping[int, Landing]) -> dict[int, list[TaskId]]:
    """Each task to a slot, no slot with more than one task above another's share.

    A task goes to a slot on the host that holds most of its state, unless that slot is full: then to where
    there is most of it among the others. Who would lose most by going elsewhere chooses first. Same input,
    same answer.
    """
    return _assign({task: _held(task, landings) for task in tasks}, landings)


def saved(
    given: Mapping[int, Sequence[TaskId]], landings: Mapping[int, Landing], restoring: Collection[int]
) -> int:
    """How much less of the changelogs would be read if the tasks of restoring slots changed places.

    All others stay: what they run lies in full on their hosts, whatever there was of it when they landed.
    """
    held = {task: _held(task, landings) for mine in given.values() for task in mine}
    for slot in set(given) - set(restoring):
        for task in given[slot]:
            for other, landing in landings.items():
                held[task][other] = _ALL if landing.host == landings[slot].host else -1
    anew = _assign(held, landings)
    return _sum(anew, held) - _sum(given, held)


def _sum(given: Mapping[int, Sequence[TaskId]], held: Mapping[TaskId, Mapping[int, int]]) -> int:
    return sum(max(0, held[task][slot]) for slot, mine in given.items() for task in mine)


def _assign(
    held: Mapping[TaskId, Mapping[int, int]], landings: Mapping[int, Landing]
) -> dict[int, list[TaskId]]:
    tasks = list(held)
    share = -(-len(tasks) // len(landings))
    given: dict[int, list[TaskId]] = {slot: [] for slot in sorted(landings)}
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
