"""Stores as values: declared once, and built in one place, layer upon layer.

    bytes store  ->  changelogging  ->  caching  ->  typed
    LMDB, memory     to_records,        CachedStore  KeyValueStore, ...
    or the user's    to_rows

`stores.key_value("seen", bool, key=int)` gives a builder; the task that owns the store builds it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal, TypeVar

from tidegate.errors import ConfigError
from tidegate.log.names import check_name
from tidegate.serde import Serde
from tidegate.state.cached import CachedStore
from tidegate.state.changelog import check_changelog_config
from tidegate.state.environment import Environment
from tidegate.state.expiry import EndOf, Expiry
from tidegate.state.formats import KEY_VALUE, OF_TABLE, Format, end_times
from tidegate.state.lmdb_store import LmdbStore, ends_database
from tidegate.state.lru import LruStore
from tidegate.state.memory import MemoryStore
from tidegate.state.protocol import BytesStore, UserStore
from tidegate.state.store_time import StoreTime
from tidegate.state.users_store import GuardedStore

S = TypeVar("S")

Typed = Callable[["StoreBuilder[Any]", CachedStore, StoreTime], Any]
OnGap = Literal["empty", "keep"]
TimeKind = Literal["stream", "wall"]


@dataclass(frozen=True)
class StoreBuilder(Generic[S]):
    """A store to build. Reached by this value, typed, never by its name.

    `role` says what an upgrade does with it: a `derived` store is recalculated, a `carried` one kept.
    """

    name: str
    kind: str
    key: Serde[Any]
    value: Serde[Any]
    layout: Format
    typed: Typed = field(repr=False)
    changelog: bool = True
    config: Mapping[str, str] = field(default_factory=dict)
    role: Literal["derived", "carried"] = "derived"
    on_gap: OnGap = "empty"
    in_memory: bool = False
    capacity: int | None = None
    window_size: int = 0
    retention: int | None = None
    clock: TimeKind | None = None
    """Of timers of keys: the clock that they go by."""
    factory: Callable[[], UserStore] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_name("store", self.name)
        if not self.key.stable:
            raise ConfigError(
                "unstable-key",
                f"store {self.name!r}: {self.key.name} can write equal keys as different bytes",
                "use a plain type, a tuple or a Struct, with no dict, set or Any in it",
            )

    def with_changelog(self, config: Mapping[str, str] | None = None) -> StoreBuilder[S]:
        """Log every change, the topic set up with `config` (Kafka's names)."""
        return replace(self, changelog=True, config=check_changelog_config(self.name, config or {}))

    def without_changelog(self, *, on_gap: OnGap = "empty") -> StoreBuilder[S]:
        """Log nothing, and have no topic. After a crash the store may not match the task's position: it is
        emptied then, loudly, or with `on_gap="keep"` kept and counted."""
        return replace(self, changelog=False, config={}, on_gap=on_gap)

    def carried(self) -> StoreBuilder[S]:
        """An upgrade keeps what the store holds."""
        return replace(self, role="carried")

    def derived(self) -> StoreBuilder[S]:
        """An upgrade recalculates what the store holds."""
        return replace(self, role="derived")

    def backed_by(self, factory: Callable[[], UserStore]) -> StoreBuilder[S]:
        """Keep the rows in a store of one's own."""
        return replace(self, factory=factory)

    @property
    def persistent(self) -> bool:
        """Whether rows lie in the task's LMDB environment."""
        return not self.in_memory and self.factory is None

    @property
    def rows_kind(self) -> str:
        """How its rows lie on disk, as a folder tells it."""
        return OF_TABLE if self.kind == KEY_VALUE and self.layout.timestamped else self.kind

    @property
    def databases(self) -> list[str]:
        """The LMDB databases that the store needs."""
        if not self.persistent:
            return []
        return [self.name] if self.retention is None else [self.name, ends_database(self.name)]

    def build(self, environment: Environment, moment: StoreTime) -> BuiltStore:
        """All layers, in the one place where they are put together."""
        inner: BytesStore
        if self.factory is not None:
            inner = GuardedStore(self.name, self.factory)
        elif self.in_memory:
            inner = MemoryStore(self.layout.suffix)
        else:
            inner = LmdbStore(environment, self.name, self.layout.suffix, self._end_of())
        if isinstance(inner, MemoryStore) and self.capacity is not None:
            cached: CachedStore = LruStore(inner, self.capacity)
        else:
            cached = CachedStore(inner, self.layout.suffix)
        return BuiltStore(self, inner, cached, self.typed(self, cached, moment), self._expiry(inner))

    def _expiry(self, inner: BytesStore) -> Expiry | None:
        end_of = None if isinstance(inner, LmdbStore) else self._end_of()
        return None if end_of is None else Expiry(inner, self.layout.suffix, end_of)

    def _end_of(self) -> EndOf | None:
        return None if self.retention is None else end_times(self.kind, self.window_size)


@dataclass(frozen=True, slots=True)
class BuiltStore:
    """The layers of one store of one task."""

    builder: StoreBuilder[Any]
    inner: BytesStore
    cached: CachedStore
    typed: Any
    expiry: Expiry | None
    """Of windows and sessions in a user's own store."""

    def expire(self, stream_time: int, limit: int) -> int:
        """Tombstone rows that are gone for readers already. How many."""
        if self.builder.retention is None:
            return 0
        changes = self.cached.changes()
        before = stream_time - self.builder.retention + 1
        if self.expiry is not None:
            self.expiry.written(key for key, (value, _) in changes.items() if value is not None)
            ended = self.expiry.ended(before, limit)
        else:
            assert isinstance(self.inner, LmdbStore)  # noqa: S101 - what is not has an expiry
            ended = self.inner.ended(before, limit)
        gone = [key for key in ended if key not in changes or changes[key][0] is not None]
        for key in gone:
            self.cached.put(key, None, max(stream_time, 0))
        return len(gone)
