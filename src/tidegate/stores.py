"""The kinds of stores. Each function returns a builder: the value that declares the store and refers to it.

seen = stores.key_value("seen", bool, key=int).with_changelog({"max.compaction.lag.ms": "3600000"})
"""

from __future__ import annotations

from typing import Any, TypeVar, overload

from tidegate.errors import ConfigError
from tidegate.serde import Serde, serde_for
from tidegate.state.builder import StoreBuilder, TimeKind
from tidegate.state.formats import PLAIN, SESSION, TIMESTAMPED, WINDOW
from tidegate.state.key_timers import KeyTimers
from tidegate.state.key_value import KeyValueStore, Stamped, TimestampedStore
from tidegate.state.keys import Bound
from tidegate.state.protocol import BytesStore, RawRow, StoreContext, Token, UserStore
from tidegate.state.session import Session, SessionStore
from tidegate.state.timed_value import TimedValue
from tidegate.state.window import WindowStore

K = TypeVar("K")
V = TypeVar("V")

__all__ = [
    "Bound",
    "BytesStore",
    "KeyTimers",
    "KeyValueStore",
    "RawRow",
    "Session",
    "SessionStore",
    "Stamped",
    "StoreBuilder",
    "StoreContext",
    "TimestampedStore",
    "Token",
    "UserStore",
    "WindowStore",
    "in_memory",
    "key_value",
    "lru",
    "session",
    "timers",
    "timestamped",
    "window",
]


@overload
def key_value(name: str, value: type[V] | Serde[V]) -> StoreBuilder[KeyValueStore[str, V]]: ...
@overload
def key_value(
    name: str, value: type[V] | Serde[V], *, key: type[K] | Serde[K]
) -> StoreBuilder[KeyValueStore[K, V]]: ...
def key_value(name: str, value: Any, *, key: Any = str) -> StoreBuilder[Any]:
    """One value per key, on disk."""
    return StoreBuilder(name, "key-value", serde_for(key), serde_for(value), PLAIN, _key_value)


def of_table(name: str, value: Serde[Any], key: Serde[Any]) -> StoreBuilder[Any]:
    """One value per key, on disk, with a time that only tables and aggregates use."""
    return StoreBuilder(name, "key-value", key, value, TIMESTAMPED, _of_table)


@overload
def timestamped(name: str, value: type[V] | Serde[V]) -> StoreBuilder[TimestampedStore[str, V]]: ...
@overload
def timestamped(
    name: str, value: type[V] | Serde[V], *, key: type[K] | Serde[K]
) -> StoreBuilder[TimestampedStore[K, V]]: ...
def timestamped(name: str, value: Any, *, key: Any = str) -> StoreBuilder[Any]:
    """One value with its time per key, on disk."""
    return StoreBuilder(name, "timestamped", serde_for(key), serde_for(value), TIMESTAMPED, _timestamped)


@overload
def window(
    name: str, value: type[V] | Serde[V], *, size: int, retention: int
) -> StoreBuilder[WindowStore[str, V]]: ...
@overload
def window(
    name: str, value: type[V] | Serde[V], *, size: int, retention: int, key: type[K] | Serde[K]
) -> StoreBuilder[WindowStore[K, V]]: ...
def window(name: str, value: Any, *, size: int, retention: int, key: Any = str) -> StoreBuilder[Any]:
    """One value per key and window start; a window of `size` ms expires `retention` ms after its end."""
    _check_millis(name, size=size, retention=retention)
    return StoreBuilder(
        name,
        "window",
        serde_for(key),
        serde_for(value),
        WINDOW,
        _window,
        window_size=size,
        retention=retention,
    )


@overload
def session(
    name: str, value: type[V] | Serde[V], *, retention: int
) -> StoreBuilder[SessionStore[str, V]]: ...
@overload
def session(
    name: str, value: type[V] | Serde[V], *, retention: int, key: type[K] | Serde[K]
) -> StoreBuilder[SessionStore[K, V]]: ...
def session(name: str, value: Any, *, retention: int, key: Any = str) -> StoreBuilder[Any]:
    """One value per key and time span; a session expires `retention` ms after its end."""
    _check_millis(name, retention=retention)
    return StoreBuilder(
        name, "session", serde_for(key), serde_for(value), SESSION, _session, retention=retention
    )


