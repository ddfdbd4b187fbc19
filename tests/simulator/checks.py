"""The invariants of a task, each held against what is committed."""

from __future__ import annotations

from typing import Any

from tests.simulator.expected import Expected
from tests.simulator.program import value_of, visible_rows
from tests.simulator.task_truth import TaskTruth
from tests.simulator.truth import Truth
from tests.simulator.violation import demand
from tests.simulator.watched import WatchedState

from tidegate.runtime.task.task import StreamTask
from tidegate.state.manager import StateManager
from tidegate.state.memtable import Memtable


def check_task(truth: Truth, state: StateManager, *, live: bool, moved: bool = False) -> None:
    """I1, I3, I6: a running task between two commits stands at the committed position, and its rows are the
    fold of its changelogs, which is the fold of its inputs. A zombie stands at an older position. A task that
    has `moved` since shows more than that to user code.
    """
    task = state.owner.task
    known, position = truth.tasks[task], state.position
    demand(position in known.positions, "I1", f"{task} stands at {position}, which nobody committed")
    assert position is not None
    if live:
        demand(position == known.newest, "I1", f"{task} stands at {position}, committed is {known.newest}")
    for store, offset in state.offsets.items():
        demand(
            offset == position.changelogs[store],
            "I6",
            f"{store} of {task} says offset {offset}, its position {position.changelogs[store]}",
        )
    if not live and not _is_exact(truth, known, state):
        return
    expected = known.expected_at(known.until(position))
    for store, offset in state.offsets.items():
        inner = state.inner(store)
        layers, folded = _layers(inner), known.fold(store, offset)
        rows = {key: row for key, row in layers.items() if row is not None}
        demand(rows == folded, "I6", f"{store} of {task} at {offset}: rows {rows}, fold {folded}")
        found = {key: row for key in layers if (row := inner.get(key)) is not None}
        demand(found == folded, "I6", f"{store} of {task} at {offset}: it reads {found}, fold {folded}")
    if not moved:
        _check_visible(known, state, expected)


def check_pending(truth: Truth, task: StreamTask, tag: int) -> None:
    """Before a commit a task sees the inputs that it processed, on top of what is committed."""
    known, position = truth.tasks[task.id], task.state.position
    if not known.performs:
        return
    assert position is not None
    first, until = known.until(position), task.next[known.source]
    expected = known.fresh_at(first)
    for offset, given in known.inputs.items():
        if first <= offset < until:
            expected.take(given, value_of(tag, -1 if given.op is None else given.op.number))
    _check_visible(known, task.state, expected)


def check_not_ahead(truth: Truth, state: StateManager) -> None:
    """I7: no store, in memory or on its way to disk, is ahead of what is committed."""
    newest = truth.tasks[state.owner.task].newest
    for store, offset in state.offsets.items():
        demand(
            offset <= newest.changelogs[store],
            "I7",
            f"{store} of {state.owner.task} is at {offset}, committed is {newest.changelogs[store]}",
        )


def _layers(inner: Any) -> dict[bytes, bytes | None]:
    """Return the rows of a store with None for those that are deleted, and leave the rows of a memtable where
    they are: a scan would write them."""
    if not isinstance(inner, Memtable):
        return dict(inner.scan(None, None))
    return {**dict(inner.below.scan(None, None)), **inner.waiting()}


def _check_visible(known: TaskTruth, state: StateManager, expected: Expected) -> None:
    if known.performs:
        for store in known.builders:
            found, awaited = visible_rows(store, state), expected.rows(store)
            demand(found == awaited, "I1", f"{store} of {known.task}: {found}, expected {awaited}")


def _is_exact(truth: Truth, known: TaskTruth, state: StateManager) -> bool:
    """Whether the changelog can still be folded at the position: compaction drops what is overwritten above
    it. Who restored before that holds the rows still."""
    assert isinstance(state, WatchedState)
    assert state.start is not None
    index = known.positions.index(state.start)
    return index + 1 == len(known.positions) or known.compactions[index + 1] == truth.compactions
