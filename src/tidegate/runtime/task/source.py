"""An input of a task: how its records are read, and what happens to one that fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from tidegate.errors import SerdeError
from tidegate.log.names import HEADER_PREFIX
from tidegate.record import Record
from tidegate.runtime.batches.columns import Columns, Keys
from tidegate.runtime.operators.change import decode_change
from tidegate.runtime.operators.context import Handler
from tidegate.runtime.task.merge import RawRecord
from tidegate.serde import Serde
from tidegate.topics import Topic
from tidegate.topology.node import INTERNAL, Node, NodeKind


class Source:
    """One input node in one task."""

    def __init__(
        self, node: Node, handler: Handler, default_policy: str, *, inner_policies: bool, raw: bool = False
    ) -> None:
        self.handler = handler
        self.policy = node.on_error or default_policy
        self.internal = node.kind in INTERNAL
        self.raw: bool = raw
        """Whether only a gate sees the records, and as they were read."""
        self.inner_policies = inner_policies
        self._node = node
        self._decode_key, self._decode_value = _decoders(node)
        timed = node.options.get("event_time_of", node.topic)
        self._event_time = None if timed is None or timed.timestamp is None else timed.event_time
        self._value_serde = None if node.kind is NodeKind.TABLE_GROUP else _serdes(node)[1]

    def decode(self, raw: RawRecord) -> Record[Any, Any]:
        """The record with its types. Our own headers are not the record's: they stay behind."""
        (topic, partition), offset, timestamp, key, data, headers = raw
        if self.raw:
            return Record(key, data, timestamp, (), topic, partition, offset)
        value = self._decode_value(data)
        if self._event_time is not None:
            timestamp = self._event_time(value, timestamp)
        own = own_headers(raw) if headers else ()
        return Record(self._decode_key(key), value, timestamp, own, topic, partition, offset)

    def columns(self, batch: pa.RecordBatch) -> Columns:
        """Many records as columns; each key is decoded once. Values are decoded also where no step looks at
        them: one that cannot be read meets its policy on either path."""
        numbered: Any = batch.column(2).dictionary_encode(null_encoding="encode")
        raw = numbered.dictionary.to_pylist()
        serde = _serdes(self._node)[0]
        keys = Keys(_decoded(raw, serde, self._decode_key), numbered.indices, raw, serde)
        values = _decoded(batch.column(3).to_pylist(), self._value_serde, self._decode_value)
        return Columns(keys, values, self._times(batch.column(1), values))

    def _times(self, recorded: pa.Array[Any], values: list[Any]) -> pa.Array[Any]:
        event_time = self._event_time
        if event_time is None:
            return recorded
        each = zip(values, recorded.to_pylist(), strict=True)
        return pa.array([event_time(value, at) for value, at in each], pa.int64())


def _decoded(
    data: list[bytes | None], serde: Serde[Any] | None, decode: Callable[[bytes | None], Any]
) -> list[Any]:
    """Each decoded. Whatever is special about one of them is for `decode` to know."""
    if serde is None or None in data:
        return [decode(one) for one in data]
    return serde.decode_many(data)  # type: ignore[arg-type]


def _serdes(node: Node) -> tuple[Serde[Any] | None, Serde[Any] | None]:
    if node.topic is not None:
        return node.topic.key_serde, node.topic.value_serde
    return node.key, node.value


def own_headers(raw: RawRecord) -> tuple[tuple[str, bytes | None], ...]:
    """The headers without ours."""
    if not raw.headers:
        return ()
    return tuple(pair for pair in raw.headers if not pair[0].startswith(HEADER_PREFIX))


def encoders(node: Node) -> tuple[Callable[[Any], bytes | None], Callable[[Any], bytes | None]]:
    """How a node that writes to a topic writes keys and values; None is no value."""
    if node.topic is not None:
        encode = node.topic.encode_value
        return node.topic.encode_key, _no_null(encode) if isinstance(node.topic, Topic) else encode
    assert node.key is not None  # noqa: S101 - set by the dsl
    assert node.value is not None  # noqa: S101 - set by the dsl
    encode_value = node.value.encode
    return node.key.encode, lambda value: None if value is None else encode_value(value)


def _decoders(node: Node) -> tuple[Callable[[bytes | None], Any], Callable[[bytes | None], Any]]:
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
    """For topics of events: an event has a value."""

    def converted(value: Any) -> Any:
        if value is None:
            raise SerdeError(
                "null-value",
                "an event without a value",
                "use a TableTopic if None means a deleted row",
            )
        return convert(value)

    return converted
