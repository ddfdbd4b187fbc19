"""The client of models for browsers, as one ES module. `make client` builds it from clients/typescript."""

from __future__ import annotations

import hashlib
from importlib.resources import files
from typing import Annotated

from fastapi import APIRouter, Header
from starlette.responses import Response

from tidegate.server.guard import public

router = APIRouter(tags=["server"])
SCRIPT = files("tidegate.server").joinpath("static", "client.js").read_bytes()
HEADERS = {
    "Cache-Control": "public, no-cache",
    "ETag": f'"{hashlib.sha256(SCRIPT).hexdigest()[:32]}"',
}
"""A browser keeps it, and checks with each use that it is that of the server."""


@router.get("/client.js")
@public
async def client_script(if_none_match: Annotated[str | None, Header()] = None) -> Response:
    """The client of models for browsers and Node."""
    given = [one.strip().removeprefix("W/") for one in (if_none_match or "").split(",")]
    if HEADERS["ETag"] in given or "*" in given:
        return Response(status_code=304, headers=HEADERS)
    return Response(SCRIPT, headers=HEADERS, media_type="text/javascript; charset=utf-8")
