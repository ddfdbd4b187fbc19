"""Topics and their records, stored and live."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from contextlib import closing
from itertools import islice
from typing import Annotated, Any, Literal, NamedTuple

from fastapi import APIRouter, Header, Query, Request
from starlette.concurrency import run_in_threadpool

from tidegate.errors import LogError
from tidegate.log.merged import LocatedRow, ReadRange, read_merged
from tidegate.log.route import partitions_of
from tidegate.server.errors import RequestError
from tidegate.server.guard import CALLER, Caller, needs
from tidegate.server.json_response import JsonResponse
from tidegate.server.live import Live, LiveResponse
from tidegate.server.parameters import (
    App,
    GateName,
    InternalHeaders,
    KeyType,
    Limit,
    Server,
    TopicName,
    ValueType,
    shown,
    shown_headers,
    shown_key,
    within_bytes,
)
from tidegate.server.position import from_text, to_text
from tidegate.server.serving import Serving
from tidegate.server.tokens import Scope
from tidegate.text.render import ValueKind
from tidegate.types import Offset, TopicPartition

router = APIRouter(tags=["topics"])
MOST_TOPICS = 20
MOST_READ = 20_000

At = Annotated[
    str | None, Query(description="`next` of a response, or the id of an event, to continue from.")
]
LastEventId = Annotated[str | None, Header(description="The id at which a stream was interrupted.")]
From = Annotated[Literal["start", "end"], Query(alias="from", description="Where to begin.")]


@router.get("/topics")
@needs(Scope.READ)
def list_topics(server: Server) -> JsonResponse:
    """All topics."""
    return JsonResponse({"topics": sorted(server.log.names())})


@router.get("/topics/{topic}")
@needs(Scope.READ)
def describe_topic(server: Server, topic: TopicName) -> JsonResponse:
    """One topic: its partitions, where they start and end, its settings."""
    info = server.log.describe(topic)
    ends = server.log.ends(partitions_of(info))
    parts = [
        {"partition": number, "start": start, "end": ends[TopicPartition(topic, number)]}
        for number, start in enumerate(info.starts)
    ]
    return JsonResponse({"topic": topic, "partitions": parts, "config": dict(info.config)})


@router.get("/topics/{topic}/records")
@needs(Scope.READ)
def show_records(
    server: Server,
    topic: TopicName,
    partition: Annotated[int | None, Query(ge=0, le=10_000, description="Only this one.")] = None,
    at: At = None,
    since: Annotated[int | None, Query(ge=0, description="From this time on, in milliseconds.")] = None,
    limit: Limit = 100,
    key_type: KeyType = None,
    value_type: ValueType = None,
    internal_headers: InternalHeaders = False,
) -> JsonResponse:
    """Committed records in the order of their timestamps; without a start, the newest ones."""
    display = _Display(key_type, value_type, internal_headers)
    info = server.log.describe(topic)
    chosen = [one for one in partitions_of(info) if partition in (None, one.partition)]
    if not chosen:
        raise LogError(
            "no-such-partition",
            f"topic {topic!r} has the partitions 0 to {info.partitions - 1}, not {partition}",
            "use one of them",
        )
    ends = server.log.ends(chosen)
    begins = {one: info.starts[one.partition] for one in chosen}
    if at is not None:
        given = from_text(at)
        if not given.keys() <= begins.keys():
            raise RequestError(
                "bad-position", "this position belongs to another request", "send `next` unchanged"
            )
        begins |= {one: max(begins[one], offset) for one, offset in given.items()}
    elif since is not None:
        begins = {one: int(server.log.offset_at(one, since)) for one in chosen}
    else:
        page = _last_records(server, limit, begins, ends)
        records = [_record(one, display) for one in page]
        return JsonResponse({"topic": topic, "records": records, "next": to_text(ends)})
    spans = {one: ReadRange(begins[one], int(ends[one])) for one in chosen}
    with closing(read_merged(server.log, spans)) as merged:
        page = within_bytes(islice(merged, limit), _size)
    positions = {**begins, **{one: row.offset + 1 for one, row in page}}
    records = [_record(one, display) for one in page]
    return JsonResponse({"topic": topic, "records": records, "next": to_text(positions)})


@router.get("/live")
@needs(Scope.READ, ticket=True)
async def follow_topics(
    request: Request,
    server: Server,
    topic: Annotated[list[str], Query(min_length=1, max_length=MOST_TOPICS, description="The topics.")],
    begin: From = "end",
    at: At = None,
    last_event_id: LastEventId = None,
    key_type: KeyType = None,
    value_type: ValueType = None,
    internal_headers: InternalHeaders = False,
) -> LiveResponse:
    """New records of some topics as server-sent events. The id of an event is where to continue."""
    display = _Display(key_type, value_type, internal_headers)
    return await _stream(request, server, topic, begin, last_event_id or at, display)


@router.get("/gates/{gate}/live", tags=["gates"])
@needs(Scope.READ, ticket=True)
async def follow_gate(
    request: Request,
    server: Server,
    gate: GateName,
    app: App = None,
    begin: From = "end",
    at: At = None,
    last_event_id: LastEventId = None,
    key_type: KeyType = None,
    value_type: ValueType = None,
    internal_headers: InternalHeaders = False,
) -> LiveResponse:
    """The commands of a gate, its audit records and admitted events, as server-sent events."""
    entry = (await run_in_threadpool(server.apps.gate, gate, app)).gates[gate]
    topics = [entry.status, entry.admitted, entry.audit]
    display = _Display(key_type, value_type, internal_headers)
    return await _stream(request, server, topics, begin, last_event_id or at, display)


async def _stream(
    request: Request,
    server: Serving,
    topics: list[str],
    begin: str,
    at: str | None,
    display: _Display,
) -> LiveResponse:
    caller: Caller = request.scope["state"][CALLER]
    client = caller.name or (request.client.host if request.client else "")
    positions = await run_in_threadpool(_begins, server, topics, begin, at)

    def allowed() -> bool:
        return server.tokens is None or server.tokens.of_hash(caller.token) is not None

    def as_json(one: LocatedRow) -> dict[str, Any]:
        return _record(one, display)

    stream = Live(server.log, server.streams, positions, as_json, allowed)
    await stream.open(client)
    return LiveResponse(stream)


def _last_records(
    server: Serving, limit: int, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, Offset]
) -> list[LocatedRow]:
    """The newest records of all partitions: reads a bounded number back from each end."""
    share = min(limit, max(-(-limit // len(starts)), MOST_READ // len(starts)))
    spans = {
        one: ReadRange(max(start, int(ends[one]) - share), int(ends[one])) for one, start in starts.items()
    }
    with closing(read_merged(server.log, spans)) as records:
        newest = deque(records, maxlen=limit)
    return within_bytes(reversed(newest), _size)[::-1]


def _size(located: LocatedRow) -> int:
    row = located[1]
    return len(row.key or b"") + len(row.value or b"") + sum(len(value or b"") for _, value in row.headers)


def _begins(server: Serving, topics: list[str], begin: str, at: str | None) -> dict[TopicPartition, Offset]:
    """The positions where a stream begins. A partition that is missing in `at` was added later: it begins at
    its start."""
    infos = [server.log.describe(name) for name in dict.fromkeys(topics)]
    starts = {
        TopicPartition(info.name, n): Offset(start) for info in infos for n, start in enumerate(info.starts)
    }
    if at is not None:
        given = from_text(at)
        if not given or not given.keys() <= starts.keys():
            raise RequestError(
                "bad-position", "this position belongs to another stream", "leave it out to start from now"
            )
        return {**starts, **given}
    return starts if begin == "start" else server.log.ends(starts)


class _Display(NamedTuple):
    """The requested types of keys and values, and whether `tidegate.*` headers are shown."""

    key: ValueKind | None
    value: ValueKind | None
    internal_headers: bool


def _record(located: LocatedRow, display: _Display) -> dict[str, Any]:
    """A whole record, with its bytes decoded as requested."""
    partition, row = located
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "offset": row.offset,
        "timestamp": row.timestamp,
        "key": None if row.key is None else shown_key(row.key, display.key),
        "value": shown(row.value, display.value),
        "headers": shown_headers(row.headers, internal=display.internal_headers),
    }
