"""The dead letters of an app, and sending them back."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Query, Request

from tidegate.runtime.dead_letters.groups import MOST_OFFSETS, OFFSETS_SHOWN, grouped_dead_letters
from tidegate.runtime.dead_letters.redrive import redrive
from tidegate.server.bodies import parsed, read_body
from tidegate.server.guard import CALLER, Caller, needs
from tidegate.server.json_response import JsonResponse
from tidegate.server.parameters import AppName, IdempotencyKey, Server
from tidegate.server.tokens import Scope

router = APIRouter(tags=["apps"])
LONGEST_REASON = 4096


class Redrive(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a redrive."""

    offsets: Annotated[
        list[Annotated[int, msgspec.Meta(ge=0)]], msgspec.Meta(min_length=1, max_length=MOST_OFFSETS)
    ]
    """Offsets in the dead-letter topic."""
    reason: Annotated[str, msgspec.Meta(max_length=LONGEST_REASON)] = ""
    again: bool = False
    """Send those that were sent before once more, too."""


_INSPECTED = msgspec.json.Decoder(Redrive)
"""Makes msgspec inspect the Struct now: it must not do so for the first time in two threads at once."""


@router.get("/apps/{app}/dead-letters")
@needs(Scope.READ)
def show_dead_letters(
    server: Server,
    app: AppName,
    offsets: Annotated[
        int, Query(ge=1, le=MOST_OFFSETS, description="How many offsets of each group are named.")
    ] = OFFSETS_SHOWN,
) -> JsonResponse:
    """The newest dead letters of an app, grouped by error and line."""
    [manifest] = server.apps.of(app)
    return JsonResponse(grouped_dead_letters(server.log, manifest.app, offsets))


@router.post("/apps/{app}/dead-letters/redrive")
@needs(Scope.OPERATE)
def redrive_dead_letters(
    request: Request,
    server: Server,
    app: AppName,
    body: Annotated[bytes, Depends(read_body)],
    idempotency_key: IdempotencyKey = None,
) -> JsonResponse:
    """Send dead letters back to the topics that they came from, and keep who did it, when and why. One that
    was sent before is refused, unless `again` is true."""
    [manifest] = server.apps.of(app)
    wanted = parsed(request, body, Redrive)
    caller: Caller = request.scope["state"][CALLER]
    done, refused = server.idempotent_calls.do(
        caller.token,
        idempotency_key,
        msgspec.msgpack.encode(("redrive", manifest.app, body)),
        lambda: redrive(
            server.log,
            manifest,
            wanted.offsets,
            caller.name,
            wanted.reason,
            now=server.clock.now(),
            again=wanted.again,
        ),
    )
    return JsonResponse({"app": manifest.app, "redriven": done, "refused": refused})
