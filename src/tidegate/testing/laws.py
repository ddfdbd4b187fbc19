"""The laws of a reducer: it is pure, and its states can be written and read back."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeVar

from tidegate.errors import UserCodeError
from tidegate.models.document import Documents
from tidegate.models.formats import encode_json
from tidegate.topology.graph import Topology
from tidegate.topology.node import NodeKind

S = TypeVar("S")
D = TypeVar("D")
R = TypeVar("R")
ANY_SIZE = 1 << 40


def check_reducer(reducer: Callable[[S, Any], S | None], initial: S, diffs: Iterable[Any]) -> S:
    """Fold the diffs and return the last state. Raises UserCodeError `impure-reducer` if the reducer changes
    its arguments or returns something else for the same ones, and SerdeError `bad-state` if a state is not
    the same after it was written and read.

        check_reducer(workflows, Workflow(), [Started("Ship"), StepDone("pack", 1.5)])
    """
    documents = Documents(type(initial), ANY_SIZE)
    checked: Callable[[S, Any], S | None] = checked_reducer(reducer)
    state = initial
    for diff in diffs:
        new = checked(state, diff)
        if encode_json(checked(state, diff)) != encode_json(new):
            raise _impure(reducer, "returned another state for the same arguments")
        if new is None:  # the id is removed, and begins again
            state = initial
            continue
        state = documents.state(documents.document(new)[1])
        if encode_json(state) != encode_json(new):
            raise _impure(reducer, "returned a state that is another one after it was written and read")
    return state


def checked_reducer(reducer: Callable[[S, D], R]) -> Callable[[S, D], R]:
    """Return the reducer with a check of each call: it must not change its arguments."""

    @functools.wraps(reducer)
    def checked(state: S, diff: D) -> R:
        before = encode_json(state), encode_json(diff)
        new = reducer(state, diff)
        if (encode_json(state), encode_json(diff)) != before:
            raise _impure(reducer, "changed its argument")
        return new

    return checked


def with_checked_reducers(topology: Topology) -> Topology:
    """Return the topology with a check of each reducer of a model."""
    nodes = {
        number: replace(
            node, functions={**node.functions, "reducer": checked_reducer(node.functions["reducer"])}
        )
        if node.kind is NodeKind.MODEL
        else node
        for number, node in topology.nodes.items()
    }
    return replace(topology, nodes=nodes)


def _impure(reducer: Callable[..., Any], what: str) -> UserCodeError:
    """Stops the app, whatever its policy is."""
    name = getattr(reducer, "__name__", "the reducer")
    found = UserCodeError("impure-reducer", f"{name} {what}", "return a new state: replace(state, ...)")
    found.tidegate_policy = "stop"  # type: ignore[attr-defined]
    return found
