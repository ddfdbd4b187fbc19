"""Issue grants: a backend hands them to browsers."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Request

from tidegate.server.bodies import parsed, read_body
from tidegate.server.errors import RequestError
from tidegate.server.grants import LONGEST_SECONDS, Grant
from tidegate.server.guard import CALLER, Caller, needs
from tidegate.server.json_response import JsonResponse
from tidegate.server.model_ids import checked_id
from tidegate.server.parameters import Server
from tidegate.server.tokens import Scope

router = APIRouter(tags=["models"])


class Granting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a call for a grant."""

    model: str
    id: str | None = None
    prefix: str | None = None
    """Permits all ids that begin with this."""
    seconds: Annotated[float, msgspec.Meta(ge=1, le=LONGEST_SECONDS)] = 3600.0
    app: str | None = None
    """The app, if several apps have a model of this name."""


_INSPECTED = msgspec.json.Decoder(Granting)
"""Makes msgspec inspect the Struct now: it must not do so for the first time in two threads at once."""


@router.post("/grants")
@needs(Scope.OPERATE)
def issue_grant(request: Request, server: Server, body: Annotated[bytes, Depends(read_body)]) -> JsonResponse:
    """Issue a grant: its holder may read one id of a model, or all ids with a prefix, and nothing else."""
    wanted = parsed(request, body, Granting)
    if (wanted.id is None) == (wanted.prefix is None):
        raise RequestError("bad-body", "a grant is for an id or for a prefix", "send one of the two")
    if server.grants is None:
        raise RequestError(
            "grants-need-tokens",
            "this server has no tokens: everybody who reaches it may read everything",
            "tidegate tokens add NAME, and set tokens of [server]",
        )
    what = checked_id(wanted.prefix if wanted.id is None else wanted.id)  # type: ignore[arg-type]
    app = server.apps.model(wanted.model, wanted.app).app
    until = server.clock.now() + round(wanted.seconds * 1000)
    grant = Grant(app, wanted.model, what, wanted.id is None, until)
    caller: Caller = request.scope["state"][CALLER]
    return JsonResponse(
        {
            "grant": server.grants.issue(caller.token, grant),
            "app": app,
            "model": wanted.model,
            "prefix" if grant.prefix else "id": what,
            "until": until,
        }
    )
