"""Steps without state."""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.errors import UserCodeError
from tidegate.log.records import APPEND_SCHEMA, Row, to_batch
from tidegate.record import Record
from tidegate.runtime.operators.context import Handler
from tidegate.runtime.operators.step import Chain, R, checked
from tidegate.topology.node import Node


def map_values(chain: Chain, node: Node) -> Handler:
    function, forward = node.functions["function"], chain.forward(node)
    return lambda record: forward(record.with_value(function(record.value)))


def map_records(chain: Chain, node: Node) -> Handler:
    function, forward = node.functions["function"], chain.forward(node)

    def handle(record: R) -> None:
        forward(checked(node, function(record)))

    return handle


def flat_map(chain: Chain, node: Node) -> Handler:
    function, forward = node.functions["function"], chain.forward(node)

    def handle(record: R) -> None:
        result = function(record.value)
        if not isinstance(result, Iterable):
            raise UserCodeError(
                "wrong-type",
                f"{node.label} at {node.location} returned a {type(result).__name__}",
                "return a list, or yield the values",
            )
        for value in result:
            forward(record.with_value(value))

    return handle


def filter_values(chain: Chain, node: Node) -> Handler:
    predicate, forward = node.functions["function"], chain.forward(node)

    def handle(record: R) -> None:
        if predicate(record.value):
            forward(record)

    return handle


def select_key(chain: Chain, node: Node) -> Handler:
    function, forward = node.functions["function"], chain.forward(node)
    return lambda record: forward(record.with_key(function(record.value)))


def peek(chain: Chain, node: Node) -> Handler:
    function, forward = node.functions["function"], chain.forward(node)

    def handle(record: R) -> None:
        function(record.value)
        forward(record)

    return forward if chain.host.replaying else handle


def branch(chain: Chain, node: Node) -> Handler:
    if "pick" in node.options:
        return chain.forward(node)
    predicates = list(node.functions.values())
    picks = {
        child.options["pick"]: chain.handler(child, node.id) for child in chain.topology.children(node.id)
    }
    rest = picks[len(predicates)]

    def handle(record: R) -> None:
        for number, predicate in enumerate(predicates):
            if predicate(record.value):
                picks[number](record)
                return
        rest(record)

    return handle


def map_batches(chain: Chain, node: Node) -> Handler:
    function, forward = node.functions["function"], chain.forward(node)
    key_serde, before, after = node.key, node.options["before"], node.value
    assert key_serde is not None  # noqa: S101 - set by the dsl
    assert after is not None  # noqa: S101 - set by the dsl

    def handle(record: R) -> None:
        key = None if record.key is None else key_serde.encode(record.key)
        value = None if record.value is None else before.encode(record.value)
        result = function(to_batch([Row(key, value, record.timestamp, record.headers)]))
        if getattr(result, "schema", None) != APPEND_SCHEMA:
            raise UserCodeError(
                "wrong-type",
                f"{node.label} at {node.location} did not return a batch with the same columns",
                "return timestamp, key, value and headers, of the same types",
            )
        for row in result.to_pylist():
            forward(
                Record(
                    None if row["key"] is None else key_serde.decode(row["key"]),
                    None if row["value"] is None else after.decode(row["value"]),
                    row["timestamp"],
                    tuple((pair["name"], pair["value"]) for pair in row["headers"] or ()),
                    record.topic,
                    record.partition,
                    record.offset,
                )
            )

    return handle
