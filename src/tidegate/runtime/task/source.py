"""An input of a task: how its records are read, and what happens to one that fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any

import pyarrow as pa

from tidegate.errors import SerdeError
from tidegate.log.records import RawRecord, own_headers, raw_records
from tidegate.record import Record
from tidegate.runtime.batches.columns import Columns, Keys, Undecoded
from tidegate.runtime.operators.codecs import decoders, serdes_of
from tidegate.runtime.operators.context import Handler
from tidegate.serde import Json, MsgPack, Serde
from tidegate.serde.columns import decode_column, surely_decodable
from tidegate.topology.node import INTERNAL, Node, NodeKind
from tidegate.types import TopicPartition


class TaskSource:
    """One input node in one task."""

    def __init__(
        self, node: Node, handler: Handler, default_policy: str, *, inner_policies: bool, raw: bool = False
    ) -> None:
        self.handler = handler
        self.policy = node.on_error or default_policy
        self.internal = node.kind in INTERNAL
        self.raw: bool = raw
        """Whether only a gate takes the records, as raw bytes."""
        self.undoable = self.policy != "stop" or inner_policies
        """Whether the effects of a record that fails may have to be undone."""
        self.node = node
        self._decode_key, self._decode_value = decoders(node)
        self._key_of: Callable[[bytes], Any] = self._decode_key
        self._value_of: Callable[[bytes], Any] = self._decode_value
        if node.topic is not None:
            self._key_of, self._value_of = node.topic.key_serde.decode, node.topic.value_serde.decode
        timed = node.options.get("event_time_of", node.topic)
        self._event_time = None if timed is None or timed.timestamp is None else timed.event_time
        self._value_serde = None if node.kind is NodeKind.TABLE_GROUP else serdes_of(node)[1]

    def decode(self, raw: RawRecord) -> Record[Any, Any]:
        """Decode a record. The headers that tidegate added are left out."""
        (topic, partition), offset, timestamp, key, data, headers = raw
        if self.raw:
            return Record(key, data, timestamp, (), topic, partition, offset)
        try:
            value = self._decode_value(data) if data is None else self._value_of(data)
            key_value = self._decode_key(key) if key is None else self._key_of(key)
        except SerdeError:
            self._decode_value(data)  # their errors say which of them fails
            self._decode_key(key)
            raise
        if self._event_time is not None:
            timestamp = self._event_time(value, timestamp)
        own = own_headers(raw) if headers else ()
        return Record(key_value, value, timestamp, own, topic, partition, offset)

    def decode_many(self, partition: TopicPartition, batch: pa.RecordBatch) -> list[Record[Any, Any]] | None:
        """Decode the records of a batch. None if one of them cannot be decoded: which, and why, is found when
        they are decoded one by one."""
        key_serde, value_serde = serdes_of(self.node)
        try:
            values = _decoded(batch.column(3), value_serde, self._decode_value)
            keys = _decoded(batch.column(2), key_serde, self._decode_key)
            times: list[int] = batch.column(1).to_pylist()
            if self._event_time is not None:
                times = list(map(self._event_time, values, times))
            if not len(keys) == len(values) == len(times):
                return None  # the `decode_many` of a user's serde
        except Exception:  # noqa: BLE001 - one by one it meets the record that it belongs to
            return None
        headers: Iterable[Any] = repeat(())
        if batch.column(4).null_count < batch.num_rows:
            headers = [own_headers(raw) for raw in raw_records(partition, batch)]
        offsets: list[int] = batch.column(0).to_pylist()
        place = repeat(partition.topic), repeat(partition.partition)
        return list(map(Record, keys, values, times, headers, *place, offsets))

    def columns(self, batch: pa.RecordBatch, *, lazy: bool = False) -> Columns:
        """Decode many records into columns; each distinct key is decoded once. Keys and values are decoded,
        or known to be decodable, even if no step uses them: else one would escape its policy.
        With `lazy` it is known that each value can be decoded."""
        numbered: Any = batch.column(2).dictionary_encode(null_encoding="encode")
        distinct: Any = numbered.dictionary
        serde = serdes_of(self.node)[0]
        decoded: Sequence[Any]
        if serde is not None and not distinct.null_count and surely_decodable(distinct, serde):
            decoded = Undecoded(distinct, serde)
        else:
            decoded = _decoded(distinct, serde, self._decode_key)
        keys = Keys(decoded, numbered.indices, distinct, serde)
        read, value_serde = batch.column(3), self._value_serde
        later = self._event_time is None and not read.null_count
        if later and value_serde is not None and (lazy or surely_decodable(read, value_serde)):
            return Columns(keys, Undecoded(read, value_serde), batch.column(1))
        values = _decoded(read, value_serde, self._decode_value)
        times = self._times(batch.column(1), values)
        return Columns(keys, values, times, no_nulls=_never_none(value_serde) and not read.null_count)

    def _times(self, recorded: pa.Array[Any], values: list[Any]) -> pa.Array[Any]:
        event_time = self._event_time
        if event_time is None:
            return recorded
        each = zip(values, recorded.to_pylist(), strict=True)
        return pa.array([event_time(value, at) for value, at in each], pa.int64())


def _decoded(
    read: pa.Array[Any], serde: Serde[Any] | None, decode: Callable[[bytes | None], Any]
) -> list[Any]:
    """Decode each value. Nulls, and values without a serde, go through `decode`."""
    if serde is None or read.null_count:
        data: list[Any] = read.to_pylist()
        return [decode(one) for one in data]
    return decode_column(read, serde)


def _never_none(serde: Serde[Any] | None) -> bool:
    """Return whether no bytes are decoded as None: a user's serde may do that, also one that is derived from
    ours."""
    return type(serde).__bases__[0] in (Json, MsgPack)
