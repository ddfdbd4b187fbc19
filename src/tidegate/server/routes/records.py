"""Stored records of topics: pages forwards and backwards, and single records."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request

from tidegate.errors import LogError
from tidegate.log.reads import read_between
from tidegate.log.records import rows_of
from tidegate.log.route import partitions_of
from tidegate.log.topic import TopicInfo
from tidegate.server.errors import RequestError
from tidegate.server.guard import needs
from tidegate.server.json_response import JsonResponse
from tidegate.server.parameters import (
    InternalHeaders,
    KeyType,
    Limit,
    OnlyKey,
    Preview,
    Server,
    TopicName,
    ValueType,
    queried_key,
)
from tidegate.server.position import from_text, to_text
from tidegate.server.record_pages import page_before, page_from
from tidegate.server.record_view import RecordView
from tidegate.server.tokens import Scope
from tidegate.types import TopicPartition

router = APIRouter(tags=["topics"])


@router.get("/topics/{topic}/records")
@needs(Scope.READ)
def show_records(
    request: Request,
    server: Server,
    topic: TopicName,
    partition: Annotated[int | None, Query(ge=0, le=10_000, description="Only this one.")] = None,
    at: Annotated[str | None, Query(description="`next` of a response, to continue from.")] = None,
    before: Annotated[
        str | None, Query(description="`previous` of a response: the records before it.")
    ] = None,
    since: Annotated[int | None, Query(ge=0, description="From this time on, in milliseconds.")] = None,
    key: OnlyKey = None,
    limit: Limit = 100,
    key_type: KeyType = None,
    value_type: ValueType = None,
    internal_headers: InternalHeaders = False,
    preview: Preview = None,
) -> JsonResponse:
    """Committed records in the order of their timestamps; without a start, the newest ones."""
    if sum(one is not None for one in (at, before, since)) > 1:
        raise RequestError("bad-request", "at, before and since exclude each other", "send one of them")
    info = server.log.describe(topic)
    chosen = _partitions(info, partition)
    starts = {one: info.starts[one.partition] for one in chosen}
    ends = {one: int(end) for one, end in server.log.ends(chosen).items()}
    only = queried_key(request, "key", key, key_type)
    if at is None and since is None:
        bounds = ends if before is None else {**ends, **_given(before, starts)}
        bounds = {one: min(max(bound, starts[one]), ends[one]) for one, bound in bounds.items()}
        page = page_before(server.log, starts, bounds, limit, only)
    else:
        begins = (
            {one: int(server.log.offset_at(one, since or 0)) for one in chosen}
            if at is None
            else {**starts, **{one: max(starts[one], offset) for one, offset in _given(at, starts).items()}}
        )
        page = page_from(server.log, starts, begins, ends, limit, only)
    view = RecordView(key_type, value_type, internal_headers, preview, server.formats())
    return JsonResponse(
        {
            "topic": topic,
            "records": [view.record(one) for one in page.records],
            "previous": None if page.previous is None else to_text(page.previous),
            "next": to_text(page.next),
            "scanned": page.scanned,
        }
    )


@router.get("/topics/{topic}/records/{partition}/{offset}")
@needs(Scope.READ)
def show_record(
    server: Server,
    topic: TopicName,
    partition: Annotated[int, Path(ge=0, le=10_000, description="Its partition.")],
    offset: Annotated[int, Path(ge=0, le=2**62, description="Its offset.")],
    key_type: KeyType = None,
    value_type: ValueType = None,
    internal_headers: InternalHeaders = False,
) -> JsonResponse:
    """One record, whole; with `type=bytes` as the bytes that it is."""
    info = server.log.describe(topic)
    [one] = _partitions(info, partition)
    end = int(server.log.ends([one])[one])
    if info.starts[partition] <= offset < end:
        for batch in read_between(server.log, one, offset, offset + 1):
            for row in rows_of(batch):
                view = RecordView(key_type, value_type, internal_headers, None, server.formats())
                return JsonResponse({"record": view.record((one, row))})
    raise LogError(
        "no-such-record",
        f"{one} has no record at offset {offset}",
        f"it has offsets from {info.starts[partition]} to below {end}, as far as they were not deleted",
    )


def _partitions(info: TopicInfo, partition: int | None) -> list[TopicPartition]:
    chosen = [one for one in partitions_of(info) if partition in (None, one.partition)]
    if not chosen:
        raise LogError(
            "no-such-partition",
            f"topic {info.name!r} has the partitions 0 to {info.partitions - 1}, not {partition}",
            "use one of them",
        )
    return chosen


def _given(text: str, starts: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
    given = from_text(text)
    if not given.keys() <= starts.keys():
        raise RequestError(
            "bad-position", "this position belongs to another request", "send it as a response had it"
        )
    return {one: int(offset) for one, offset in given.items()}
