"""Writing to models.

1 check the request; 2 append it to the requests topic, in the partition of its id: once it is there, the
model's task decides on it; 3 wait until the row of the id has its outcome; 4 respond by it. A call whose
response was lost can be repeated, at any server: with the same Idempotency-Key it has one effect, and each
call returns the outcome of the first.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import time
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Header, Query, Request
from fastapi.concurrency import run_in_threadpool
from starlette.responses import Response

from tidegate.connect.model_requests import ModelRequester, request_of
from tidegate.errors import TidegateError
from tidegate.log.faultpoints import reach
from tidegate.models.checks import DEEPEST
from tidegate.models.formats import ModelRequest, RequestKind
from tidegate.models.row import Outcome
from tidegate.models.token import parse_token
from tidegate.server.bodies import LARGEST, json_value, parsed, read_limited
from tidegate.server.errors import STATUS, RequestError, error_response
from tidegate.server.guard import CALLER, Caller, needs
from tidegate.server.json_response import JsonResponse
from tidegate.server.model_ids import ModelId, ModelName, checked_id
from tidegate.server.model_outcomes import Decided
from tidegate.server.parameters import App, IdempotencyKey, Server, quoted
from tidegate.server.position import to_text
from tidegate.server.tokens import Scope
from tidegate.topology.manifest import ModelEntry

router = APIRouter(tags=["models"])
DONE = {"created": 201, "appended": 200, "deleted": 200, "unchanged": 200}
"""The HTTP status of each outcome that is no error."""
REFUSED = 422
"""The status of outcomes that are not in the table of errors, such as those of the user's code."""
HINTS = {
    "id-exists": "append to it, or use another id",
    "no-such-id": "create it first",
    "other-version": "read it again, and decide on the newest version",
}
ENVELOPE = 8 << 10
"""Bytes of a body besides the diff."""
HASH_BYTES = 24


