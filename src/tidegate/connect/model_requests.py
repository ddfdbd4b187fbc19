"""Write requests to a model: create, append to and delete ids.

1 encode the request; 2 append it to the requests topic, in the partition of the id: once it is there, the
model's task decides on it, whatever crashes. The outcome is in the row of the id. A request that is sent
again with the same id has no second effect, as long as the row remembers it (the last 64 of an id).
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from typing import Any

import msgspec

from tidegate.clock import Clock
from tidegate.errors import SerdeError
from tidegate.log import names
from tidegate.log.partitioner import partition_for
from tidegate.log.protocol import Log
from tidegate.log.records import Row, to_batch
from tidegate.models.formats import LONGEST_ID, NO_DIFF, ModelRequest, RequestKind, encode_json
from tidegate.types import TopicPartition

REQUEST_BYTES = 16


@dataclass(frozen=True, slots=True)
class ModelRequester:
    """Writes requests to one model. Returns when they are durable; the model decides on them later."""

    log: Log
    topic: str
    """The requests topic of the model."""
    partitions: int
    clock: Clock

    @classmethod
    def of(cls, log: Log, app: str, model: str, clock: Clock) -> ModelRequester:
        """The requester of a model of an app. Raises LogError `no-such-topic` if the app never ran."""
        topic = names.model(app, model, "requests")
        return cls(log, topic, log.describe(topic).partitions, clock)

    def create(self, id: str, diff: Any = None, *, request: str | None = None) -> str:
        """Request that an id is created. Returns the id of the request."""
        return self.send(id, "create", diff, request=request)

    def append(self, id: str, diff: Any, *, expect: str | None = None, request: str | None = None) -> str:
        """Request that a diff is applied; with `expect` only to the version that has this token."""
        return self.send(id, "append", diff, expect=expect, request=request)

    def delete(self, id: str, *, expect: str | None = None, request: str | None = None) -> str:
        """Request that an id is removed."""
        return self.send(id, "delete", expect=expect, request=request)

    def send(
        self,
        id: str,
        kind: RequestKind,
        diff: Any = None,
        *,
        expect: str | None = None,
        request: str | None = None,
    ) -> str:
        """Write a request and return its id: a random one, unless it is given."""
        made = request_of(kind, diff, expect=expect, request=request)
        self.write(id, made)
        return made.request

    def write(self, id: str, request: ModelRequest) -> None:
        """Step 2."""
        key = _key(id)
        home = TopicPartition(self.topic, partition_for(key, self.partitions))
        self.log.append(home, to_batch([Row(key, encode_json(request), self.clock.now())]))


def request_of(
    kind: RequestKind,
    diff: Any = None,
    *,
    expect: str | None = None,
    request: str | None = None,
    actor: str = "",
) -> ModelRequest:
    """Step 1. `diff` is any value that JSON can hold, or a `msgspec.Raw` of JSON."""
    raw = NO_DIFF if diff is None else msgspec.Raw(_encoded(diff))
    made = secrets.token_urlsafe(REQUEST_BYTES) if request is None else request
    return ModelRequest(kind, made, content_digest(kind, raw, expect), raw, expect, actor)


def content_digest(kind: RequestKind, diff: msgspec.Raw, expect: str | None) -> str:
    """Return the digest by which two requests with the same id are compared. The order of keys does not
    count."""
    try:
        content = encode_json((kind, msgspec.json.decode(diff), expect))
    except (msgspec.DecodeError, RecursionError) as error:
        raise SerdeError("bad-diff", f"a diff is not JSON: {error}", "send one JSON value") from error
    return hashlib.sha256(content).hexdigest()[:32]


def _encoded(diff: Any) -> bytes:
    try:
        return encode_json(diff)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        message = f"a diff cannot be written as JSON: {error}"
        raise SerdeError("bad-diff", message, "use a Struct, a dataclass, dict or list") from error


def _key(id: str) -> bytes:
    try:
        key = id.encode()
    except UnicodeEncodeError:
        key = b""
    if not 0 < len(key) <= LONGEST_ID:
        raise SerdeError(
            "bad-id", f"an id of {len(id):,} characters", f"use 1 to {LONGEST_ID} bytes of UTF-8"
        )
    return key