@overload
def in_memory(name: str, value: type[V] | Serde[V]) -> StoreBuilder[KeyValueStore[str, V]]: ...
@overload
def in_memory(
    name: str, value: type[V] | Serde[V], *, key: type[K] | Serde[K]
) -> StoreBuilder[KeyValueStore[K, V]]: ...
def in_memory(name: str, value: Any, *, key: Any = str) -> StoreBuilder[Any]:
    """One value per key, in memory; restored in full from its changelog at each start."""
    return StoreBuilder(
        name, "in-memory", serde_for(key), serde_for(value), PLAIN, _key_value, in_memory=True
    )


@overload
def lru(name: str, value: type[V] | Serde[V], *, capacity: int) -> StoreBuilder[KeyValueStore[str, V]]: ...
@overload
def lru(
    name: str, value: type[V] | Serde[V], *, capacity: int, key: type[K] | Serde[K]
) -> StoreBuilder[KeyValueStore[K, V]]: ...
def lru(name: str, value: Any, *, capacity: int, key: Any = str) -> StoreBuilder[Any]:
    """At most `capacity` keys, in memory; the least recently used key is evicted, and the deletion logged."""
    if capacity < 1:
        raise ConfigError("bad-store", f"store {name!r} cannot hold {capacity} keys", "use at least 1")
    return StoreBuilder(
        name, "lru", serde_for(key), serde_for(value), PLAIN, _key_value, in_memory=True, capacity=capacity
    )


@overload
def timers(name: str, *, by: TimeKind = "stream") -> StoreBuilder[KeyTimers[str]]: ...
@overload
def timers(name: str, *, key: type[K] | Serde[K], by: TimeKind = "stream") -> StoreBuilder[KeyTimers[K]]: ...
def timers(name: str, *, key: Any = str, by: TimeKind = "stream") -> StoreBuilder[Any]:
    """One timer per key, by stream time or the wall clock; it calls the step's `on_timer(key, at, ctx)`."""
    if by not in ("stream", "wall"):
        raise ConfigError("bad-store", f"store {name!r}: no timers by {by!r}", 'use "stream" or "wall"')
    return StoreBuilder(name, f"{by}-timers", serde_for(key), serde_for(int), PLAIN, _timers, clock=by)


def _key_value(builder: StoreBuilder[Any], rows: Any, store_time: Any) -> Any:
    return KeyValueStore(builder.name, rows, builder.key, builder.value, store_time)


def _of_table(builder: StoreBuilder[Any], rows: Any, store_time: Any) -> Any:
    return KeyValueStore(builder.name, rows, builder.key, TimedValue(builder.value, store_time), store_time)


def _timestamped(builder: StoreBuilder[Any], rows: Any, store_time: Any) -> Any:
    return TimestampedStore(builder.name, rows, builder.key, builder.value, store_time)


def _window(builder: StoreBuilder[Any], rows: Any, store_time: Any) -> Any:
    assert builder.retention is not None  # noqa: S101 - set by window()
    return WindowStore(
        builder.name,
        rows,
        builder.key,
        builder.value,
        store_time,
        size=builder.window_size,
        retention=builder.retention,
    )


def _session(builder: StoreBuilder[Any], rows: Any, store_time: Any) -> Any:
    assert builder.retention is not None  # noqa: S101 - set by session()
    return SessionStore(
        builder.name, rows, builder.key, builder.value, store_time, retention=builder.retention
    )


def _timers(builder: StoreBuilder[Any], rows: Any, store_time: Any) -> Any:
    return KeyTimers(builder.name, rows, builder.key, store_time)


def _check_millis(name: str, **times: int) -> None:
    for what, millis in times.items():
        if not 0 < millis < 1 << 53:
            raise ConfigError(
                "bad-store", f"store {name!r} cannot have a {what} of {millis} ms", "use milliseconds above 0"
            )
