"""Parameters of paths and queries, and how bytes are shown in responses."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable
from typing import Annotated, Any, TypeVar
from urllib.parse import quote, unquote, unquote_to_bytes

from fastapi import Depends, Header, Path, Query, Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from tidegate.errors import SerdeError
from tidegate.log.names import is_internal_header
from tidegate.log.records import Headers
from tidegate.server.errors import RequestError
from tidegate.server.position import from_text as position_from_text
from tidegate.server.serving import Serving, serving
from tidegate.text.parse import from_text
from tidegate.text.render import ValueKind, as_json
from tidegate.types import Offset, TopicPartition

LONGEST_KEY = 64 << 10
LARGEST_PAGE = 1000
LARGEST_ANSWER = 8 << 20
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

Server = Annotated[Serving, Depends(serving)]
App = Annotated[str | None, Query(description="The app, if several apps have one of this name.")]
Limit = Annotated[int, Query(ge=1, le=LARGEST_PAGE, description="At most so many.")]
After = Annotated[str | None, Query(description="`next` of the previous page.")]
KeyType = Annotated[ValueKind | None, Query(description="What the keys are.")]
ValueType = Annotated[ValueKind | None, Query(alias="type", description="What the values are.")]
InternalHeaders = Annotated[bool, Query(description="Show the headers that tidegate adds, too.")]
OnlyKey = Annotated[str | None, Query(description="Only records with this key.")]
Preview = Annotated[
    int | None, Query(ge=0, le=1 << 20, description="Cut values that have more than so many bytes.")
]
IdempotencyKey = Annotated[
    str | None, Header(max_length=200, description="A repeated call with the same key is executed once.")
]


def _at_least(
    at_least: Annotated[
        str | None, Query(description="`position` of an earlier response: wait until it is reached.")
    ] = None,
) -> dict[TopicPartition, Offset]:
    return position_from_text(at_least or "")


def _key(
    key: Annotated[str, Path(description="The key; any bytes, encoded as %XX.")], key_type: KeyType = None
) -> bytes:
    data = unquote_to_bytes(key)
    if len(data) > LONGEST_KEY:
        raise RequestError("too-large", f"a key of {len(data):,} bytes", "use the command line for such keys")
    return data if key_type is None else from_text(data, key_type)


AtLeast = Annotated[dict[TopicPartition, Offset], Depends(_at_least)]
Key = Annotated[bytes, Depends(_key)]


def app_name(app: Annotated[str, Path(description="The app.")]) -> str:
    return unquote(app)


def gate_name(gate: Annotated[str, Path(description="The gate.")]) -> str:
    return unquote(gate)


def sink_name(sink: Annotated[str, Path(description="The table topic or the model.")]) -> str:
    return unquote(sink)


def store_name(store: Annotated[str, Path(description="The store.")]) -> str:
    return unquote(store)


def topic_name(topic: Annotated[str, Path(description="The topic.")]) -> str:
    return unquote(topic)


AppName = Annotated[str, Depends(app_name)]
GateName = Annotated[str, Depends(gate_name)]
SinkName = Annotated[str, Depends(sink_name)]
StoreName = Annotated[str, Depends(store_name)]
TopicName = Annotated[str, Depends(topic_name)]


def any_query(route: F) -> F:
    """Let a route accept any query parameters: those of the dashboard's pages are for the page itself."""
    route.any_query = True  # type: ignore[attr-defined]
    return route


async def no_other_queries(request: Request) -> None:
    """Refuse unknown query parameters: a misspelt one would be ignored silently."""
    route = request.scope["route"]
    if isinstance(route, APIRoute) and not getattr(route.endpoint, "any_query", False):
        known = _queries(route.dependant) | {"ticket"}
        for name in request.query_params:
            if name not in known:
                raise RequestError(
                    "unknown-query",
                    f"this path has no query parameter {name[:40]!r}",
                    f"there is: {', '.join(sorted(known))}",
                )


def _queries(of: Dependant) -> set[str]:
    """The names of all query parameters of a route and its dependencies."""
    return {one.alias for one in of.query_params}.union(*(_queries(other) for other in of.dependencies))


def shown_key(key: bytes, kind: ValueKind | None) -> Any:
    """A key decoded as the requested type; without one as text, or as base64 if it is no text."""
    if kind is not None:
        return shown(key, kind)
    try:
        return key.decode()
    except UnicodeDecodeError:
        return as_json(key, ValueKind.BYTES)


def shown(data: bytes | None, kind: ValueKind | None) -> Any:
    """Bytes decoded as the requested type, or base64 if that fails."""
    try:
        return as_json(data, kind)
    except SerdeError:
        return as_json(data, ValueKind.BYTES)


def shown_as_declared(data: bytes | None, kind: ValueKind | None) -> Any:
    """Bytes decoded as the app declared them, or as what they look like if that fails."""
    try:
        return as_json(data, kind)
    except SerdeError:
        return as_json(data)


def shown_headers(headers: Headers, *, internal: bool = False) -> list[list[Any]]:
    """Headers as pairs; those that tidegate adds only on request."""
    return [[name, shown(value, None)] for name, value in headers if internal or not is_internal_header(name)]


def quoted(key: bytes) -> str:
    """A key as it is written in a path. Dots are escaped too: some clients resolve two of them."""
    return quote(key, safe="").replace(".", "%2E")


def within_bytes(rows: Iterable[T], size: Callable[[T], int]) -> list[T]:
    """As many rows as a response can hold, but at least one: a page ends early if rows are large."""
    page: list[T] = []
    total = 0
    for row in rows:
        total += size(row)
        if page and total > LARGEST_ANSWER:
            break
        page.append(row)
    return page


def raw_query(request: Request, name: str) -> bytes | None:
    """A query parameter as bytes, which need not be text."""
    for pair in request.scope["query_string"].split(b"&"):
        given, _, value = pair.partition(b"=")
        if unquote_to_bytes(given) == name.encode():
            return unquote_to_bytes(value.replace(b"+", b" "))
    return None


def queried_key(request: Request, name: str, given: str | None, kind: ValueKind | None) -> bytes | None:
    """A key in the query: any bytes, or a value of the requested type. None if it is not given."""
    if given is None:
        return None
    data = raw_query(request, name) or b""
    return data if kind is None else from_text(data, kind)


def to_cursor(data: bytes) -> str:
    """The end of a page as an opaque cursor."""
    return base64.urlsafe_b64encode(data).decode()


def from_cursor(text: str | None) -> bytes | None:
    if text is None:
        return None
    try:
        return base64.b64decode(text, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise RequestError(
            "bad-cursor", "this is not a cursor of a page", "send `next` of the previous page"
        ) from None
