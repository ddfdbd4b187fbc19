"""Store builders: a store is declared once as a value, and its layers are composed here.

    bytes store             ->  changelogging  ->  caching  ->  typed
    LMDB below a memtable,      to_records,        CachedStore  KeyValueStore, ...
    memory or the user's        to_rows

`stores.key_value("seen", bool, key=int)` returns a builder; the task that owns the store builds it.
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
from tidegate.state.memtable import Memtable, MemtableBudget
from tidegate.state.protocol import BytesStore, UserStore
from tidegate.state.store_time import StoreTime
from tidegate.state.users_store import GuardedStore

S = TypeVar("S")

Typed = Callable[["StoreBuilder[Any]", CachedStore, StoreTime], Any]
OnGap = Literal["empty", "keep"]
TimeKind = Literal["stream", "wall"]


@dataclass(frozen=True)
class StoreBuilder(Generic[S]):
    """A store to build. Code refers to a store by this typed value, never by its name.

    `role` decides what an upgrade does with it: a `derived` store is recalculated, a `carried` one is kept.
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
    """For key timers: the clock that they follow."""
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
        """Log every change to a changelog topic with this `config` (Kafka's names)."""
        return replace(self, changelog=True, config=check_changelog_config(self.name, config or {}))

    def without_changelog(self, *, on_gap: OnGap = "empty") -> StoreBuilder[S]:
        """Have no changelog. After a crash the store may not match the task's position: then it is emptied,
        with a warning, or with `on_gap="keep"` kept and counted."""
        return replace(self, changelog=False, config={}, on_gap=on_gap)

    def carried(self) -> StoreBuilder[S]:
        """Keep the store's rows in an upgrade."""
        return replace(self, role="carried")

    def derived(self) -> StoreBuilder[S]:
        """Recalculate the store's rows in an upgrade."""
        return replace(self, role="derived")

    def backed_by(self, factory: Callable[[], UserStore]) -> StoreBuilder[S]:
        """Keep the rows in the user's own store."""
        return replace(self, factory=factory)

    @property
    def persistent(self) -> bool:
        """Whether the rows are in the task's LMDB environment."""
        return not self.in_memory and self.factory is None

    @property
    def rows_kind(self) -> str:
        """The layout of its rows on disk, as recorded in a folder's metadata."""
        return OF_TABLE if self.kind == KEY_VALUE and self.layout.timestamped else self.kind

    @property
    def databases(self) -> list[str]:
        """The LMDB databases that the store needs."""
        if not self.persistent:
            return []
        return [self.name] if self.retention is None else [self.name, ends_database(self.name)]

    def build(self, environment: Environment, store_time: StoreTime, budget: MemtableBudget) -> BuiltStore:
        """Compose all layers of the store."""
        inner: BytesStore
        if self.factory is not None:
            inner = GuardedStore(self.name, self.factory)
        elif self.in_memory:
            inner = MemoryStore(self.layout.suffix)
        else:
            rows = LmdbStore(environment, self.name, self.layout.suffix, self._end_of())
            inner = Memtable(rows, budget)
        if isinstance(inner, MemoryStore) and self.capacity is not None:
            cached: CachedStore = LruStore(inner, self.capacity)
        else:
            cached = CachedStore(inner, self.layout.suffix)
        return BuiltStore(self, inner, cached, self.typed(self, cached, store_time), self._expiry(inner))

    def _expiry(self, inner: BytesStore) -> Expiry | None:
        end_of = None if isinstance(inner, Memtable) else self._end_of()
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
    """Finds ended windows and sessions in a user's own store."""

    def expire(self, stream_time: int, limit: int) -> int:
        """Tombstone up to `limit` rows that readers can no longer see. Return how many."""
        if self.builder.retention is None:
            return 0
        changes = self.cached.changes()
        before = stream_time - self.builder.retention + 1
        if self.expiry is not None:
            self.expiry.written(key for key, (value, _) in changes.items() if value is not None)
            ended = self.expiry.ended(before, limit)
        else:
            assert isinstance(self.inner, Memtable)  # noqa: S101 - every other store has an expiry
            ended = self.inner.ended(before, limit)
        expired = [key for key in ended if key not in changes or changes[key][0] is not None]
        for key in expired:
            self.cached.put(key, None, max(stream_time, 0))
        return len(expired)
