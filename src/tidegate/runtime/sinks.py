"""Steps that write to topics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidegate.runtime.change import Change, encode_change
from tidegate.runtime.context import Handler
from tidegate.runtime.source import encoders
from tidegate.runtime.step import Chain, R, needed
from tidegate.topology.node import Kind, Node


def sink(chain: Chain, node: Node) -> Handler:
    emit = chain.host.emit
    encode_key, encode_value = encoders(node)
    return lambda record: emit(node, encode_key(record.key), encode_value(record.value), record)


def table_sink(chain: Chain, node: Node) -> Handler:
    topic, emit = node.topic, chain.host.emit
    assert topic is not None  # noqa: S101 - a sink has a topic

    def handle(record: R) -> None:
        old, new = record.value
        if old is not None or new is not None:
            emit(node, topic.encode_key(record.key), topic.encode_value(new), record)

    return handle


def internal_sink(chain: Chain, node: Node) -> Handler:
    key_serde, value_serde, emit = node.key, node.value, chain.host.emit
    function: Callable[[Any], Any] = node.functions.get("function", _no_function)
    assert key_serde is not None  # noqa: S101 - set by the dsl
    assert value_serde is not None  # noqa: S101 - set by the dsl

    def plain(record: R) -> None:
        key = key_serde.encode(needed(node, record.key))
        emit(node, key, None if record.value is None else value_serde.encode(record.value), record)

    def grouped(record: R) -> None:
        """A row whose group is None is in no group; the one that it was in gives it back."""
        old, new = record.value
        before = None if old is None else function(old)
        after = None if new is None else function(new)
        if before is not None and before == after:
            changes = [(after, Change(old, new))]
        else:
            changes = [(before, Change(old, None)), (after, Change(None, new))]
        for key, change in changes:
            if key is not None:
                emit(node, key_serde.encode(key), encode_change(value_serde, change), record)

    return plain if node.kind is Kind.REPARTITION else grouped


def _no_function(_: Any) -> Any:
    raise AssertionError("a repartition has no function of its own")
