"""Whether a server is up; tickets; and the description of the API."""

from __future__ import annotations

from fastapi import APIRouter, Request

from tidegate.errors import TidegateError
from tidegate.server.answers import Answer
from tidegate.server.guard import CALLER, Caller, for_anybody, needs
from tidegate.server.parameters import Server
from tidegate.server.tickets import SECONDS
from tidegate.server.tokens import Scope

router = APIRouter(tags=["server"])


@router.get("/health/live")
@for_anybody
async def live() -> Answer:
    """Whether the process responds."""
    return Answer({"live": True})


@router.get("/health/ready")
@for_anybody
def ready(server: Server) -> Answer:
    """Whether the log responds and the replicas make progress. Reopens a log that needs it."""
    try:
        server.log.check()
    except TidegateError as error:
        return Answer({"ready": False, "reason": error.code}, 503)
    if server.replicas.troubles():
        return Answer({"ready": False, "reason": "replicas"}, 503)
    if server.tokens is not None and not server.tokens.usable():
        return Answer({"ready": False, "reason": "tokens"}, 503)
    return Answer({"ready": True})


@router.post("/tickets")
@needs(Scope.READ)
async def give_ticket(request: Request, server: Server) -> Answer:
    """A ticket for one stream: `/live?ticket=...`."""
    caller: Caller = request.scope["state"][CALLER]
    return Answer({"ticket": server.tickets.give(caller.token), "seconds": SECONDS})


@router.get("/openapi.json")
@needs(Scope.READ)
async def describe(request: Request) -> Answer:
    """The description of this API."""
    return Answer(request.app.openapi())