class Creating(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a call that creates an id."""

    id: str | None = None
    diff: Any = None


_INSPECTED = msgspec.json.Decoder(Creating)
"""Makes msgspec inspect the Struct now: it must not do so for the first time in two threads at once."""


class Model:
    """The model of a path, for writing."""

    def __init__(self, server: Server, model: ModelName, app: App = None) -> None:
        manifest = server.apps.model(model, app)
        self.app = manifest.app
        self.name = model
        self.entry: ModelEntry = manifest.models[model]
        if not self.entry.appendable:
            raise RequestError(
                "not-appendable",
                f"the diffs of model {model!r} are derived from another stream",
                "send to the source of that stream",
            )


FoundModel = Annotated[Model, Depends(Model)]


async def model_body(request: Request, model: FoundModel) -> bytes:
    """Read a body that is large enough for any diff of the model."""
    return await read_limited(request, max(LARGEST, model.entry.max_state) + ENVELOPE)


def expected_token(
    id: ModelId,
    expect: Annotated[
        str | None, Query(description="The token of the version that the request must find.")
    ] = None,
    if_match: Annotated[str | None, Header(description="The same as an ETag.")] = None,
) -> str | None:
    given = if_match.strip() if if_match is not None else "*"
    if given != "*":
        token = given[1:-1] if len(given) > 1 and given[0] == given[-1] == '"' else given
        if expect not in (None, token):
            raise RequestError("bad-request", "expect and If-Match differ", "send one of the two")
        expect = token
    if expect is not None:
        parse_token(id, expect)
    return expect


ModelBody = Annotated[bytes, Depends(model_body)]
Expected = Annotated[str | None, Depends(expected_token)]


class Writing:
    """The common part of all calls that write."""

    def __init__(
        self,
        request: Request,
        server: Server,
        model: FoundModel,
        seconds: Annotated[float, Query(gt=0, le=60, description="How long to wait at most.")] = 10.0,
        idempotency_key: IdempotencyKey = None,
    ) -> None:
        if idempotency_key == "":
            raise RequestError("bad-request", "the Idempotency-Key is empty", "send a random text, or none")
        caller: Caller = request.scope["state"][CALLER]
        self._server = server
        self._model = model
        self._deadline = time.monotonic() + seconds
        self._actor = caller.name
        self._key = idempotency_key

    def new_id(self) -> str:
        """A random id; with an Idempotency-Key always the same one."""
        if self._key is None:
            return secrets.token_urlsafe(16)
        return _hashed("id", self._actor, self._model.app, self._model.name, self._key)

    async def write(
        self, id: str, kind: RequestKind, diff: Any = None, expect: str | None = None
    ) -> Response:
        """Steps 2 to 4."""
        key = None if self._key is None else _hashed("request", self._actor, self._key)
        request = await run_in_threadpool(
            lambda: request_of(kind, diff, expect=expect, request=key, actor=self._actor)
        )
        shown = {"app": self._model.app, "model": self._model.name, "id": id, "request": request.request}
        outcomes = self._server.outcomes
        async with outcomes.expecting(self._model.entry, id, request.request, self._deadline) as waiting:
            decided = None if key is None else await run_in_threadpool(lambda: outcomes.peek(waiting))
            if decided is None:
                await run_in_threadpool(lambda: self._append(id, request))
                decided = await waiting.outcome(self._deadline - time.monotonic())
        if decided is None:
            return JsonResponse({**shown, "decided": False}, 202)
        return _answered(decided, request.body, shown)

    def _append(self, id: str, request: ModelRequest) -> None:
        """Step 2."""
        reach("server.accepted")
        entry = self._model.entry
        log, clock = self._server.log, self._server.clock
        ModelRequester(log, entry.requests, entry.partitions, clock).write(id, request)
        reach("server.reply")


ModelWriting = Annotated[Writing, Depends(Writing)]


class Creation:
    """The checked body of a call that creates an id."""

    def __init__(self, request: Request, writing: ModelWriting, body: ModelBody) -> None:
        found = parsed(request, body, Creating, DEEPEST + 1)
        self.id = writing.new_id() if found.id is None else checked_id(found.id)
        self.diff = found.diff


def diff_of(request: Request, body: ModelBody) -> Any:
    """The checked body of a call that appends."""
    found = json_value(request, body, DEEPEST)
    if found is None:
        raise RequestError("bad-diff", "there is no diff", "send it as JSON")
    return found


@router.post("/{model}")
@needs(Scope.OPERATE)
async def create(writing: ModelWriting, creation: Annotated[Creation, Depends(Creation)]) -> Response:
    """Create an id, with or without a first diff. Without an id in the body the server chooses one."""
    return await writing.write(creation.id, "create", creation.diff)


@router.post("/{model}/{id}/diffs")
@needs(Scope.OPERATE)
async def append(
    id: ModelId, writing: ModelWriting, expect: Expected, diff: Annotated[Any, Depends(diff_of)]
) -> Response:
    """Apply a diff, which is the body, to an id."""
    return await writing.write(id, "append", diff, expect)


@router.delete("/{model}/{id}")
@needs(Scope.OPERATE)
async def delete(id: ModelId, writing: ModelWriting, expect: Expected) -> Response:
    """Remove an id."""
    return await writing.write(id, "delete", expect=expect)


def _answered(decided: Decided, body: str, shown: dict[str, Any]) -> Response:
    """Step 4, for a request that is decided."""
    outcome = decided.outcome
    if outcome.body != body:
        raise RequestError(
            "idempotency-mismatch", "this Idempotency-Key was used for another request", "use a new key"
        )
    position = to_text(decided.position)
    if outcome.code not in DONE:
        status = STATUS.get(outcome.code, REFUSED)
        return error_response(
            _as_error(outcome), status, **shown, decided=True, token=outcome.token, position=position
        )
    shown |= {
        "decided": True,
        "outcome": outcome.code,
        "changed": outcome.code != "unchanged",
        "token": outcome.token,
        "position": position,
    }
    headers = {} if outcome.code == "deleted" else {"ETag": f'"{outcome.token}"'}
    if outcome.code == "created":
        headers["Location"] = f"/{shown['model']}/{quoted(shown['id'].encode())}"
    return JsonResponse(shown, DONE[outcome.code], headers)


def _as_error(outcome: Outcome) -> TidegateError:
    return RequestError(outcome.code, outcome.message, HINTS.get(outcome.code, "send another diff"))


def _hashed(*parts: str) -> str:
    """A text of a fixed length, the same for the same parts."""
    content = msgspec.msgpack.encode(parts)
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()[:HASH_BYTES]).decode()
