"""Streams of events, and their steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar, overload

import pyarrow as pa

from tidegate.dsl.checks import check_operand, check_topic
from tidegate.dsl.draft import MAKE_IT_KNOWN, OR_VALUE, Draft
from tidegate.dsl.gate import GateOptions, OnFull, add_gate
from tidegate.dsl.keys import selected_key
from tidegate.dsl.location import here
from tidegate.dsl.processor import Context
from tidegate.dsl.table import Table
from tidegate.dsl.types_of import UNKNOWN, arguments_of, elements_of, filled, returned_by
from tidegate.record import Record
from tidegate.serde import Serde
from tidegate.state.builder import StoreBuilder
from tidegate.topics import TableTopic, Topic
from tidegate.topology.node import Node, NodeKind, OnError

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")
T = TypeVar("T")
R = TypeVar("R")
K2 = TypeVar("K2")
Text = TypeVar("Text", bound=str)
V2 = TypeVar("V2")
N = TypeVar("N", int, float)


class Stream(Generic[K, V]):
    """Records of key K and value V. Immutable: every step returns a new stream.

    Functions are pure: they change neither their arguments nor what they returned, since a record may be
    processed again, with others in a batch, and its value is shared by the branches of a stream. Only the
    state of aggregates is guarded against that."""

    def __init__(self, plan: Draft, node: int, key: Any, value: Any, *, rekeyed: bool = False) -> None:
        self._plan = plan
        self._node = node
        self._key = key
        self._value = value
        self._rekeyed = rekeyed

    # --- stateless steps: functions take the value ----------------------------------------------------

    def map(self, function: Callable[[V], R]) -> Stream[K, R]:
        """Replace the value of each record; the key stays. If the function needs the key or the time, use
        `map_records`."""
        node = self._plan.add(NodeKind.MAP, [self._node], functions={"function": function})
        return Stream(self._plan, node.id, self._key, returned_by(function), rekeyed=self._rekeyed)

    def flat_map(self, function: Callable[[V], Iterable[R]]) -> Stream[K, R]:
        """Replace each record by any number of values; the key stays."""
        node = self._plan.add(NodeKind.FLAT_MAP, [self._node], functions={"function": function})
        value = elements_of(returned_by(function))
        return Stream(self._plan, node.id, self._key, value, rekeyed=self._rekeyed)

    def filter(self, predicate: Callable[[V], bool]) -> Stream[K, V]:
        """Keep records whose value passes. If the predicate needs the key or the time, put them into the
        value with `map_records` first."""
        return self._same(NodeKind.FILTER, predicate)

    def peek(self, function: Callable[[V], object]) -> Stream[K, V]:
        """Call the function with each value, at least once: after a crash a record is processed again."""
        return self._same(NodeKind.PEEK, function)

    def map_records(self, function: Callable[[Record[K, V]], Record[K2, V2]]) -> Stream[K2, V2]:
        """Replace each record: key, value, headers and timestamp may change."""
        node = self._plan.add(NodeKind.MAP_RECORDS, [self._node], functions={"function": function})
        key, value = filled(returned_by(function), Record)
        return Stream(self._plan, node.id, key, value, rekeyed=True)

    def select_key(
        self, function: Callable[[V], K2], *, key: type[K2] | Serde[K2] | None = None
    ) -> Stream[K2, V]:
        """Replace the key of each record. State needs `group_by` or `repartition`: the records do not
        move."""
        node = self._plan.add(NodeKind.SELECT_KEY, [self._node], functions={"function": function})
        selected = selected_key(function, self._value, key)
        return Stream(self._plan, node.id, selected, self._value, rekeyed=True)

    def merge(self, *others: Stream[K, V]) -> Stream[K, V]:
        """Merge several streams into one."""
        for other in others:
            check_operand(
                "not-a-stream", NodeKind.MERGE, other, Stream, "merge with a stream: app.stream(TOPIC)"
            )
        streams = [self, *others]
        node = self._plan.add(NodeKind.MERGE, [stream._node for stream in streams])
        if any(stream._plan is not self._plan for stream in streams):
            raise self._plan.refused(
                "other-app", node, "a stream of another app is merged", "merge streams of one app"
            )
        value = next((stream._value for stream in streams if stream._value is not UNKNOWN), UNKNOWN)
        rekeyed = any(stream._rekeyed for stream in streams)
        return Stream(self._plan, node.id, self._key, value, rekeyed=rekeyed)

    @overload
    def branch(self, *predicates: Callable[[V], bool]) -> tuple[Stream[K, V], ...]: ...
    @overload
    def branch(self, **predicates: Callable[[V], bool]) -> dict[str, Stream[K, V]]: ...
    def branch(
        self, *predicates: Callable[[V], bool], **named: Callable[[V], bool]
    ) -> tuple[Stream[K, V], ...] | dict[str, Stream[K, V]]:
        """Split into one stream per predicate and one for the rest: a record goes to the first that matches.

        Predicates with names, `branch(big=..., small=...)`, return a dict of streams with these names, and
        "rest" for the records that no predicate matches."""
        labels = [*map(str, range(len(predicates))), *named]
        roles = {
            f"predicate {label}": one
            for label, one in zip(labels, (*predicates, *named.values()), strict=True)
        }
        first = self._plan.add(NodeKind.BRANCH, [self._node], functions=roles)
        if (predicates and named) or "rest" in named:
            raise self._plan.refused(
                "bad-branch",
                first,
                "predicates are given with and without names, or one is called rest",
                'name all of them or none; "rest" is the stream of what no predicate takes',
            )
        picks = [self._plan.add(NodeKind.BRANCH, [first.id], pick=number) for number in range(len(roles) + 1)]
        streams = [
            Stream[K, V](self._plan, pick.id, self._key, self._value, rekeyed=self._rekeyed) for pick in picks
        ]
        return dict(zip([*named, "rest"], streams, strict=True)) if named else tuple(streams)

    def map_batches(
        self, function: Callable[[pa.RecordBatch], pa.RecordBatch], value: type[V2] | Serde[V2]
    ) -> Stream[K, V2]:
        """Map whole Arrow batches: columns timestamp, key, value (bytes) and headers in, the same out.
        `value` is the type of the new values."""
        plan = self._plan
        what, makes = "the batch must hold it as bytes", MAKE_IT_KNOWN
        node = plan.add(
            NodeKind.MAP_BATCHES,
            [self._node],
            functions={"function": function},
            key=plan.serde(NodeKind.MAP_BATCHES, "", what, self._key, makes),
            value=plan.serde(NodeKind.MAP_BATCHES, "", what, value, "pass the class of the values as value="),
            before=plan.serde(NodeKind.MAP_BATCHES, "", what, self._value, makes),
        )
        return Stream(self._plan, node.id, self._key, value, rekeyed=True)

    # --- keys -----------------------------------------------------------------------------------------

    @overload
    def group_by(
        self, name: str, function: Callable[[V], Text], *, partitions: int | None = None
    ) -> Stream[Text, V]: ...
    @overload
    def group_by(
        self,
        name: str,
        function: Callable[[V], K2],
        *,
        key: type[K2] | Serde[K2],
        partitions: int | None = None,
    ) -> Stream[K2, V]: ...
    def group_by(
        self, name: str, function: Callable[[V], Any], *, key: Any = None, partitions: int | None = None
    ) -> Stream[Any, V]:
        """Replace the key and repartition by it, through the topic `<app>-<name>-repartition`. Keys are str
        unless `key=` names their type, as in `key=int`, or the function's annotation does."""
        return self.select_key(function, key=key).repartition(name, partitions=partitions)

    def repartition(self, name: str, *, partitions: int | None = None) -> Stream[K, V]:
        """Move each record to the partition of its key, through a topic of this name."""
        return Stream(self._plan, self._through(name, partitions).id, self._key, self._value)

    def _through(self, name: str, partitions: int | None = None) -> Node:
        """Add an internal topic after this stream."""
        key, value = (
            self._plan.serde(
                NodeKind.REPARTITION, name, f"the topic must write its {part}", kind, MAKE_IT_KNOWN
            )
            for part, kind in (("key", self._key), ("value", self._value))
        )
        return self._plan.add(
            NodeKind.REPARTITION, [self._node], name=name, key=key, value=value, partitions=partitions
        )

    @overload
    def frame(self, name: str, function: Callable[[Any], Any]) -> Stream[K, V]: ...
    @overload
    def frame(
        self, name: str, function: Callable[[Any], Any], *, value: type[V2] | Serde[V2]
    ) -> Stream[K, V2]: ...
    @overload
    def frame(
        self,
        name: str,
        function: Callable[[Any], Any],
        *,
        key: type[K2] | Serde[K2],
        value: type[V2] | Serde[V2] | None = None,
    ) -> Stream[K2, V2]: ...
    def frame(
        self, name: str, function: Callable[[Any], Any], *, key: Any = None, value: Any = None
    ) -> Stream[Any, Any]:
        """Run Spark code between two steps: a function from DataFrame to DataFrame.

        It gets a micro-batch of records as columns key, value, timestamp, partition, offset and headers, and
        returns rows with key and value; `key` and `value` are their types if these differ from the input's.
        Rows without `timestamp` get the current time. To keep the order, keep `partition` and `offset`."""
        before = self._through(f"{name}-input")
        kinds = (self._key if key is None else key, self._value if value is None else value)
        key_serde, value_serde = (
            self._plan.serde(NodeKind.FRAME, name, f"the topic must write its {part}", kind, f"pass {part}=")
            for part, kind in zip(("key", "value"), kinds, strict=True)
        )
        node = self._plan.add(
            NodeKind.FRAME,
            [before.id],
            name=name,
            functions={"function": function},
            key=key_serde,
            value=value_serde,
        )
        return Stream(self._plan, node.id, *kinds)

    # --- state: a name, or a builder, first -----------------------------------------------------------

    def count(self, store: str | StoreBuilder[Any]) -> Table[K, int]:
        """Count the records of each key; records without value are left out."""
        return self._aggregate(store, int, {"initial": int, "count": _plus_one}, built_in="count")

    def sum(self, store: str | StoreBuilder[Any], function: Callable[[V], N]) -> Table[K, N]:
        """Sum a number of each record, by key; records without value are left out."""
        number = returned_by(function)
        kind = int if number is UNKNOWN else number
        roles = {"initial": kind, "number": function}
        return self._aggregate(store, kind, roles, built_in="sum", hint=_ANNOTATE)

    def reduce(self, store: str | StoreBuilder[Any], function: Callable[[V, V], V]) -> Table[K, V]:
        """Combine the values of a key, two at a time; the first is kept as it is. None deletes the row."""
        known = returned_by(function)
        value = self._value if self._value is not UNKNOWN else known
        return self._aggregate(store, value, {"reduce": function}, built_in="reduce", hint=_ANNOTATE)

    def aggregate(
        self,
        store: str | StoreBuilder[Any],
        initial: Callable[[], A],
        add: Callable[[A, V], A],
        *,
        value: type[A] | Serde[A] | None = None,
    ) -> Table[K, A]:
        """Fold the values of a key with `add`, beginning with `initial()`. None deletes the row. Records
        without value are left out, as in all aggregates. The row has the largest time of its records. If
        `add` needs the key or the time, put them into the value with `map_records` first."""
        declared: Any = value if value is not None else returned_by(initial)
        if declared is UNKNOWN:
            declared = returned_by(add)
        roles = {"initial": initial, "add": add}
        return self._aggregate(store, declared, roles, built_in="aggregate", hint=OR_VALUE)

    def join(self, table: Table[K, T], function: Callable[[V, T], R]) -> Stream[K, R]:
        """Join each record with the table's row of its key; a record whose key has no row, or that has no
        value, is left out."""
        return self._join(table, function, left=False)

    def left_join(self, table: Table[K, T], function: Callable[[V, T | None], R]) -> Stream[K, R]:
        """Join each record with the table's row of its key, or None; a record without value is left out."""
        return self._join(table, function, left=True)

    @overload
    def process(
        self,
        name: str,
        step: Callable[[Record[K, V], Context[K2, V2]], None],
        *,
        stores: Sequence[StoreBuilder[Any]] = (),
        on_error: OnError | None = None,
    ) -> Stream[K2, V2]: ...
    @overload
    def process(
        self,
        name: str,
        step: type[Any],
        *,
        stores: Sequence[StoreBuilder[Any]] = (),
        on_error: OnError | None = None,
    ) -> Stream[Any, Any]: ...
    def process(
        self,
        name: str,
        step: Any,
        *,
        stores: Sequence[StoreBuilder[Any]] = (),
        on_error: OnError | None = None,
    ) -> Stream[Any, Any]:
        """Run a function of a record and a context, or a `Processor` class, with stores and timers."""
        node = self._plan.add(
            NodeKind.PROCESS,
            [self._node],
            name=name,
            functions={"step": step},
            stores=stores,
            on_error=on_error,
        )
        context = arguments_of(step, 2 if isinstance(step, type) else 1, Context)
        key, value = context or (UNKNOWN, UNKNOWN)
        return Stream(self._plan, node.id, key, value, rekeyed=True)

    def gate(
        self,
        name: str,
        *,
        status: str | None = None,
        trigger: str | None = None,
        admitted: str | None = None,
        audit: str | None = None,
        max_held: int | None = None,
        on_full: OnFull = "hold",
        drain_chunk: int = 1000,
    ) -> Stream[K, V]:
        """Hold events of paused keys, on disk and in order; all others pass, through a topic of its own. The
        topics are `<app>-<name>-status`, `-trigger`, `-admitted` and `-audit` unless named.

        When more than `max_held` events of a key are held, further ones are held too and counted, or with
        `on_full="dead-letter"` become dead letters. Of a key that is resumed at most `drain_chunk` events go
        out in each commit.
        """
        plan = self._plan
        key, value = (
            plan.serde(NodeKind.GATE, name, f"the gate must write its {part}", kind, MAKE_IT_KNOWN)
            for part, kind in (("key", self._key), ("value", self._value))
        )
        topics = {"status": status, "trigger": trigger, "admitted": admitted, "audit": audit}
        options = GateOptions(max_held, on_full, drain_chunk, topics)
        if self._rekeyed:
            raise plan.misplaced(
                Node(-1, NodeKind.GATE, (self._node,), here(), name),
                "events of one key may lie in several partitions",
            )
        admitted_node = add_gate(plan, self._node, name, key, value, options)
        return Stream(plan, admitted_node.id, self._key, self._value)

    @overload
    def to(self: Stream[K, R | None], topic: TableTopic[K, R]) -> None: ...
    @overload
    def to(self, topic: Topic[K, V] | TableTopic[K, V]) -> None: ...
    def to(self, topic: Topic[Any, Any] | TableTopic[Any, Any]) -> None:
        """Write to a topic of events or rows. A value of None deletes a row."""
        check_topic(NodeKind.SINK, topic, ".to")
        self._plan.add(NodeKind.SINK, [self._node], topic=topic)

    # --- inside ---------------------------------------------------------------------------------------

    def _same(self, kind: NodeKind, function: Callable[[V], object]) -> Stream[K, V]:
        node = self._plan.add(kind, [self._node], functions={"function": function})
        return Stream(self._plan, node.id, self._key, self._value, rekeyed=self._rekeyed)

    def _aggregate(
        self,
        store: str | StoreBuilder[Any],
        value: Any,
        functions: dict[str, Any],
        *,
        built_in: str,
        hint: str = "",
    ) -> Table[K, Any]:
        builder = self._plan.store_of(NodeKind.AGGREGATE, store, self._key, value, hint)
        node = self._plan.add(
            NodeKind.AGGREGATE,
            [self._node],
            name=builder.name,
            functions=functions,
            stores=[builder],
            built_in=built_in,
        )
        if self._rekeyed:
            raise self._plan.misplaced(node, "records of one key may lie in several partitions")
        return Table(self._plan, node.id, self._key, value)

    def _join(self, table: Table[K, T], function: Callable[..., R], *, left: bool) -> Stream[K, R]:
        check_operand("not-a-table", NodeKind.JOIN, table, Table, "join with a table: app.table(TABLE_TOPIC)")
        node = self._plan.add(
            NodeKind.JOIN, [self._node, table._node], functions={"function": function}, left=left
        )
        if table._plan is not self._plan:
            raise self._plan.refused(
                "other-app", node, "a table of another app is joined", "join tables of one app"
            )
        if self._rekeyed:
            raise self._plan.misplaced(node, "the table's row may lie in another partition")
        return Stream(self._plan, node.id, self._key, returned_by(function))


_ANNOTATE = "annotate the function, or the one that makes the values before it: def name(...) -> Order"


def _plus_one(count: int) -> int:
    return count + 1
