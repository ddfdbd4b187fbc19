"""Grants: permission to read one id of a model, or all ids with a prefix, until a time.

    tgg_<payload>.<signature>        both base64url; the signature is HMAC-SHA256 over the payload

A backend issues a grant with its own token and hands it to a browser. The signing key is derived from the
hash of that token. So every server that reads the same file of tokens accepts the grant, also after a
restart, no server keeps a list, and the grant becomes invalid with the token. Whoever holds the token could
compute the key, which is no more than the token permits anyway; therefore the end is checked against the
longest time too.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from dataclasses import dataclass

import msgspec

from tidegate.clock import Clock
from tidegate.server.errors import RequestError
from tidegate.server.tokens import Entry, Scope, Tokens

PREFIX = "tgg_"
FORMAT = 1
LONGEST_SECONDS = 86_400
CLOCK_DIFFERENCE_MS = 300_000
"""How far the clocks of servers may differ for a grant of the longest time."""
LARGEST = 8 << 10
"""Characters of a grant: app and model have up to 200 each, and an id 512 bytes."""


class Grant(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a grant permits to read."""

    app: str
    model: str
    id: str
    """The id, or what the ids begin with."""
    prefix: bool
    until: int
    """Milliseconds since 1970."""

    def covers(self, model: str, id: str) -> bool:
        """Whether it permits this id."""
        return model == self.model and (id.startswith(self.id) if self.prefix else id == self.id)


class _Payload(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    format: int
    key: str
    """Names the token, without its name: browsers hold grants."""
    grant: Grant


_payload = msgspec.json.Decoder(_Payload)


@dataclass(frozen=True, slots=True)
class Grants:
    """Issues and checks the grants of one file of tokens."""

    tokens: Tokens
    clock: Clock

    def issue(self, token_hash: str, grant: Grant) -> str:
        """Sign a grant with the key of the token that has this hash."""
        payload = _base64(msgspec.json.encode(_Payload(FORMAT, _key_name(token_hash), grant)))
        return f"{PREFIX}{payload}.{_signature(token_hash, payload)}"

    def find(self, text: str) -> tuple[Entry, Grant] | None:
        """Return the grant and the token that issued it, or None if it is not valid. Raises RequestError
        `grant-ended`."""
        payload, _, signature = text.removeprefix(PREFIX).partition(".")
        found = _decoded(payload) if len(text) <= LARGEST and text.isascii() else None
        if found is None or found.format != FORMAT:
            return None
        entry = self.tokens.where(lambda one: hmac.compare_digest(_key_name(one.hash), found.key))
        if entry is None or not hmac.compare_digest(_signature(entry.hash, payload), signature):
            return None
        latest = self.clock.now() + LONGEST_SECONDS * 1000 + CLOCK_DIFFERENCE_MS
        if Scope.of(entry.scope) < Scope.OPERATE or found.grant.until > latest:
            return None
        self.check_end(found.grant)
        return entry, found.grant

    def check_end(self, grant: Grant) -> None:
        """Raise RequestError `grant-ended` if the grant is not valid any more."""
        if grant.until <= self.clock.now():
            raise RequestError("grant-ended", "the grant has ended", "request another one from your backend")


def _decoded(payload: str) -> _Payload | None:
    try:
        padded = payload + "=" * (-len(payload) % 4)
        return _payload.decode(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, msgspec.DecodeError):
        return None


def _key_name(token_hash: str) -> str:
    return _hmac(token_hash, b"tidegate grant: name of the key").hex()[:16]


def _signature(token_hash: str, payload: str) -> str:
    key = _hmac(token_hash, b"tidegate grant: key")
    return _base64(hmac.digest(key, payload.encode(), hashlib.sha256))


def _hmac(token_hash: str, purpose: bytes) -> bytes:
    return hmac.digest(token_hash.encode(), purpose, hashlib.sha256)


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
