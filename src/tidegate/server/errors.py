"""The one JSON shape of errors, and the HTTP status of each."""

from __future__ import annotations

import logging
import uuid
from typing import Any

import msgspec
from starlette.responses import Response

from tidegate.errors import ConfigError, LogError, StateError, TidegateError

log = logging.getLogger("tidegate.server")

STATUS = {
    "bad-diff": 422,
    "bad-host": 421,
    "bad-state": 422,
    "closed-route": 403,
    "commit-unknown": 503,
    "cross-site": 403,
    "grant-ended": 401,
    "head-too-large": 431,
    "id-exists": 409,
    "idempotency-mismatch": 422,
    "method-not-allowed": 405,
    "needs-json": 415,
    "never-started": 404,
    "no-dashboard": 404,
    "no-such-asset": 404,
    "no-such-gate": 404,
    "no-such-id": 404,
    "no-such-model": 404,
    "no-such-partition": 404,
    "no-such-path": 404,
    "no-such-record": 404,
    "no-such-store": 404,
    "no-such-table": 404,
    "no-upgrade": 404,
    "no-such-stream": 404,
    "no-such-topic": 404,
    "no-token": 401,
    "not-allowed": 403,
    "not-appendable": 405,
    "not-granted": 403,
    "other-version": 409,
    "reducer-failed": 422,
    "slow-body": 408,
    "state-too-large": 413,
    "too-large": 413,
    "too-many-streams": 429,
}


class RequestError(TidegateError):
    """A request that is refused."""


def status_of(error: TidegateError) -> int:
    """The HTTP status of an error: by its code if that is listed, else by its class."""
    if error.code in STATUS:
        return STATUS[error.code]
    if error.retryable:
        return 503
    return 400 if isinstance(error, ConfigError | RequestError) or _about_input(error) else 500


def _about_input(error: TidegateError) -> bool:
    return not isinstance(error, LogError | StateError)


def error_response(error: TidegateError, status: int | None = None, **more: Any) -> Response:
    """The response to an error, with more fields beside it. A failure of the server is logged with the same
    id."""
    status, number = status or status_of(error), uuid.uuid4().hex
    if status >= 500:
        log.error("error %s: %s", number, error)
    headers = {"Retry-After": "1"} if status in (429, 503) else {}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return Response(
        msgspec.json.encode({"error": {**error.as_dict(), "id": number}, **more}) + b"\n",
        status,
        {**headers, "Cache-Control": "no-store"},
        "application/json",
    )


def unexpected_error_response(error: BaseException) -> Response:
    """The response to a bug: its id and no details."""
    number = uuid.uuid4().hex
    log.error("error %s", number, exc_info=error)
    shape: dict[str, Any] = {
        "code": "internal",
        "message": "the server failed",
        "hint": "look for this id in the log of the server",
        "retryable": False,
        "id": number,
    }
    return Response(
        msgspec.json.encode({"error": shape}) + b"\n", 500, {"Cache-Control": "no-store"}, "application/json"
    )
