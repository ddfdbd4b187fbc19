"""Check the arguments of steps: a wrong one raises an error with the user's line and what to write."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from tidegate.dsl.location import here
from tidegate.state.builder import StoreBuilder
from tidegate.topics import TableTopic, TopicBase
from tidegate.topology.node import Node, NodeKind, mistake

_RECORDS = "map_records(function) gets the whole Record: key, value, timestamp and headers"
_BEFORE = "put what it needs into the value first: map_records(function) gets key, value and timestamp"
_TABLE = "functions of a table get the value only: add the key to the value before it is aggregated"

_TAKES: dict[tuple[NodeKind, str], tuple[str, int, str]] = {
    (NodeKind.MAP, "function"): ("the value", 1, _RECORDS),
    (NodeKind.FLAT_MAP, "function"): ("the value", 1, _BEFORE),
    (NodeKind.FILTER, "function"): ("the value", 1, _BEFORE),
    (NodeKind.PEEK, "function"): ("the value", 1, _RECORDS),
    (NodeKind.SELECT_KEY, "function"): ("the value", 1, _BEFORE),
    (NodeKind.MAP_RECORDS, "function"): (
        "the Record",
        1,
        "read record.key, record.value and record.timestamp",
    ),
    (NodeKind.BRANCH, "predicate"): ("the value", 1, _BEFORE),
    (NodeKind.AGGREGATE, "initial"): (
        "nothing",
        0,
        "pass a class such as Totals, or a function without parameters",
    ),
    (NodeKind.AGGREGATE, "add"): ("the total so far and the value", 2, _BEFORE),
    (NodeKind.AGGREGATE, "reduce"): ("two values", 2, _BEFORE),
    (NodeKind.AGGREGATE, "number"): ("the value", 1, _BEFORE),
    (NodeKind.MODEL, "reducer"): ("the state and the diff", 2, _BEFORE),
    (NodeKind.MODEL, "initial"): (
        "nothing",
        0,
        "pass a class, or a function without parameters",
    ),
    (NodeKind.MODEL, "hash"): ("the state, its hash and the diff", 3, "hash= takes (state, hash, diff)"),
    (NodeKind.JOIN, "function"): ("the value and the table's row", 2, _BEFORE),
    (NodeKind.TABLE_MAP, "function"): ("the value", 1, _TABLE),
    (NodeKind.TABLE_FILTER, "function"): ("the value", 1, _TABLE),
    (NodeKind.TABLE_JOIN, "function"): ("the two rows", 2, _TABLE),
    (NodeKind.TABLE_GROUP, "function"): ("the value", 1, _TABLE),
    (NodeKind.TABLE_AGGREGATE, "initial"): ("nothing", 0, "pass a class, or a function without parameters"),
    (NodeKind.TABLE_AGGREGATE, "add"): ("the total so far and the row", 2, _TABLE),
    (NodeKind.TABLE_AGGREGATE, "subtract"): ("the total so far and the row", 2, _TABLE),
}
"""What each function is called with, how many arguments that is, and what to do if it needs more."""


def check_functions(node: Node) -> None:
    """Refuse a function that is not callable, or does not accept the arguments it will be called with."""
    for role, function in node.functions.items():
        if not callable(function):
            raise mistake("not-callable", node, f"{role} is a {type(function).__name__}", "pass a function")
        wanted = _TAKES.get((node.kind, role.split(" ")[0]))
        if wanted is not None and not _takes(function, wanted[1]):
            what, _, hint = wanted
            called = "function" if role == "number" else role
            message = f"{called} is called with {what}; {_shape(function)}"
            raise mistake("wrong-parameters", node, message, hint)


def check_topic(kind: NodeKind, topic: object, usage: str, *, rows: bool = False) -> None:
    """Refuse anything but a declared topic; with `rows`, also a topic of events."""
    if isinstance(topic, TableTopic if rows else TopicBase):
        return
    form = "TableTopic" if rows else "Topic"
    if isinstance(topic, TopicBase):
        message = f"topic {topic.name!r} holds events, and a table needs rows"
        hint = f'declare it as rows: TableTopic("{topic.name}", ...), or use stream in place of table'
    else:
        name = topic if isinstance(topic, str) and topic.isidentifier() else "orders"
        constant = name.upper()
        message = f"{topic!r} is a {type(topic).__name__}, not a topic"[:200]
        declared = f'{constant} = {form}("{topic if isinstance(topic, str) else name}", Order)'
        hint = f"declare it once, with the type of its values: {declared}; then {usage}({constant})"
    raise mistake("not-a-topic", Node(-1, kind, (), here()), message, hint)


def check_operand(code: str, kind: NodeKind, other: object, wanted: type, hint: str) -> None:
    """Refuse to join or merge with anything but a table or stream of an app."""
    if not isinstance(other, wanted):
        what = f"it takes a {wanted.__name__}, and {other!r} is a {type(other).__name__}"
        raise mistake(code, Node(-1, kind, (), here()), what[:200], hint)


def check_stores(node: Node, passed: object) -> None:
    """Refuse stores that are not a sequence of builders."""
    whole = passed if isinstance(passed, Iterable) and not isinstance(passed, str) else [passed]
    wrong = next((one for one in whole if not isinstance(one, StoreBuilder)), None)
    if wrong is not None or whole is not passed:
        message = f"stores={passed!r} is not a list of stores"[:200]
        hint = (
            'declare each one, seen = stores.key_value("seen", bool), and pass them in a list: stores=[seen]'
        )
        raise mistake("not-a-store", node, message, hint)


def _takes(function: Callable[..., Any], count: int) -> bool:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of some built-in functions and classes nothing is known
        return True
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True


def _shape(function: Callable[..., Any]) -> str:
    names = list(inspect.signature(function).parameters)
    return f"this one takes ({', '.join(names)})" if names else "this one takes nothing"
