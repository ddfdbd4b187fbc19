"""Streams of models: one frame that leads from what the client holds to now, then one for each change."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Header, Query, Request
from starlette.concurrency import run_in_threadpool

from tidegate.models.token import parse_token
from tidegate.server.bodies import body_of_at_most, parsed
from tidegate.server.errors import RequestError
from tidegate.server.guard import CALLER, Caller, allowed_until, may_read, needs
from tidegate.server.model_cursors import Stream
from tidegate.server.model_frames import Style
from tidegate.server.model_ids import ModelId, ModelName, checked_id
from tidegate.server.model_stream import ModelStreamResponse
from tidegate.server.parameters import App, Server
from tidegate.server.serving import Serving
from tidegate.server.tokens import Scope
from tidegate.topology.manifest import Manifest, ModelEntry

many = APIRouter(tags=["models"])
router = APIRouter(tags=["models"])
MOST_IDS = 1000
LARGEST_BODY = 2 << 20
NDJSON = "application/x-ndjson"

Hash = Annotated[
    str | None, Query(alias="hash", description="The token of the version that the client holds.")
]
LastEventId = Annotated[str | None, Header(description="The same, from a stream that was interrupted.")]
Live = Annotated[bool, Query(description="false: one frame for each id, and the end.")]
Accept = Annotated[str, Header(description=f"`text/event-stream` or `{NDJSON}`.")]


class Followed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One id in the body of a call for many."""

    model: str
    id: str
    token: str | None = None
    app: str | None = None


_INSPECTED = msgspec.json.Decoder(list[Followed])
"""Makes msgspec inspect the Struct now: it must not do so for the first time in two threads at once."""


@router.get("/{model}/{id}/events")
@needs(Scope.READ, ticket=True, grant=True)
async def follow_id(
    request: Request,
    server: Server,
    model: ModelName,
    id: ModelId,
    app: App = None,
    token: Hash = None,
    live: Live = True,
    last_event_id: LastEventId = None,
    accept: Accept = "",
) -> ModelStreamResponse:
    """What changed since a version, as one frame; then what changes from now on."""
    followed = Followed(model, id, last_event_id or token or None, app)
    return await _response(request, server, [followed], Style(NDJSON not in accept), live=live)


@many.post("/streams")
@needs(Scope.READ, grant=True)
async def follow_many(
    request: Request,
    server: Server,
    body: Annotated[bytes, Depends(body_of_at_most(LARGEST_BODY))],
    live: Live = True,
    accept: Accept = "",
) -> ModelStreamResponse:
    """The same for up to 1,000 ids over one connection; each frame names its model."""
    followed = await run_in_threadpool(parsed, request, body or b"[]", list[Followed])
    if not 1 <= len(followed) <= MOST_IDS:
        raise RequestError("bad-body", f"{len(followed):,} ids", f"send 1 to {MOST_IDS:,}")
    if len({(one.app, one.model, one.id) for one in followed}) < len(followed):
        raise RequestError("bad-body", "an id is named twice", "send each id once")
    for one in followed:
        checked_id(one.id)
    return await _response(request, server, followed, Style(NDJSON not in accept, model=True), live=live)


async def _response(
    request: Request, server: Serving, followed: list[Followed], style: Style, *, live: bool
) -> ModelStreamResponse:
    """Open a stream. Errors are raised here, before the response starts."""
    for one in followed:
        if one.token is not None:
            parse_token(one.id, one.token)
    entries = await run_in_threadpool(_entries, request, server, followed)
    caller: Caller = request.scope["state"][CALLER]
    stream = Stream(style, lambda: server.allows(caller), allowed_until(request))
    server.hub.open(stream, len(followed))
    try:
        for one, entry in zip(followed, entries, strict=True):
            await server.hub.follow(stream, one.model, entry, one.id, one.token)
    except BaseException:
        server.hub.forget(stream)
        raise
    return ModelStreamResponse(server.hub, stream, live=live)


def _entries(request: Request, server: Serving, followed: list[Followed]) -> list[ModelEntry]:
    """The entry of each id's model in the manifest of its app, if the caller may read it."""
    found: dict[tuple[str, str | None], Manifest] = {}
    entries: list[ModelEntry] = []
    for one in followed:
        manifest = found.get((one.model, one.app))
        if manifest is None:
            manifest = found[one.model, one.app] = server.apps.model(one.model, one.app)
        may_read(request, manifest.app, one.model, one.id)
        entries.append(manifest.models[one.model])
    return entries
