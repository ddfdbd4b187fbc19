"""Tables: rows, one per key, and their changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

from tidegate.dsl.checks import check_operand, check_topic
from tidegate.dsl.draft import MAKE_IT_KNOWN, OR_VALUE, Draft
from tidegate.dsl.keys import selected_key
from tidegate.dsl.types_of import UNKNOWN, returned_by
from tidegate.serde import Serde
from tidegate.state.builder import StoreBuilder
from tidegate.topics import TableTopic
from tidegate.topology.node import NodeKind

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")
T = TypeVar("T")
R = TypeVar("R")
K2 = TypeVar("K2")
Text = TypeVar("Text", bound=str)
N = TypeVar("N", int, float)


class Table(Generic[K, V]):
    """Rows of key K and value V. A change is passed on with the value that it replaces."""

    def __init__(self, plan: Draft, node: int, key: Any, value: Any) -> None:
        self._plan = plan
        self._node = node
        self._key = key
        self._value = value

    def map(self, function: Callable[[V], R]) -> Table[K, R]:
        """Replace the value of each row."""
        node = self._plan.add(NodeKind.TABLE_MAP, [self._node], functions={"function": function})
        return Table(self._plan, node.id, self._key, returned_by(function))

    def filter(self, predicate: Callable[[V], bool]) -> Table[K, V]:
        """Keep rows that pass; one that no longer does is deleted."""
        node = self._plan.add(NodeKind.TABLE_FILTER, [self._node], functions={"function": predicate})
        return Table(self._plan, node.id, self._key, self._value)

    def join(self, other: Table[K, T], function: Callable[[V, T], R]) -> Table[K, R]:
        """Join the rows that both tables have, at the larger of their times."""
        return self._join(other, function, left=False)

    def left_join(self, other: Table[K, T], function: Callable[[V, T | None], R]) -> Table[K, R]:
        """Join each row of this table with the other's row or None."""
        return self._join(other, function, left=True)

    @overload
    def group_by(
        self, name: str, function: Callable[[V], Text | None], *, partitions: int | None = None
    ) -> GroupedTable[Text, V]: ...
    @overload
    def group_by(
        self,
        name: str,
        function: Callable[[V], K2 | None],
        *,
        key: type[K2] | Serde[K2],
        partitions: int | None = None,
    ) -> GroupedTable[K2, V]: ...
    def group_by(
        self, name: str, function: Callable[[V], Any], *, key: Any = None, partitions: int | None = None
    ) -> GroupedTable[Any, V]:
        """Group the rows by another key for an aggregate, through the topic `<app>-<name>-repartition`. A row
        for which the function returns None is in no group. Keys are str unless `key=` names their type, as in
        `key=int`, or the function's annotation does."""
        declared = selected_key(function, self._value, key)
        key_serde, value_serde = (
            self._plan.serde(
                NodeKind.TABLE_GROUP, name, f"the topic must write its {part}", kind, MAKE_IT_KNOWN
            )
            for part, kind in (("key", declared), ("value", self._value))
        )
        node = self._plan.add(
            NodeKind.TABLE_GROUP,
            [self._node],
            name=name,
            functions={"function": function},
            key=key_serde,
            value=value_serde,
            partitions=partitions,
        )
        return GroupedTable(self._plan, node.id, declared, self._value)

    def to(self, topic: TableTopic[K, V]) -> None:
        """Write the rows to a table topic; a deleted row is a tombstone."""
        check_topic(NodeKind.TABLE_SINK, topic, ".to", rows=True)
        self._plan.add(NodeKind.TABLE_SINK, [self._node], topic=topic)

    def _join(self, other: Table[K, T], function: Callable[..., R], *, left: bool) -> Table[K, R]:
        check_operand(
            "not-a-table", NodeKind.TABLE_JOIN, other, Table, "join with a table: app.table(TABLE_TOPIC)"
        )
        parents = [self._node, other._node]
        node = self._plan.add(NodeKind.TABLE_JOIN, parents, functions={"function": function}, left=left)
        if other._plan is not self._plan:
            raise self._plan.refused(
                "other-app", node, "a table of another app is joined", "join tables of one app"
            )
        return Table(self._plan, node.id, self._key, returned_by(function))


class GroupedTable(Generic[K, V]):
    """Rows grouped by another key. A changed or deleted row is first subtracted from its old group."""

    def __init__(self, plan: Draft, node: int, key: Any, value: Any) -> None:
        self._plan = plan
        self._node = node
        self._key = key
        self._value = value

    def count(self, store: str | StoreBuilder[Any]) -> Table[K, int]:
        """Count the rows of each key. A key without rows is deleted."""
        return self._aggregate(
            store, int, {"initial": int, "add": _count_up, "subtract": _count_down}, empty=0
        )

    def sum(self, store: str | StoreBuilder[Any], function: Callable[[V], N]) -> Table[K, N]:
        """Sum a number of each row, by key."""
        number = returned_by(function)
        kind: Any = int if number is UNKNOWN else number

        def add(total: Any, value: V) -> Any:
            return total + function(value)

        def subtract(total: Any, value: V) -> Any:
            return total - function(value)

        return self._aggregate(store, kind, {"initial": kind, "add": add, "subtract": subtract})

    def aggregate(
        self,
        store: str | StoreBuilder[Any],
        initial: Callable[[], A],
        add: Callable[[A, V], A],
        subtract: Callable[[A, V], A],
        *,
        value: type[A] | Serde[A] | None = None,
    ) -> Table[K, A]:
        """Fold the rows of a key with `add`; `subtract` undoes it for a row that changed or was deleted."""
        declared: Any = value if value is not None else returned_by(initial)
        if declared is UNKNOWN:
            declared = returned_by(add)
        roles = {"initial": initial, "add": add, "subtract": subtract}
        return self._aggregate(store, declared, roles, hint=OR_VALUE)

    def _aggregate(
        self,
        store: str | StoreBuilder[Any],
        value: Any,
        functions: dict[str, Any],
        *,
        hint: str = "",
        **options: Any,
    ) -> Table[K, Any]:
        plan = self._plan
        builder = plan.store_of(NodeKind.TABLE_AGGREGATE, store, self._key, value, hint)
        node = plan.add(
            NodeKind.TABLE_AGGREGATE,
            [self._node],
            name=builder.name,
            functions=functions,
            stores=[builder],
            **options,
        )
        return Table(plan, node.id, self._key, value)


def _count_up(count: int, _: Any) -> int:
    return count + 1


def _count_down(count: int, _: Any) -> int:
    return count - 1
