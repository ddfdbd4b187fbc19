"""The requests of a client and what it makes of the responses, whichever way they travel."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec

from tidegate.client.held import Unusable
from tidegate.errors import ClientError, ConfigError

MEDIA_TYPE = "application/x-ndjson"
UNDECIDED = 202
Bearer = str | Callable[[], str] | None


class Written(msgspec.Struct, frozen=True):
    """What became of a write."""

    id: str
    token: str
    """Of the version after it."""
    outcome: str
    """`created`, `appended`, `deleted` or `unchanged`."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request."""

    method: str
    path: str
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None


class Target:
    """An id of a model on a server."""

    def __init__(self, url: str, model: str, id: str, bearer: Bearer) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(
                "bad-url", f"{url!r} is not the URL of a server", "use http:// or https:// and a host"
            )
        self.is_tls = parts.scheme == "https"
        self.host = parts.hostname
        self.port = parts.port or (443 if self.is_tls else 80)
        self.id = id
        self._base = f"{parts.path.rstrip('/')}/{_quoted(model)}"
        self._bearer = bearer

    @property
    def renews_bearer(self) -> bool:
        """Whether the next request may have another bearer than the last one."""
        return callable(self._bearer)

    def events(self, token: str | None) -> Request:
        query = "" if token is None else f"?hash={quote(token, safe='')}"
        path = f"{self._base}/{_quoted(self.id)}/events{query}"
        return Request("GET", path, {**self._authorized(), "Accept": MEDIA_TYPE})

    def append(self, diff: Any, expect: str | None) -> Request:
        return self._write("POST", f"{self._base}/{_quoted(self.id)}/diffs", diff, expect)

    def create(self, diff: Any) -> Request:
        body = {"id": self.id} if diff is None else {"id": self.id, "diff": diff}
        return self._write("POST", self._base, body, None)

    def delete(self, expect: str | None) -> Request:
        return self._write("DELETE", f"{self._base}/{_quoted(self.id)}", None, expect)

    def _write(self, method: str, path: str, body: Any, expect: str | None) -> Request:
        """Its Idempotency-Key makes it safe to send it again when the response is lost."""
        headers = {
            **self._authorized(),
            "Accept": "application/json",
            "Idempotency-Key": secrets.token_hex(16),
        }
        if expect is not None:
            headers["If-Match"] = f'"{expect}"'
        if body is None:
            return Request(method, path, headers)
        return Request(
            method, path, {**headers, "Content-Type": "application/json"}, msgspec.json.encode(body)
        )

    def _authorized(self) -> dict[str, str]:
        bearer = self._bearer() if callable(self._bearer) else self._bearer
        return {} if bearer is None else {"Authorization": f"Bearer {bearer}"}


def check_stream(status: int, headers: Mapping[str, str], body: bytes) -> None:
    """Raise unless the response is a stream of frames."""
    check_status(status, body)
    if not headers.get("content-type", "").startswith(MEDIA_TYPE):
        raise Unusable("the response is no stream of frames")


def written(status: int, body: bytes) -> Written:
    """Return what became of a write. Raises Unusable or ClientError."""
    check_status(status, body)
    if status == UNDECIDED:
        message = "the request is in the log, and the app has not decided on it in time"
        raise ClientError(
            "not-decided", message, "check that the app is running", retryable=True, status=status
        )
    try:
        return _written.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unusable(f"the response cannot be read: {error}") from None


def check_status(status: int, body: bytes) -> None:
    """Raise Unusable if a later attempt may succeed, ClientError if none will."""
    if 200 <= status < 300:
        return
    if status in (408, 429) or status >= 500:
        raise Unusable(f"the server answered with status {status}")
    try:
        found = _refused.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        message = f"the server answered with status {status}"
        raise ClientError("server-refused", message, "look for a proxy in between", status=status) from None
    error = found.error
    raise ClientError(error.code, error.message, error.hint, status=status, token=found.token)


class _Reason(msgspec.Struct, frozen=True):
    code: str
    message: str = ""
    hint: str = ""


class _Refused(msgspec.Struct, frozen=True):
    error: _Reason
    token: str | None = None


_written = msgspec.json.Decoder(Written)
_refused = msgspec.json.Decoder(_Refused)


def _quoted(name: str) -> str:
    """As a part of a path. A name of dots alone would be taken for a folder."""
    return quote(name, safe="") if name.strip(".") else "%2E" * len(name)
