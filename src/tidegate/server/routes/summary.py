"""The stream of the dashboard: one per tab, over one connection."""

from __future__ import annotations

import base64
import binascii
from contextlib import ExitStack
from typing import Annotated, Literal

import msgspec
from fastapi import APIRouter, Depends, Header, Path, Request
from starlette.concurrency import run_in_threadpool

from tidegate.server.bodies import parsed, read_body
from tidegate.server.errors import RequestError
from tidegate.server.guard import CALLER, Caller, needs
from tidegate.server.json_response import JsonResponse
from tidegate.server.parameters import Server
from tidegate.server.record_feed import Selection
from tidegate.server.record_view import RecordView
from tidegate.server.serving import Serving
from tidegate.server.stream_start import stream_start
from tidegate.server.tab import FollowedKey, FollowedTopic, Tab
from tidegate.server.tab_stream import NDJSON, TabStream
from tidegate.server.tokens import Scope
from tidegate.text.parse import from_text
from tidegate.text.render import ValueKind

router = APIRouter(tags=["dashboard"])
MOST_TOPICS, MOST_KEYS = 20, 50
PREVIEW = 4096


class Bytes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A key that is no text."""

    base64: str


class TopicRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A topic that a tab wants to follow."""

    topic: str
    name: Annotated[str, msgspec.Meta(max_length=64)] | None = None
    """Comes back with its records: they may be on their way when a tab changes what it follows."""
    key: str | Bytes | None = None
    key_type: ValueKind | None = None
    type: ValueKind | None = None
    per_second: Annotated[float, msgspec.Meta(gt=0, le=10_000)] | None = None
    at: str | None = None
    """The `id` of the last records that it got."""
    begin: Literal["start", "end"] = msgspec.field(default="end", name="from")
    internal_headers: bool = False
    preview: Annotated[int, msgspec.Meta(ge=0, le=1 << 20)] = PREVIEW


class KeyRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A key of a gate that a tab wants to follow."""

    gate: str
    key: str | Bytes
    key_type: ValueKind | None = None
    app: str | None = None


class Follow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body: everything that a tab follows from now on."""

    topics: Annotated[list[TopicRequest], msgspec.Meta(max_length=MOST_TOPICS)] = []
    keys: Annotated[list[KeyRequest], msgspec.Meta(max_length=MOST_KEYS)] = []


_INSPECTED = msgspec.json.Decoder(Follow)
"""Makes msgspec inspect the Structs now: it must not do so for the first time in two threads at once."""


@router.get("/summary/live")
@needs(Scope.READ, ticket=True)
async def follow_summary(
    request: Request,
    server: Server,
    accept: Annotated[str, Header(description=f"`text/event-stream` or `{NDJSON}`.")] = "",
) -> TabStream:
    """Rates, lag, gates, tasks and events of everything on the log: 15 minutes of history, then at most two
    frames a second; and what `POST /summary/live/{stream}` adds."""
    caller: Caller = request.scope["state"][CALLER]
    client = caller.name or (request.client.host if request.client else "")
    with ExitStack() as stack:
        stack.enter_context(server.streams.reserve(client))
        tab = Tab(server, caller.token)
        release = stack.pop_all().close
    return TabStream(server, tab, lambda: server.allows(caller), release, lines=NDJSON in accept)


@router.post("/summary/live/{stream}")
@needs(Scope.READ)
async def follow_more(
    request: Request,
    server: Server,
    stream: Annotated[str, Path(description="The id of an open stream, from its first line.")],
    body: Annotated[bytes, Depends(read_body)],
) -> JsonResponse:
    """Replace which topics and keys an open stream carries besides the summary."""
    caller: Caller = request.scope["state"][CALLER]
    tab = server.tabs.of(stream, caller.token)
    wanted = await run_in_threadpool(parsed, request, body, Follow)
    if len({one.topic for one in wanted.topics}) < len(wanted.topics):
        raise RequestError("bad-body", "a topic is named twice", "send each topic once")
    topics = await run_in_threadpool(lambda: [_topic(server, one) for one in wanted.topics])
    keys = await run_in_threadpool(lambda: [_key(server, one) for one in wanted.keys])
    await tab.follow(topics, keys)
    return JsonResponse({"stream": stream, "topics": [one.topic for one in topics], "keys": len(keys)})


def _topic(server: Serving, one: TopicRequest) -> FollowedTopic:
    key = None if one.key is None else _bytes(one.key, one.key_type)
    view = RecordView(one.key_type, one.type, one.internal_headers, one.preview, server.formats())
    positions = stream_start(server.log, [one.topic], one.begin, one.at)
    return FollowedTopic(one.topic, one.name, Selection(key, one.per_second), view, positions)


def _key(server: Serving, one: KeyRequest) -> FollowedKey:
    manifest = server.apps.gate(one.gate, one.app)
    return FollowedKey(manifest, manifest.app, one.gate, _bytes(one.key, one.key_type), one.key_type)


def _bytes(key: str | Bytes, kind: ValueKind | None) -> bytes:
    if isinstance(key, str):
        data = key.encode()
        return data if kind is None else from_text(data, kind)
    try:
        return base64.b64decode(key.base64, validate=True)
    except (binascii.Error, ValueError):
        raise RequestError("bad-body", "a key is not base64", "encode its bytes as base64") from None
