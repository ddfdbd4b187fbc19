"""Stores, read from replicas of their changelogs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Request

from tidegate.errors import ConfigError
from tidegate.server.errors import RequestError
from tidegate.server.guard import needs
from tidegate.server.json_response import JsonResponse
from tidegate.server.parameters import (
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
    queried_key,
    shown,
    to_cursor,
    within_bytes,
)
from tidegate.server.position import to_text
from tidegate.server.record_view import key_fields
from tidegate.server.serving import WAIT_SECONDS, Serving
from tidegate.server.tokens import Scope
from tidegate.server.topic_formats import TopicFormat, declared_formats
from tidegate.state.formats import LAYOUTS, session_times, time_of, window_start
from tidegate.state.keys import Bound
from tidegate.state.replica import ReplicaSnapshot
from tidegate.text.declared_format import shown_value
from tidegate.text.render import ValueKind
from tidegate.topology.manifest import StoreEntry
from tidegate.types import Offset, TopicPartition

router = APIRouter(tags=["stores"])
LocatedValue = tuple[Bound, int, bytes]
"""A row: its key and suffix, its partition, its value."""


class _Cursor(msgspec.Struct, array_like=True, frozen=True):
    key: bytes
    suffix: bytes
    partition: int


@router.get("/stores")
@needs(Scope.READ)
def list_stores(server: Server, app: App = None) -> JsonResponse:
    """The stores of the apps. A model has one of its name."""
    stores = [
        {
            "app": manifest.app,
            "store": name,
            "model": name in manifest.models,
            **msgspec.to_builtins(entry),
        }
        for manifest in server.apps.of(app)
        for name, entry in manifest.stores.items()
    ]
    return JsonResponse({"stores": stores})


@router.get("/stores/{store}")
@needs(Scope.READ)
def show_rows(
    request: Request,
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
) -> JsonResponse:
    """The rows of all partitions in the order of their keys."""
    lower = _bound(request, "from", first, key_type)
    upper = _bound(request, "to", to, key_type)
    requested = _RowsRequest(store, app, at_least, limit, after, key_type, value_type)
    return _rows(server, requested, lower, upper)


@router.get("/stores/{store}/{key}")
@needs(Scope.READ)
def show_key(
    server: Server,
    store: StoreName,
    key: Key,
    at_least: AtLeast,
    app: App = None,
    limit: Limit = 100,
    after: After = None,
    key_type: KeyType = None,
    value_type: ValueType = None,
) -> JsonResponse:
    """The rows of a key: one, or one for each window or session, oldest first."""
    requested = _RowsRequest(store, app, at_least, limit, after, key_type, value_type)
    return _rows(server, requested, (key, b""), (key + b"\x00", b""))


@dataclass(frozen=True, slots=True)
class _RowsRequest:
    """The parameters that both requests for rows have."""

    store: str
    app: str | None
    at_least: Mapping[TopicPartition, Offset]
    limit: int
    after: str | None
    key_type: ValueKind | None
    value_type: ValueKind | None


def _rows(server: Serving, requested: _RowsRequest, lower: Bound | None, upper: Bound | None) -> JsonResponse:
    """A page of the rows between two bounds."""
    manifest, entry = server.apps.store(requested.store, requested.app)
    topic = _changelog(requested.store, entry)
    cursor = _cursor(requested.after)
    with server.replicas.snapshots({topic: entry.kind}, requested.at_least, WAIT_SECONDS) as snapshots:
        snapshot = snapshots.of(topic)
        scans = [
            _scan(snapshot, number, entry, _page_start(lower, cursor, number), upper)
            for number in snapshot.positions
        ]
        page, next_cursor = _page(scans, requested.limit)
        position = to_text(snapshots.position())
    declared = declared_formats(entry)
    rows = [_row(entry, declared, row, requested) for row in page]
    return JsonResponse(
        {
            "app": manifest.app,
            "store": requested.store,
            "rows": rows,
            "next": next_cursor,
            "position": position,
        }
    )


def _page(scans: list[Iterator[LocatedValue]], limit: int) -> tuple[list[LocatedValue], str | None]:
    """The first rows, and the cursor of the next page, if there is one."""
    rows = list(islice(merge(*scans), limit + 1))
    page = within_bytes(rows[:limit], lambda row: len(row[0][0]) + len(row[2]))
    if len(rows) == len(page):
        return page, None
    (key, suffix), number, _ = page[-1]
    return page, to_cursor(msgspec.msgpack.encode(_Cursor(key, suffix, number)))


def _changelog(store: str, entry: StoreEntry) -> str:
    if entry.changelog is None:
        raise ConfigError(
            "no-changelog",
            f"store {store!r} has no changelog, and a server reads stores from their changelogs",
            "declare the store with a changelog, or read it on its host with: tidegate state",
        )
    return entry.changelog


def _bound(request: Request, name: str, given: str | None, kind: ValueKind | None) -> Bound | None:
    key = queried_key(request, name, given, kind)
    return None if key is None else (key, b"")


_cursors = msgspec.msgpack.Decoder(_Cursor)


def _cursor(after: str | None) -> _Cursor | None:
    raw = from_cursor(after)
    if raw is None:
        return None
    try:
        return _cursors.decode(raw)
    except msgspec.DecodeError:
        raise RequestError("bad-cursor", "this is not a cursor of a page", "send `next` unchanged") from None


def _page_start(lower: Bound | None, cursor: _Cursor | None, partition: int) -> Bound | None:
    """Where a page begins in a partition: rows of the same key are ordered by partition."""
    if cursor is None:
        return lower
    passed = partition <= cursor.partition
    return cursor.key, cursor.suffix + (b"\x00" if passed else b"")


def _scan(
    snapshot: ReplicaSnapshot, number: int, entry: StoreEntry, lower: Bound | None, upper: Bound | None
) -> Iterator[LocatedValue]:
    suffix = LAYOUTS[entry.kind].suffix
    for row, value in snapshot.scan(number, lower, upper):
        cut = len(row) - suffix
        yield (row[:cut], row[cut:]), number, value


def _row(
    entry: StoreEntry, declared: TopicFormat, located: LocatedValue, requested: _RowsRequest
) -> dict[str, Any]:
    (key, suffix), number, value = located
    times: dict[str, int] = {}
    if entry.kind == "timestamped":
        times, value = {"timestamp": time_of(value)}, value[8:]
    elif entry.kind == "window":
        times = {"start": window_start(key + suffix)}
    elif entry.kind == "session":
        end, start = session_times(key + suffix)
        times = {"start": start, "end": end}
    if requested.value_type is None:
        content, _ = shown_value(value, declared.value)
    else:
        content = shown(value, requested.value_type)
    return {"partition": number, **key_fields(key, requested.key_type, declared), **times, "value": content}
