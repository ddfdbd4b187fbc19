"""Topics, and their records as they come."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query, Request
from starlette.concurrency import run_in_threadpool

from tidegate.log.ensure import find_topic
from tidegate.log.names import of_preview
from tidegate.log.route import partitions_of
from tidegate.server.guard import CALLER, Caller, needs
from tidegate.server.json_response import JsonResponse
from tidegate.server.live import Live, LiveResponse
from tidegate.server.parameters import (
    App,
    GateName,
    InternalHeaders,
    KeyType,
    OnlyKey,
    Preview,
    Server,
    TopicName,
    ValueType,
    queried_key,
)
from tidegate.server.record_feed import Selection
from tidegate.server.record_view import RecordView
from tidegate.server.serving import Serving
from tidegate.server.stream_start import stream_start
from tidegate.server.tokens import Scope
from tidegate.server.topic_roles import topic_roles
from tidegate.types import TopicPartition

router = APIRouter(tags=["topics"])
MOST_TOPICS = 20

At = Annotated[
    str | None, Query(description="`next` of a response, or the id of an event, to continue from.")
]
LastEventId = Annotated[str | None, Header(description="The id at which a stream was interrupted.")]
From = Annotated[Literal["start", "end"], Query(alias="from", description="Where to begin.")]


@router.get("/topics")
@needs(Scope.READ)
def list_topics(
    server: Server, details: Annotated[bool, Query(description="With roles, sizes and rates.")] = False
) -> JsonResponse:
    """All topics by name; with `details` what each is for, how many records it got, and its rate."""
    names = sorted(topic for topic in server.log.names() if not of_preview(topic))
    return JsonResponse({"topics": _details(server, names) if details else names})


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


@router.get("/live")
@needs(Scope.READ, ticket=True)
async def follow_topics(
    request: Request,
    server: Server,
    topic: Annotated[list[str], Query(min_length=1, max_length=MOST_TOPICS, description="The topics.")],
    begin: From = "end",
    at: At = None,
    last_event_id: LastEventId = None,
    key: OnlyKey = None,
    per_second: Annotated[
        float | None, Query(gt=0, le=10_000, description="At most so many of each topic; others are counted.")
    ] = None,
    key_type: KeyType = None,
    value_type: ValueType = None,
    internal_headers: InternalHeaders = False,
    preview: Preview = None,
) -> LiveResponse:
    """New records of some topics as server-sent events. The id of an event is where to continue."""
    formats = await run_in_threadpool(server.formats)
    display = RecordView(key_type, value_type, internal_headers, preview, formats)
    selection = Selection(queried_key(request, "key", key, key_type), per_second)
    return await _stream(request, server, topic, begin, last_event_id or at, display, selection)


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
    formats = await run_in_threadpool(server.formats)
    display = RecordView(key_type, value_type, internal_headers, None, formats)
    return await _stream(request, server, topics, begin, last_event_id or at, display)


async def _stream(
    request: Request,
    server: Serving,
    topics: list[str],
    begin: str,
    at: str | None,
    display: RecordView,
    selection: Selection | None = None,
) -> LiveResponse:
    caller: Caller = request.scope["state"][CALLER]
    client = caller.name or (request.client.host if request.client else "")
    positions = await run_in_threadpool(stream_start, server.log, topics, begin, at)

    def allowed() -> bool:
        return server.tokens is None or server.tokens.of_hash(caller.token) is not None

    stream = Live(server.log, server.streams, positions, display.record, allowed, selection)
    await stream.open(client)
    return LiveResponse(stream)


def _details(server: Serving, names: list[str]) -> list[dict[str, Any]]:
    """What is known of topics. The rate is null while no dashboard is open: then nothing is sampled."""
    roles = topic_roles(server.apps.of(None))
    infos = [info for name in names if (info := find_topic(server.log, name)) is not None]
    ends = server.log.ends([one for info in infos for one in partitions_of(info)])
    return [
        {
            "topic": info.name,
            "roles": roles.get(info.name, []),
            "partitions": info.partitions,
            "records": sum(int(ends[one]) for one in partitions_of(info)),
            "rate": server.sampler.rate_of(info.name),
        }
        for info in infos
    ]
