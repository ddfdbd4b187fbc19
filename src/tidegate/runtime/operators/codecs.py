"""The serdes of a node's topic: as the user declared them, or those of the node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidegate.errors import SerdeError
from tidegate.runtime.operators.change import decode_change
from tidegate.serde import Serde
from tidegate.topics import Topic
from tidegate.topology.node import Node, NodeKind


def serdes_of(node: Node) -> tuple[Serde[Any] | None, Serde[Any] | None]:
    if node.topic is not None:
        return node.topic.key_serde, node.topic.value_serde
    return node.key, node.value


def encoders(node: Node) -> tuple[Callable[[Any], bytes | None], Callable[[Any], bytes | None]]:
    """Return the encoders of keys and values for a node that writes to a topic; None stands for no value."""
    if node.topic is not None:
        encode = node.topic.encode_value
        return node.topic.encode_key, _no_null(encode) if isinstance(node.topic, Topic) else encode
    assert node.key is not None  # noqa: S101 - set by the dsl
    assert node.value is not None  # noqa: S101 - set by the dsl
    encode_value = node.value.encode
    return node.key.encode, lambda value: None if value is None else encode_value(value)


def decoders(node: Node) -> tuple[Callable[[bytes | None], Any], Callable[[bytes | None], Any]]:
    if node.topic is not None:
        decode = node.topic.decode_value
        return node.topic.decode_key, _no_null(decode) if isinstance(node.topic, Topic) else decode
    key, value = node.key, node.value
    assert key is not None  # noqa: S101 - set by the dsl
    assert value is not None  # noqa: S101 - set by the dsl

    def decode_value(data: bytes | None) -> Any:
        if data is None:
            return None
        return decode_change(value, data) if node.kind is NodeKind.TABLE_GROUP else value.decode(data)

    return (lambda data: None if data is None else key.decode(data)), decode_value


def _no_null(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Refuse None: in topics of events each record has a value."""

    def converted(value: Any) -> Any:
        if value is None:
            raise SerdeError(
                "null-value",
                "an event without a value",
                "use a TableTopic if None means a deleted row",
            )
        return convert(value)

    return converted
