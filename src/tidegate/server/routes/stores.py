"""Stores, read from replicas of their changelogs."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from itertools import islice
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query

from tidegate.errors import ConfigError
from tidegate.server.answers import Answer
from tidegate.server.asked import (
    After,
    App,
    AtLeast,
    Key,
    KeyType,
    Limit,
    Server,
    StoreName,
    ValueType,
    from_cursor,
    shown,
    shown_key,
    to_cursor,
)
from tidegate.server.errors import RequestError
from tidegate.server.guard import needs
from tidegate.server.position import to_text
from tidegate.server.serving import WAIT_SECONDS
from tidegate.server.tokens import Scope
from tidegate.state.formats import LAYOUTS, session_times, time_of, window_start
from tidegate.state.keys import Bound
from tidegate.state.replica import Snapshot
from tidegate.topology.manifest import StoreEntry
from tidegate.typed_text import from_text
from tidegate.view import Kind

router = APIRouter(tags=["stores"])
Placed = tuple[Bound, int, bytes]
"""A row: its key and suffix, its partition, its value."""


class _Cursor(msgspec.Struct, array_like=True, frozen=True):
    key: bytes
    suffix: bytes
    partition: int


@router.get("/stores")
@needs(Scope.READ)
def list_stores(server: Server, app: App = None) -> Answer:
    """The stores of the apps."""
    told = [
        {"app": manifest.app, "store": name, **msgspec.to_builtins(entry)}
        for manifest in server.apps.of(app)
        for name, entry in manifest.stores.items()
    ]
    return Answer({"stores": told})


@router.get("/stores/{store}")
@needs(Scope.READ)
def show_rows(
    server: Server,
    store: StoreName,
    at_least: AtLeast,
    app: App = None,
    first: Annotated[str | None, Query(alias="from", description="The first key.")] = None,
    to: Annotated[str | None, Query(description="Up to below this key.")] = None,
    limit: Limit = 100,
    after: After = None,
    key_type: KeyType = None,
    value_type: ValueType = None,
) -> Answer:
    """Rows in the order of their keys, those of all partitions together."""
    manifest, entry = server.apps.store(store, app)
    topic = _changelog(store, entry)
    cursor = _cursor(after)
    lower = None if first is None else (_typed(first, key_type), b"")
    upper = None if to is None else (_typed(to, key_type), b"")
    with server.replicas.moment({topic: entry.kind}, at_least, WAIT_SECONDS) as moment:
        snapshot = moment.of(topic)
        scans = [
            _scan(snapshot, number, entry, _behind(lower, cursor, number), upper)
            for number in snapshot.positions
        ]
        rows = list(islice(merge(*scans), limit + 1))
        position = to_text(moment.position())
    page = rows[:limit]
    following = None
    if len(rows) > limit:
        (key, suffix), number, _ = page[-1]
        following = to_cursor(msgspec.msgpack.encode(_Cursor(key, suffix, number)))
    told = [_row(entry, row, key_type, value_type) for row in page]
    return Answer(
        {"app": manifest.app, "store": store, "rows": told, "next": following, "position": position}
    )


@router.get("/stores/{store}/{key}")
@needs(Scope.READ)
def show_key(
    server: Server,
    store: StoreName,
    key: Key,
    at_least: AtLeast,
    app: App = None,
    limit: Limit = 100,
    key_type: KeyType = None,
    value_type: ValueType = None,
) -> Answer:
    """What a store holds for a key: one row, or one for each window or session, newest partitions last."""
    manifest, entry = server.apps.store(store, app)
    topic = _changelog(store, entry)
    with server.replicas.moment({topic: entry.kind}, at_least, WAIT_SECONDS) as moment:
        snapshot = moment.of(topic)
        scans = [
            _scan(snapshot, number, entry, (key, b""), (key + b"\x00", b"")) for number in snapshot.positions
        ]
        rows = list(islice(merge(*scans), limit))
        position = to_text(moment.position())
    told = [_row(entry, row, key_type, value_type) for row in rows]
    return Answer({"app": manifest.app, "store": store, "rows": told, "position": position})


def _changelog(store: str, entry: StoreEntry) -> str:
    if entry.changelog is None:
        raise ConfigError("no-changelog", f"store {store!r} has no changelog to read it from", "")
    return entry.changelog


def _typed(text: str, kind: Kind | None) -> bytes:
    return text.encode("utf-8", "surrogatepass") if kind is None else from_text(text.encode(), kind)


def _cursor(after: str | None) -> _Cursor | None:
    raw = from_cursor(after)
    if raw is None:
        return None
    try:
        return msgspec.msgpack.decode(raw, type=_Cursor)
    except msgspec.DecodeError:
        raise RequestError("bad-cursor", "this is no end of a page", "hand back `next` as it was") from None


def _behind(lower: Bound | None, cursor: _Cursor | None, partition: int) -> Bound | None:
    """Where a partition's part of the page begins: rows of one key stand in the order of partitions."""
    if cursor is None:
        return lower
    passed = partition <= cursor.partition
    return cursor.key, cursor.suffix + (b"\x00" if passed else b"")


def _scan(
    snapshot: Snapshot, number: int, entry: StoreEntry, lower: Bound | None, upper: Bound | None
) -> Iterator[Placed]:
    suffix = LAYOUTS[entry.kind].suffix
    for row, value in snapshot.scan(number, lower, upper):
        cut = len(row) - suffix
        yield (row[:cut], row[cut:]), number, value


def _row(entry: StoreEntry, placed: Placed, key_type: Kind | None, value_type: Kind | None) -> dict[str, Any]:
    (key, suffix), number, value = placed
    times: dict[str, int] = {}
    if entry.kind == "timestamped":
        times, value = {"timestamp": time_of(value)}, value[8:]
    elif entry.kind == "window":
        times = {"start": window_start(key + suffix)}
    elif entry.kind == "session":
        end, start = session_times(key + suffix)
        times = {"start": start, "end": end}
    return {"partition": number, "key": shown_key(key, key_type), **times, "value": shown(value, value_type)}
