"""Models: their ids, states and versions."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from heapq import merge
from typing import Annotated, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response

from tidegate.errors import StateError
from tidegate.log.partitioner import partition_for
from tidegate.models.answer import Version
from tidegate.models.formats import ModelEvent
from tidegate.models.row import ModelRow, decode_row
from tidegate.models.token import is_token
from tidegate.server.errors import RequestError
from tidegate.server.guard import may_read, needs
from tidegate.server.json_response import JsonResponse
from tidegate.server.model_hub import KIND
from tidegate.server.model_ids import ModelId, ModelName
from tidegate.server.parameters import (
    LARGEST_ANSWER,
    After,
    App,
    AtLeast,
    Limit,
    Server,
    from_cursor,
    to_cursor,
)
from tidegate.server.position import to_text
from tidegate.server.serving import WAIT_SECONDS, Serving
from tidegate.server.tokens import Scope
from tidegate.topology.manifest import ModelEntry
from tidegate.types import Offset, TopicPartition

router = APIRouter(tags=["models"])
MOST_SCANNED = 20_000
"""A page of ids ends after so many rows: those of removed ids are not in it."""
HISTORY_SECONDS = 2.0
"""A page of a history ends after so long: other ids lie in the same partition."""
POLL_SECONDS = 0.25
_event = msgspec.json.Decoder(ModelEvent)

IfNoneMatch = Annotated[
    str | None, Header(description="The token that the caller has: 304 if it is current.")
]


@router.get("/{model}")
@needs(Scope.READ)
def list_ids(
    server: Server,
    model: ModelName,
    at_least: AtLeast,
    app: App = None,
    limit: Limit = 100,
    after: After = None,
) -> JsonResponse:
    """The ids of a model, in their order, with token and sequence."""
    manifest = server.apps.model(model, app)
    topic = manifest.models[model].changelog
    last = from_cursor(after)
    with server.replicas.snapshots({topic: KIND}, at_least, WAIT_SECONDS) as snapshots:
        snapshot = snapshots.of(topic)
        lower = None if last is None else (last + b"\x00", b"")
        rows = merge(*(snapshot.scan(number, lower, None) for number in snapshot.positions))
        ids, next_cursor = _page(topic, rows, limit)
        position = to_text(snapshots.position())
    return JsonResponse(
        {"app": manifest.app, "model": model, "ids": ids, "next": next_cursor, "position": position}
    )


@router.get("/{model}/{id}")
@needs(Scope.READ, grant=True)
def show_state(
    request: Request,
    server: Server,
    model: ModelName,
    id: ModelId,
    at_least: AtLeast,
    app: App = None,
    newest: Annotated[bool, Query(description="First read up to where the log ends now.")] = False,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """The state of an id, with its token as ETag."""
    manifest = server.apps.model(model, app)
    may_read(request, manifest.app, model, id)
    held = _held(if_none_match)
    entry = manifest.models[model]
    if newest:
        partition = TopicPartition(entry.changelog, partition_for(id.encode(), entry.partitions))
        at_least = {**at_least, partition: server.log.ends([partition])[partition]}
    version = _newest(server, entry, id, at_least, held)
    headers = {"ETag": f'"{version.token}"'}
    if version.token in held or "*" in held:
        return Response(status_code=304, headers=headers)
    return JsonResponse(version.frame(None), headers=headers)


@router.get("/{model}/{id}/history")
@needs(Scope.READ, grant=True)
def show_history(
    request: Request,
    server: Server,
    model: ModelName,
    id: ModelId,
    app: App = None,
    limit: Limit = 100,
    after: After = None,
) -> JsonResponse:
    """The versions of an id from the events topic, the oldest first, as far back as it is kept. A page may be
    short or empty: there are more while `next` is not null."""
    manifest = server.apps.model(model, app)
    may_read(request, manifest.app, model, id)
    events, next_offset = _history(server, manifest.models[model].events, id.encode(), limit, _offset(after))
    next_cursor = None if next_offset is None else to_cursor(b"%d" % next_offset)
    return JsonResponse(
        {"app": manifest.app, "model": model, "id": id, "events": events, "next": next_cursor}
    )


def _page(
    topic: str, rows: Iterator[tuple[bytes, bytes]], limit: int
) -> tuple[list[dict[str, Any]], str | None]:
    """Ids that exist, and the cursor of the next page if there may be more."""
    ids: list[dict[str, Any]] = []
    for scanned, (key, value) in enumerate(rows, 1):
        row = _row(topic, key, value)
        if not row.gone:
            id = key.decode()
            ids.append({"id": id, "token": row.token(id), "sequence": row.sequence})
        if len(ids) == limit or scanned == MOST_SCANNED:
            return ids, None if next(rows, None) is None else to_cursor(key)
    return ids, None


def _row(topic: str, key: bytes, value: bytes | None) -> ModelRow:
    try:
        return decode_row(value)
    except msgspec.DecodeError as error:
        raise StateError("bad-changelog", f"the row of {key!r} in {topic}: {error}"[:300]) from error


def _held(if_none_match: str | None) -> list[str]:
    """The tokens of a header like `"1-2-…", W/"1-3-…"`; whatever else is in it matches nothing."""
    tags = [tag.strip().removeprefix("W/").strip('"') for tag in (if_none_match or "").split(",")]
    return [tag for tag in tags if tag == "*" or is_token(tag)]


def _newest(
    server: Serving, entry: ModelEntry, id: str, at_least: dict[TopicPartition, Offset], held: list[str]
) -> Version:
    """The version of an id. Before one that does not exist, or is older than what the caller holds, is
    reported, the replica reads up to the end of the log: it may just have been created at another server."""
    key = id.encode()
    partition = TopicPartition(entry.changelog, partition_for(key, entry.partitions))
    version = _version(server, partition, id, at_least)
    if version.row.gone or any(version.is_behind(token) for token in held if is_token(token)):
        end = server.log.ends([partition])[partition]
        version = _version(server, partition, id, {**at_least, partition: end})
    if version.row.gone:
        raise RequestError("no-such-id", f"{id!r} does not exist", "create it first")
    return version


def _version(
    server: Serving, partition: TopicPartition, id: str, at_least: dict[TopicPartition, Offset]
) -> Version:
    topics = {partition.topic: KIND}
    with server.replicas.snapshots(topics, at_least, WAIT_SECONDS) as snapshots:
        found = snapshots.get(partition.topic, partition.partition, id.encode())
    return Version(id, _row(partition.topic, id.encode(), found))


def _offset(after: str | None) -> int:
    raw = from_cursor(after)
    if raw is None:
        return 0
    if not raw.isdigit() or len(raw) > 18:
        raise RequestError("bad-cursor", "this is not a cursor of a page", "send `next` of the previous page")
    return int(raw)


def _history(
    server: Serving, topic: str, key: bytes, limit: int, start: int
) -> tuple[list[ModelEvent], int | None]:
    """Read events of a key from an offset on. Returns them, and where to go on; None at the end."""
    info = server.log.describe(topic)
    partition = TopicPartition(topic, partition_for(key, info.partitions))
    position = max(start, info.starts[partition.partition])
    end = int(server.log.ends([partition])[partition])
    events: list[ModelEvent] = []
    size, deadline = 0, time.monotonic() + HISTORY_SECONDS
    with closing(server.log.reader({partition: Offset(position)})) as reader:
        while position < end and time.monotonic() < deadline:
            for fetched in reader.poll(POLL_SECONDS):
                for offset, value in _of_key(fetched.batch, key):
                    if len(events) == limit or (events and size + len(value) > LARGEST_ANSWER):
                        return events, offset
                    size += len(value)
                    events.extend(_decoded(value))
                position = int(fetched.next)
    return events, position if position < end else None


def _of_key(batch: pa.RecordBatch, key: bytes) -> Iterator[tuple[int, bytes]]:
    """Offset and value of the records of one key."""
    found = batch.filter(pc.equal(batch.column(2), pa.scalar(key, batch.schema.field(2).type)))
    offsets, values = (found.column(at).to_pylist() for at in (0, 3))
    return ((offset, value) for offset, value in zip(offsets, values, strict=True) if value is not None)


def _decoded(value: bytes) -> list[ModelEvent]:
    """An event; nothing for a record that the app did not write."""
    try:
        return [_event.decode(value)]
    except msgspec.DecodeError:
        return []
