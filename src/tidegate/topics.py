"""Topics as users declare them: the name and the types, in one place for all code that uses the topic.

A `Topic` holds events, a `TableTopic` holds rows. Neither is a subclass of the other, so that a table over
events is a type error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, ClassVar, Generic, Literal, TypeVar, final, overload

from tidegate.errors import ConfigError, SerdeError
from tidegate.log.names import check_name
from tidegate.serde import Serde, serde_for
from tidegate.serde.protocol import Side

K = TypeVar("K")
V = TypeVar("V")
W = TypeVar("W")

Timestamp = Callable[[V], int | datetime]
Policy = Literal["delete", "compact"]

MAX_PARTITIONS = 10_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, eq=False, repr=False, init=False)
class TopicBase(Generic[K, V]):
    """What both kinds share. Use `Topic` or `TableTopic`.

    A topic is a constant: it cannot be changed, and equals only itself.
    """

    policy: ClassVar[Policy]

    name: str
    key_serde: Serde[K]
    value_serde: Serde[V]
    partitions: int | None
    """The partition count to create it with; None leaves that to the log."""
    timestamp: Timestamp[V] | None
    """Returns the event time of a value; None keeps the record's own timestamp."""
    config: Mapping[str, str]
    """Settings by Kafka's own names, used when the topic is created."""

    def _declare(
        self,
        name: str,
        value: type[V] | Serde[V],
        key: type[K] | Serde[K],
        partitions: int | None,
        timestamp: Timestamp[V] | None,
        config: Mapping[str, str] | None,
    ) -> None:
        check_name("topic", name)
        if partitions is not None and not _is_count(partitions):
            raise ConfigError(
                "bad-partitions",
                f"topic {name!r} cannot have {partitions!r} partitions",
                f"use a number from 1 to {MAX_PARTITIONS:_}, or omit it",
            )
        key_serde = _serde(name, "key", key)
        if not key_serde.stable:
            raise ConfigError(
                "unstable-key",
                f"topic {name!r}, key: {key_serde.name} can write equal keys as different bytes",
                "use a plain type, a tuple or a Struct, with no dict, set or Any in it",
            )
        fields: dict[str, Any] = {
            "name": name,
            "key_serde": key_serde,
            "value_serde": _serde(name, "value", value),
            "partitions": partitions,
            "timestamp": timestamp,
            "config": MappingProxyType(dict(config or {})),
        }
        for field, content in fields.items():
            object.__setattr__(self, field, content)

    def encode_key(self, key: K | None) -> bytes | None:
        """Encode a key; None, no key, stays None."""
        if key is None:
            return None
        try:
            return self.key_serde.encode(key)
        except SerdeError as error:
            raise _prefixed(error, f"topic {self.name!r}, key: ") from error

    def encode_value(self, value: V | None) -> bytes | None:
        """Encode a value; None, a tombstone, stays None."""
        if value is None:
            return None
        try:
            return self.value_serde.encode(value)
        except SerdeError as error:
            raise _prefixed(error, f"topic {self.name!r}, value: ") from error

    def decode_key(self, data: bytes | None) -> K | None:
        """Decode a key. The error does not name the topic: `SerdeError.at` adds the position."""
        if data is None:
            return None
        try:
            return self.key_serde.decode(data)
        except SerdeError as error:
            raise _prefixed(error, "key: ") from error

    def decode_value(self, data: bytes | None) -> V | None:
        """Decode a value. The error does not name the topic: `SerdeError.at` adds the position."""
        if data is None:
            return None
        try:
            return self.value_serde.decode(data)
        except SerdeError as error:
            raise _prefixed(error, "value: ") from error

    def event_time(self, value: V | None, recorded: int) -> int:
        """Return the event time in milliseconds since 1970: what `timestamp=` returns, else the recorded
        time.

        A tombstone has no value, so it keeps the recorded time. An exception of the function is passed on; a
        result that is not a time from 1970 on raises SerdeError `bad-timestamp`.
        """
        if self.timestamp is None or value is None:
            return recorded
        found: object = self.timestamp(value)
        if isinstance(found, datetime) and found.utcoffset() is not None:
            found = (found - _EPOCH) // _MILLISECOND
        if isinstance(found, int) and not isinstance(found, bool) and 0 <= found < 1 << 63:
            return found
        raise SerdeError(
            "bad-timestamp",
            f"timestamp= of topic {self.name!r} returned {found!r}",
            "return milliseconds since 1970 as an int, or a datetime with a time zone",
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.value_serde.name}, key={self.key_serde.name})"


@final
@dataclass(frozen=True, eq=False, repr=False, init=False)
class Topic(TopicBase[K, V]):
    """A history of events.

        ORDERS = Topic("orders", Order)                    # JSON, str keys
        EVENTS = Topic("events", Json[Started | Done]())   # a union: the format is named
        READINGS = Topic("readings", Reading, key=int, timestamp=lambda reading: reading.at)

    Raises `ConfigError` for a name, type or number that cannot be used.
    """

    policy = "delete"

    @overload
    def __init__(
        self: Topic[str, W],
        name: str,
        value: type[W] | Serde[W],
        *,
        partitions: int | None = None,
        timestamp: Timestamp[W] | None = None,
        config: Mapping[str, str] | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self,
        name: str,
        value: type[V] | Serde[V],
        *,
        key: type[K] | Serde[K],
        partitions: int | None = None,
        timestamp: Timestamp[V] | None = None,
        config: Mapping[str, str] | None = None,
    ) -> None: ...
    def __init__(
        self,
        name: str,
        value: Any,
        *,
        key: Any = str,
        partitions: int | None = None,
        timestamp: Any = None,
        config: Mapping[str, str] | None = None,
    ) -> None:
        self._declare(name, value, key, partitions, timestamp, config)


@final
@dataclass(frozen=True, eq=False, repr=False, init=False)
class TableTopic(TopicBase[K, V]):
    """Rows, one per key: the newest value replaces older ones, None deletes the row, and the log is
    compacted.

        TOTALS = TableTopic("customer-totals", Totals)

    Raises `ConfigError` for a name, type or number that cannot be used.
    """

    policy = "compact"

    @overload
    def __init__(
        self: TableTopic[str, W],
        name: str,
        value: type[W] | Serde[W],
        *,
        partitions: int | None = None,
        timestamp: Timestamp[W] | None = None,
        config: Mapping[str, str] | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self,
        name: str,
        value: type[V] | Serde[V],
        *,
        key: type[K] | Serde[K],
        partitions: int | None = None,
        timestamp: Timestamp[V] | None = None,
        config: Mapping[str, str] | None = None,
    ) -> None: ...
    def __init__(
        self,
        name: str,
        value: Any,
        *,
        key: Any = str,
        partitions: int | None = None,
        timestamp: Any = None,
        config: Mapping[str, str] | None = None,
    ) -> None:
        self._declare(name, value, key, partitions, timestamp, config)


def _is_count(partitions: object) -> bool:
    return type(partitions) is int and 1 <= partitions <= MAX_PARTITIONS


def _serde(topic: str, side: Side, declared: type[V] | Serde[V]) -> Serde[V]:
    try:
        return serde_for(declared).of_topic(topic, side)
    except ConfigError as error:
        raise ConfigError(error.code, f"topic {topic!r}, {side}: {error.message}", error.hint) from error


def _prefixed(error: SerdeError, where: str) -> SerdeError:
    return SerdeError(error.code, where + error.message, error.hint)
