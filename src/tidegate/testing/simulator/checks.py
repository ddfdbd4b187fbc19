"""The invariants of a task, each held against what is committed."""

from __future__ import annotations

from tidegate.state.manager import StateManager
from tidegate.testing.simulator.program import INPUT, value_of, visible_rows
from tidegate.testing.simulator.task import SimTask
from tidegate.testing.simulator.truth import TaskTruth, Truth
from tidegate.testing.simulator.violation import demand


def check_task(truth: Truth, task: SimTask, *, live: bool) -> None:
    """I1, I3, I6: a running task between two commits stands at the committed position, and its rows are the
    fold of its changelogs, which is the fold of its inputs. A zombie stands at an older position.
    """
    known, position = truth.tasks[task.partition], task.state.position
    demand(position in known.positions, "I1", f"{task.id} stands at {position}, which nobody committed")
    assert position is not None  # noqa: S101 - demanded above
    if live:
        demand(position == known.newest, "I1", f"{task.id} stands at {position}, committed is {known.newest}")
    for store, offset in task.state.offsets.items():
        demand(
            offset == position.changelogs[store],
            "I6",
            f"{store} of {task.id} says offset {offset}, its position {position.changelogs[store]}",
        )
    if not live and not _is_exact(truth, known, task):
        return
    until = position.sources[INPUT][task.partition]
    expected = known.expected_at(until)
    for store, offset in task.state.offsets.items():
        rows = dict(task.state.inner(store).scan(None, None))
        folded = known.fold(store, offset)
        demand(rows == folded, "I6", f"{store} of {task.id} at {offset}: rows {rows}, fold {folded}")
        if not task.moved():
            _check_visible(task, store, expected.rows(store))


def check_pending(truth: Truth, task: SimTask) -> None:
    """Before a commit a task sees the inputs that it processed, on top of what is committed."""
    known = truth.tasks[task.partition]
    position = task.state.position
    assert position is not None  # noqa: S101 - it runs
    expected, until = known.fresh_at(position.sources[INPUT][task.partition]), task.next
    for offset, (op, timestamp) in known.inputs.items():
        if position.sources[INPUT][task.partition] <= offset < until:
            expected.take(op, timestamp, value_of(task.tag, offset))
    for store in task.state.offsets:
        _check_visible(task, store, expected.rows(store))


def check_not_ahead(truth: Truth, state: StateManager) -> None:
    """I7: no store, in memory or on its way to disk, is ahead of what is committed."""
    newest = truth.tasks[state.owner.task.partition].newest
    for store, offset in state.offsets.items():
        demand(
            offset <= newest.changelogs[store],
            "I7",
            f"{store} of {state.owner.task} is at {offset}, committed is {newest.changelogs[store]}",
        )


def _check_visible(task: SimTask, store: str, expected: dict[object, object]) -> None:
    found = visible_rows(store, task.state)
    demand(
        found == expected, "I1", f"{store} of {task.id} at input {task.next}: {found}, expected {expected}"
    )


def _is_exact(truth: Truth, known: TaskTruth, task: SimTask) -> bool:
    """Whether the changelog can still be folded at the position: compaction drops what is overwritten above
    it. Who restored before that holds the rows still."""
    index = known.positions.index(task.start)
    return index + 1 == len(known.positions) or known.compactions[index + 1] == truth.compactions
