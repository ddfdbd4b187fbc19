"""Steps that write to topics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidegate.errors import SerdeError
from tidegate.runtime.operators.change import Change, encode_change
from tidegate.runtime.operators.codecs import encoders
from tidegate.runtime.operators.context import Handler
from tidegate.runtime.operators.step import Chain, R, needed
from tidegate.topology.node import Node, NodeKind


def sink(chain: Chain, node: Node) -> Handler:
    topic, emit = node.topic, chain.host.emit
    assert topic is not None  # noqa: S101 - a sink has a topic
    check_key, check_value = encoders(node)
    encode_key, encode_value = topic.key_serde.encode, topic.value_serde.encode

    def handle(record: R) -> None:
        key, value = record.key, record.value
        if key is None or value is None:
            emit(node, check_key(key), check_value(value), record)
            return
        try:
            key_data, data = encode_key(key), encode_value(value)
        except SerdeError:
            check_key(key)  # their errors say which of them fails
            check_value(value)
            raise
        emit(node, key_data, data, record)

    return handle


def table_sink(chain: Chain, node: Node) -> Handler:
    topic, emit = node.topic, chain.host.emit
    assert topic is not None  # noqa: S101 - a sink has a topic
    encode_key, encode_value = topic.key_serde.encode, topic.value_serde.encode

    def handle(record: R) -> None:
        old, new = record.value
        key = record.key
        if new is None or key is None:
            if old is not None or new is not None:
                emit(node, topic.encode_key(key), topic.encode_value(new), record)
            return
        try:
            key_data, data = encode_key(key), encode_value(new)
        except SerdeError:
            topic.encode_key(key)  # their errors say which of them fails
            topic.encode_value(new)
            raise
        emit(node, key_data, data, record)

    return handle


def internal_sink(chain: Chain, node: Node) -> Handler:
    key_serde, value_serde, emit = node.key, node.value, chain.host.emit
    function: Callable[[Any], Any] = node.functions.get("function", _no_function)
    assert key_serde is not None  # noqa: S101 - set by the dsl
    assert value_serde is not None  # noqa: S101 - set by the dsl

    def plain(record: R) -> None:
        key = needed(node, record.key)
        try:
            key_bytes = key_serde.encode(key)
        except SerdeError as error:
            raise _wrong_key(chain, node, error, key) from error
        emit(node, key_bytes, None if record.value is None else value_serde.encode(record.value), record)

    def grouped(record: R) -> None:
        """Send a change to the groups of its old and new row. A row whose group is None is in no group; its
        old group, if any, subtracts it."""
        old, new = record.value
        before = None if old is None else function(old)
        after = None if new is None else function(new)
        if before is not None and before == after:
            changes = [(after, Change(old, new))]
        else:
            changes = [(before, Change(old, None)), (after, Change(None, new))]
        for key, change in changes:
            if key is not None:
                try:
                    key_bytes = key_serde.encode(key)
                except SerdeError as error:
                    raise _wrong_key(chain, node, error, key) from error
                emit(node, key_bytes, encode_change(value_serde, change), record)

    return plain if node.kind is NodeKind.REPARTITION else grouped


def _wrong_key(chain: Chain, node: Node, error: SerdeError, key: object) -> SerdeError:
    """Return the error with the step and its line. Keys of a function without annotation are written as str:
    if it returns something else, the hint names the type to declare."""
    parent = chain.topology.nodes[node.parents[0]]
    selects = node.kind is NodeKind.TABLE_GROUP or parent.kind is NodeKind.SELECT_KEY
    by_type = selects and error.code == "wrong-type"
    where = parent.location if parent.kind is NodeKind.SELECT_KEY else node.location
    hint = (
        f"pass key={type(key).__name__} at {where}, or return keys of the declared type"
        if by_type
        else error.hint
    )
    return SerdeError(error.code, f"{node.label} at {node.location}, key: {error.message}", hint)


def _no_function(_: Any) -> Any:
    raise AssertionError("a repartition has no function of its own")
