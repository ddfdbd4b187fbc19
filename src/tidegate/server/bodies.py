"""Request bodies: small and strict JSON. What parsers understand differently is refused."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request

from tidegate.server.errors import RequestError

LARGEST = 64 << 10
SECONDS = 10.0
DEEPEST = 20
LARGEST_INTEGER = 2**63 - 1
"""Beyond it, decoders would read something else."""
T = TypeVar("T")


async def read_body(request: Request) -> bytes:
    """Read the whole body; raises if it is too large or takes too long."""
    return await read_limited(request, LARGEST)


def body_of_at_most(largest: int) -> Callable[[Request], Awaitable[bytes]]:
    """Return `read_body` for larger bodies."""

    async def read(request: Request) -> bytes:
        return await read_limited(request, largest)

    return read


async def read_limited(request: Request, largest: int) -> bytes:
    """Read a body of at most so many bytes."""
    length = request.headers.get("content-length", "0")
    if length.isdigit() and int(length) > largest:
        raise _too_large(largest)
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(SECONDS):
            async for part in request.stream():
                size += len(part)
                if size > largest:
                    raise _too_large(largest)
                parts.append(part)
    except TimeoutError:
        raise RequestError("slow-body", f"the body took more than {SECONDS:g} s", "send it at once") from None
    except ClientDisconnect:
        raise RequestError("slow-body", "the body ended early", "send it whole") from None
    return b"".join(parts)


def parsed(request: Request, body: bytes, kind: type[T], deepest: int = DEEPEST) -> T:
    """Decode the body as the type of a route; an empty body is an empty object."""
    if not body:
        return _converted({}, kind)
    return _converted(json_value(request, body, deepest), kind)


def json_value(request: Request, body: bytes, deepest: int = DEEPEST) -> Any:
    """Decode the body as any JSON value."""
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != "application/json":
        raise RequestError(
            "needs-json", f"the body is {content_type or 'of no type'}", "send application/json"
        )
    try:
        value = json.loads(body.decode(), object_pairs_hook=_object, parse_constant=_no_number)
        _check(value, 0, deepest)
    except RecursionError:
        raise _bad("it is nested too deep") from None
    except ValueError as error:
        raise _bad(str(error)[:200]) from None
    return value


def _converted(value: Any, kind: type[T]) -> T:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise _bad(str(error)[:200]) from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object has the same name twice")
    return found


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON number")


def _check(value: Any, depth: int, deepest: int) -> None:
    if depth > deepest:
        raise ValueError("it is nested too deep")
    match value:
        case str():
            if "\0" in value or any("\ud800" <= sign <= "\udfff" for sign in value):
                raise ValueError("a string holds NUL or half of a surrogate pair")
        case int() | float():
            if not (abs(value) <= LARGEST_INTEGER if isinstance(value, int) else math.isfinite(value)):
                raise ValueError("a number is too large")
        case dict():
            for name, part in value.items():
                _check(name, depth, deepest)
                _check(part, depth + 1, deepest)
        case list():
            for part in value:
                _check(part, depth + 1, deepest)


def _too_large(largest: int) -> RequestError:
    return RequestError("too-large", f"the body has more than {largest:,} bytes", "send less")


def _bad(why: str) -> RequestError:
    return RequestError(
        "bad-body", f"the body cannot be used: {why}", "docs/server.md shows the body of each call"
    )
