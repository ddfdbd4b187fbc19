"""Health of the server, tickets, and the description of the API."""

from __future__ import annotations

from contextlib import suppress

from fastapi import APIRouter, Request

from tidegate.errors import LogError, TidegateError
from tidegate.server.app_report import waits_for
from tidegate.server.guard import CALLER, Caller, needs, public
from tidegate.server.json_response import JsonResponse
from tidegate.server.model_openapi import with_models
from tidegate.server.parameters import Server
from tidegate.server.serving import Serving
from tidegate.server.tickets import SECONDS
from tidegate.server.tokens import Scope

router = APIRouter(tags=["server"])


@router.get("/health/live")
@public
async def live() -> JsonResponse:
    """Whether the process responds."""
    return JsonResponse({"live": True})


@router.get("/health/ready")
@public
def ready(server: Server) -> JsonResponse:
    """Whether the log responds, the replicas make progress, and no upgrade waits for consent. Reopens a log
    that needs it."""
    try:
        server.log.check()
    except TidegateError as error:
        return JsonResponse({"ready": False, "reason": error.code}, 503)
    if server.replicas.troubles():
        return JsonResponse({"ready": False, "reason": "replicas"}, 503)
    if server.tokens is not None and not server.tokens.usable():
        return JsonResponse({"ready": False, "reason": "tokens"}, 503)
    if waiting := _waiting(server):
        return JsonResponse({"ready": False, "reason": "waiting-for-consent", "apps": waiting}, 503)
    return JsonResponse({"ready": True})


def _waiting(server: Serving) -> list[str]:
    """Return the apps whose upgrade waits for consent. One whose topics cannot be read is left out."""
    found = []
    for name, manifest in server.apps.all().items():
        with suppress(LogError):
            if waits_for(server.followers.state(manifest, with_lag=False)):
                found.append(name)
    return found


@router.post("/tickets")
@needs(Scope.READ, grant=True)
async def issue_ticket(request: Request, server: Server) -> JsonResponse:
    """Issue a ticket for one stream: `/live?ticket=...`. It permits what the token or the grant permits."""
    caller: Caller = request.scope["state"][CALLER]
    return JsonResponse({"ticket": server.tickets.issue(caller.token, caller.grant), "seconds": SECONDS})


@router.get("/openapi.json")
@needs(Scope.READ)
def describe(request: Request, server: Server) -> JsonResponse:
    """The description of this API, with the paths of all models on the log."""
    return JsonResponse(with_models(request.app.openapi(), server.apps.all().values()))
