"""The checks that every request passes before a route handles it.

1 use the path as it was sent, still encoded: a key may hold any bytes, even a slash; 2 check that Host names
this server; 3 refuse pages of other origins, even for reads, but let links lead to the dashboard, whose page
holds no data; 4 require a token, unless the route is public;
a grant is refused here by every route that does not accept grants; 5 when the route is known, `permitted`
checks the scope of the token, and a grant against model and id of the path. A route that does not declare its
scope is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import parse_qs, unquote

from fastapi import Request
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as AsgiScope

from tidegate.errors import TidegateError
from tidegate.server.errors import RequestError, error_response, unexpected_error_response
from tidegate.server.grants import PREFIX, Grant, Grants
from tidegate.server.settings import ServerSettings
from tidegate.server.tickets import Tickets
from tidegate.server.tokens import Entry, Scope, Tokens

F = TypeVar("F", bound=Callable[..., Any])
CALLER = "tidegate.caller"
LARGEST_HEAD = 256 << 10
DASHBOARD = "/ui"
LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]")
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


@dataclass(frozen=True, slots=True)
class Needs:
    """The scope that a route requires."""

    scope: Scope | None
    """None: no token is needed."""
    ticket: bool = False
    """Whether a ticket in the URL is accepted, for browsers, which cannot send headers with a stream."""
    grant: bool = False
    """Whether a grant is accepted. The route calls `may_read` for each id that it reads."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a request."""

    name: str
    scope: Scope
    token: str = ""
    """The hash of the token. Whatever outlives the request is bound to it."""
    grant: Grant | None = None
    """Permits nothing but this. `token` is then the one that issued it."""


def needs(scope: Scope, *, ticket: bool = False, grant: bool = False) -> Callable[[F], F]:
    """Require a token of this scope."""
    return _marked(Needs(scope, ticket, grant))


def public(route: F) -> F:
    """Make a route public: it returns nothing confidential."""
    return _marked(Needs(None))(route)


def _marked(mark: Needs) -> Callable[[F], F]:
    def marked(route: F) -> F:
        route.needs = mark  # type: ignore[attr-defined]
        return route

    return marked


def needs_of(route: object) -> Needs | None:
    """The declared scope of a route; None: it is closed."""
    found: Needs | None = getattr(getattr(route, "endpoint", None), "needs", None)
    return found


class Guard:
    """The outermost layer, around the application."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        settings: ServerSettings,
        tokens: Tokens | None,
        tickets: Tickets,
        grants: Grants | None,
    ) -> None:
        self._app = app
        self._tokens = tokens
        self._grants = grants
        self._tickets = tickets
        self._origins = frozenset(settings.origins)
        names = (*LOOPBACK_HOSTS, settings.host, f"[{settings.host}]", *settings.hosts)
        self._hosts = frozenset(name.lower() for name in names)

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        sender = _HeaderSender(send)
        try:
            self._check(scope)
            await self._app(scope, receive, sender)
        except Exception as error:
            if sender.started:
                raise
            await _refused(error)(scope, receive, sender)

    def _check(self, scope: AsgiScope) -> None:
        headers = Headers(scope=scope)
        _check_head(scope, headers)
        scope["path"] = _path(scope)
        self._check_host(headers)
        if scope["method"] != "OPTIONS" and not _opens_dashboard(scope, headers):
            self._check_origin(headers)
        scope.setdefault("state", {})[CALLER] = self._caller(scope, headers, _route(scope))

    def _check_host(self, headers: Headers) -> None:
        given = headers.getlist("host")
        if len(given) != 1 or _name_of(given[0]) not in self._hosts:
            raise RequestError(
                "bad-host", "the request is for another host", "add its name to hosts of [server]"
            )

    def _check_origin(self, headers: Headers) -> None:
        origin = headers.get("origin")
        if origin is not None:
            if origin in self._origins or origin.partition("://")[2] == headers["host"]:
                return
        elif headers.get("sec-fetch-site", "none") in ("none", "same-origin"):
            return
        raise RequestError(
            "cross-site",
            "a page of another origin sent this request",
            "add its origin to origins of [server]",
        )

    def _caller(self, scope: AsgiScope, headers: Headers, route: Needs | None) -> Caller | None:
        """The caller; None if the route is public."""
        if route is not None and route.scope is None:
            return None
        caller = self._known(scope, headers, tickets=route is not None and route.ticket)
        if caller is None:
            raise _no_token()
        if caller.grant is not None and (route is None or not route.grant):
            raise _not_granted()
        return caller

    def _known(self, scope: AsgiScope, headers: Headers, *, tickets: bool) -> Caller | None:
        if self._tokens is None or self._grants is None:
            return Caller("", Scope.UPGRADE)
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and token:
            if (token := token.strip()).startswith(PREFIX):
                granted = self._grants.find(token)
                return None if granted is None else _reader(*granted)
            entry = self._tokens.find(token)
            return None if entry is None else Caller(entry.name, Scope.of(entry.scope), entry.hash)
        given = parse_qs(scope["query_string"].decode("latin-1")).get("ticket", [])
        if tickets and len(given) == 1 and (bound := self._tickets.redeem(given[0])) is not None:
            if bound.grant is not None:
                self._grants.check_end(bound.grant)
            entry = self._tokens.of_hash(bound.token)
            return None if entry is None else _reader(entry, bound.grant)
        return None


class _HeaderSender:
    """Adds the common headers to every response."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.started = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await self._send(message)


