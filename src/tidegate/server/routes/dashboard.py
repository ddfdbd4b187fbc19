"""The dashboard: its page and files, and who the caller is."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Path, Request
from starlette.responses import Response

from tidegate.server.dashboard_files import FOLDER, dashboard_file
from tidegate.server.guard import CALLER, Caller, needs, public
from tidegate.server.json_response import JsonResponse
from tidegate.server.parameters import Server, any_query
from tidegate.server.tokens import Scope

router = APIRouter(tags=["dashboard"])
DIRECTIVES = (
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data:",
    "font-src 'self'",
    "connect-src 'self'",
    "worker-src 'self'",
    "manifest-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    # The first is that of Svelte, for its templates; the second that of the page, for its worker.
    "trusted-types svelte-trusted-html tidegate",
)
HEADERS = {
    "Content-Security-Policy": "; ".join(DIRECTIVES),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Vary": "Accept-Encoding",
}
Accepted = Annotated[str, Header(alias="accept-encoding", description="`gzip` for compressed files.")]
Known = Annotated[str | None, Header(alias="if-none-match", description="The ETag of a file that is known.")]


@router.get("/ui")
@public
@any_query
def show_dashboard(accepted: Accepted = "", known: Known = None) -> Response:
    """The dashboard, for browsers."""
    return _response("", accepted, known)


@router.get("/ui/{path:path}")
@public
@any_query
def show_dashboard_file(
    path: Annotated[str, Path(description="A page or a file of the dashboard.")],
    accepted: Accepted = "",
    known: Known = None,
) -> Response:
    """A page of the dashboard, or one of its files."""
    return _response(path, accepted, known)


@router.get("/me")
@needs(Scope.READ)
async def show_caller(request: Request, server: Server) -> JsonResponse:
    """The name of the caller's token, and what it permits."""
    caller: Caller = request.scope["state"][CALLER]
    return JsonResponse(
        {
            "name": caller.name,
            "scope": caller.scope.name.lower(),
            "scopes": [one.name.lower() for one in Scope if one <= caller.scope],
            "tokens": server.tokens is not None,
        }
    )


def _response(path: str, accepted: str, known: str | None) -> Response:
    found = dashboard_file(FOLDER, path)
    headers = {**HEADERS, "Cache-Control": found.cache_control, "ETag": found.etag}
    if found.etag in [one.strip().removeprefix("W/") for one in (known or "").split(",")]:
        return Response(status_code=304, headers=headers)
    if found.compressed is not None and _takes_gzip(accepted):
        headers["Content-Encoding"] = "gzip"
        return Response(found.compressed, headers=headers, media_type=found.media_type)
    return Response(found.body, headers=headers, media_type=found.media_type)


def _takes_gzip(accepted: str) -> bool:
    for one in accepted.lower().split(","):
        name, _, quality = one.partition(";")
        if name.strip() == "gzip":
            return quality.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
