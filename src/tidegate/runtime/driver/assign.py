"""Assign stream tasks to slots: evenly, and where possible to the host that holds their state."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tidegate.log.positions import TaskId
from tidegate.runtime.topics.status import Landing

_COMPLETE = 2**62
"""State of a running task on its own host: more than any other host can hold of it."""


def assign(tasks: Sequence[TaskId], landings: Mapping[int, Landing]) -> dict[int, list[TaskId]]:
    """Assign each task to a slot, so that the numbers of tasks of two slots differ by one at most.

    A task goes to the slot whose host holds most of its state, among the slots that are not full. Tasks that
    would lose most on another host are assigned first. The result depends on the arguments alone.
    """
    return _assign({task: _held_by_slot(task, landings) for task in tasks}, landings)


def restore_savings(
    assignment: Mapping[int, Sequence[TaskId]], landings: Mapping[int, Landing], restoring: Collection[int]
) -> int:
    """Return how many changelog records fewer would be read if the tasks of restoring slots were reassigned.

    Tasks of the other slots stay where they are: their state is complete on their hosts by now, whatever was
    there when the slots landed.
    """
    held = {task: _held_by_slot(task, landings) for assigned in assignment.values() for task in assigned}
    for slot in set(assignment) - set(restoring):
        for task in assignment[slot]:
            for other, landing in landings.items():
                held[task][other] = _COMPLETE if landing.host == landings[slot].host else -1
    reassigned = _assign(held, landings)
    return _total_held(reassigned, held) - _total_held(assignment, held)


def _total_held(assignment: Mapping[int, Sequence[TaskId]], held: Mapping[TaskId, Mapping[int, int]]) -> int:
    return sum(max(0, held[task][slot]) for slot, assigned in assignment.items() for task in assigned)


def _assign(
    held: Mapping[TaskId, Mapping[int, int]], landings: Mapping[int, Landing]
) -> dict[int, list[TaskId]]:
    tasks = list(held)
    share = -(-len(tasks) // len(landings))
    assignment: dict[int, list[TaskId]] = {slot: [] for slot in sorted(landings)}
    loss = {task: _loss(held[task], landings) for task in tasks}
    for task in sorted(tasks, key=lambda task: (-loss[task], -max(held[task].values()), task)):
        assigned = held[task]
        free = [slot for slot in assignment if len(assignment[slot]) < share]
        assignment[min(free, key=lambda slot: (-assigned[slot], len(assignment[slot]), slot))].append(task)
    return {slot: sorted(assigned) for slot, assigned in assignment.items()}


def _loss(held: Mapping[int, int], landings: Mapping[int, Landing]) -> int:
    """Return how much less of a task's state the second best host holds."""
    best = max(held, key=lambda slot: held[slot])
    elsewhere = [held[slot] for slot in held if landings[slot].host != landings[best].host]
    return held[best] - max(elsewhere, default=-1)


def _held_by_slot(task: TaskId, landings: Mapping[int, Landing]) -> dict[int, int]:
    """Return how much of the task's state each slot's host holds; -1 for nothing."""
    return {slot: landing.folders.get(str(task), -1) for slot, landing in landings.items()}