def _refused(error: Exception) -> Response:
    if not isinstance(error, TidegateError):
        return unexpected_error_response(error)
    response = error_response(error)
    if error.code in ("bad-request", "head-too-large"):
        response.headers["Connection"] = "close"  # the bytes that follow may belong to this request
    return response


def _check_head(scope: AsgiScope, headers: Headers) -> None:
    """Refuse a head that a proxy might read differently, or that is too long."""
    if "content-length" in headers and "transfer-encoding" in headers:
        raise RequestError("bad-request", "the body has two lengths", "send one of them")
    size = sum(len(name) + len(value) for name, value in headers.raw) + len(scope.get("raw_path") or b"")
    if size > LARGEST_HEAD:
        raise RequestError("head-too-large", f"path and headers have {size:,} bytes", "send less")


def _opens_dashboard(scope: AsgiScope, headers: Headers) -> bool:
    """Whether a browser opens the dashboard in a tab, from wherever the link was: a chat, another port.
    Frames, scripts and fetches of other pages are something else."""
    path: str = scope["path"]
    return (
        scope["method"] == "GET"
        and (path == DASHBOARD or path.startswith(f"{DASHBOARD}/"))
        and headers.get("sec-fetch-mode") == "navigate"
        and headers.get("sec-fetch-dest") == "document"
        and "origin" not in headers
    )


def _path(scope: AsgiScope) -> str:
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    try:
        return raw.decode("ascii")
    except UnicodeDecodeError:
        raise RequestError(
            "bad-path", "the path has bytes that are not ASCII", "encode them as %XX"
        ) from None


async def permitted(request: Request) -> None:
    """Step 5, before all other dependencies of a route."""
    needed = needs_of(request.scope["route"])
    if needed is None:
        raise RequestError("closed-route", "this route is closed", "declare its scope")
    if needed.scope is None:
        return
    caller: Caller | None = request.scope["state"][CALLER]
    if caller is None:
        raise _no_token()
    if caller.scope < needed.scope:
        wanted = needed.scope.name.lower()
        raise RequestError(
            "not-allowed",
            f"the token {caller.name!r} has the scope {caller.scope.name.lower()}, and this needs {wanted}",
            f"use a token with the scope {wanted}",
        )
    if caller.grant is not None and not _covers_path(caller.grant, request):
        raise _not_granted()


def _covers_path(grant: Grant, request: Request) -> bool:
    """Whether a grant permits the model and id of the path. A route without a path parameter checks what it
    reads by `may_read`."""
    path = request.path_params
    return not path or grant.covers(_decoded(path.get("model", "")), _decoded(path.get("id", "")))


def may_read(request: Request, app: str, model: str, id: str) -> None:
    """Raise RequestError `not-granted` if the caller has a grant, and it is for something else."""
    grant = _grant_of(request)
    if grant is not None and not (grant.app == app and grant.covers(model, id)):
        raise _not_granted()


def allowed_until(request: Request) -> int | None:
    """When the caller's grant ends, in milliseconds since 1970: a stream ends then. None for a token."""
    grant = _grant_of(request)
    return None if grant is None else grant.until


def _grant_of(request: Request) -> Grant | None:
    caller: Caller | None = request.scope["state"][CALLER]
    return None if caller is None else caller.grant


def _route(scope: AsgiScope) -> Needs | None:
    """The declared scope of the route that matches the request, if there is one."""
    routes: Iterable[Any] = scope["app"].router.routes
    for route in routes:
        if isinstance(route, Route) and route.matches(scope)[0] is Match.FULL:
            return needs_of(route)
    return None


def _no_token() -> RequestError:
    return RequestError("no-token", "a token is needed", "send Authorization: Bearer and a token")


def _decoded(part: str) -> str:
    """A part of the path. Bytes that are not UTF-8 become surrogates, which equal nothing in a grant."""
    return unquote(part, errors="surrogateescape")


def _not_granted() -> RequestError:
    return RequestError(
        "not-granted", "the grant does not permit this", "a grant is for reading one model and id"
    )


def _reader(entry: Entry, grant: Grant | None) -> Caller:
    """The caller with a ticket or a grant of this token."""
    return Caller(entry.name, Scope.READ, entry.hash, grant)


def _name_of(host: str) -> str:
    """The name of a host, without the port."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).lower()
