"""Pausing and resuming.

1 read and check the requested status; 2 append it to the status topic: from here on it is sure; 3 with
`wait=applied`, wait until the replica of the gate's status shows it; 4 respond. A call whose response is lost
can be repeated: with the same Idempotency-Key it is executed once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Depends, Query, Request

from tidegate.errors import TidegateError
from tidegate.gate.commands import Commanded, Commander
from tidegate.gate.formats import GATE_WIDE, InForce
from tidegate.gate.key_kinds import key_kind
from tidegate.gate.query import Changelogs
from tidegate.log.faultpoints import reach
from tidegate.log.topic import LATEST_TIMESTAMP
from tidegate.server.answers import Answer
from tidegate.server.bodies import parsed, read_body
from tidegate.server.errors import RequestError
from tidegate.server.guard import CALLER, Caller, needs
from tidegate.server.parameters import App, GateName, IdempotencyKey, Key, KeyType, Server, shown_key
from tidegate.server.position import to_text
from tidegate.server.serving import GATE_STORE
from tidegate.server.tokens import Scope
from tidegate.state.replica import Snapshot
from tidegate.types import TopicPartition

router = APIRouter(tags=["gates"])
_in_force = msgspec.msgpack.Decoder(InForce)


class Resume(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a resume."""

    reason: str = ""
    actor: str = ""


class Pause(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a pause."""

    reason: str = ""
    actor: str = ""
    expires_at: Annotated[int, msgspec.Meta(ge=0, le=LATEST_TIMESTAMP)] | None = None
    """Milliseconds since 1970."""
    expires_in: Annotated[float, msgspec.Meta(gt=0, le=10 * 366 * 86_400)] | None = None
    """Seconds from now."""


_LOOKED_AT = msgspec.json.Decoder(Pause), msgspec.json.Decoder(Resume)
"""Threads convert to them, and msgspec must not look at a Struct for the first time in two threads."""


class Command:
    """The common part of all pauses and resumes."""

    def __init__(
        self,
        request: Request,
        server: Server,
        gate: GateName,
        body: Annotated[bytes, Depends(read_body)],
        app: App = None,
        wait: Annotated[
            Literal["applied"] | None, Query(description="Respond when the gate has applied it.")
        ] = None,
        seconds: Annotated[float, Query(gt=0, le=60, description="How long to wait at most.")] = 10.0,
        idempotency_key: IdempotencyKey = None,
        key_type: KeyType = None,
    ) -> None:
        self._key_type = key_type
        self._request = request
        self._server = server
        self._body = body
        self._wait = wait
        self._seconds = seconds
        self._once = idempotency_key
        self._gate = gate
        self._app = app

    def pause(self, key: bytes | None) -> Answer:
        """None for the whole gate."""
        body = parsed(self._request, self._body, Pause)
        said = {**self._said(body.reason, body.actor), "expires_at": self._end(body)}
        return self._do(
            key,
            "PAUSED",
            lambda it: it.pause_all(**said) if key is None else it.pause(key, **said),
        )

    def resume(self, key: bytes | None) -> Answer:
        body = parsed(self._request, self._body, Resume)
        said = self._said(body.reason, body.actor)
        return self._do(
            key,
            "ACTIVE",
            lambda it: it.resume_all(**said) if key is None else it.resume(key, **said),
        )

    def _said(self, reason: str, actor: str) -> dict[str, Any]:
        """Add the name of the token to the actor: nobody can act under another name only."""
        caller: Caller = self._request.scope["state"][CALLER]
        if caller.name and actor:
            actor = f"{actor} (by {caller.name})"
        return {"reason": reason, "actor": actor or caller.name}

    def _end(self, body: Pause) -> int | None:
        if body.expires_in is None:
            return body.expires_at
        if body.expires_at is not None:
            raise RequestError("bad-body", "expires_at and expires_in exclude each other", "send one")
        return self._server.clock.now() + round(body.expires_in * 1000)

    def _do(self, key: bytes | None, state: str, write: Callable[[Commander], Commanded]) -> Answer:
        manifest = self._server.apps.gate(self._gate, self._app)
        key_kind(manifest.gates[self._gate], self._key_type)
        commander = Commander(self._server.log, manifest.gates[self._gate], self._server.clock)

        def written() -> Commanded:
            reach("server.accepted")
            return write(commander)

        caller: Caller = self._request.scope["state"][CALLER]
        asked = msgspec.msgpack.encode((manifest.app, self._gate, key, state, self._body))
        done: Commanded = self._server.once.do(caller.token, self._once, asked, written)
        reach("server.reply")
        told: dict[str, Any] = {
            "app": manifest.app,
            "gate": self._gate,
            **self._whose(key, done),
            "state": state,
            "epochs": {str(number): epoch for number, epoch in done.epochs.items()},
            "applied": False,
        }
        if self._wait is None:
            return Answer(told)
        topic = Changelogs.of(manifest, self._gate).status
        position = self._applied(topic, GATE_WIDE if key is None else key, done)
        if position is None:
            return Answer(told, 202)
        return Answer({**told, "applied": True, "position": to_text(position)})

    def _whose(self, key: bytes | None, done: Commanded) -> dict[str, Any]:
        if key is None:
            return {"gate_wide": True}
        return {"key": shown_key(key, self._key_type), "epoch": done.epoch}

    def _applied(self, topic: str, key: bytes, done: Commanded) -> dict[TopicPartition, int] | None:
        """The position of the gate's status at which the request was applied; None if that takes too long."""
        position: dict[TopicPartition, int] = {}
        deadline = time.monotonic() + self._seconds

        def seen(snapshot: Snapshot) -> bool:
            for number, epoch in done.epochs.items():
                row = snapshot.get(number, key)
                if row is None or _in_force.decode(row).epoch < epoch:
                    return False
                position[TopicPartition(topic, number)] = snapshot.positions[number]
            return True

        try:
            following = self._server.replicas.following(topic, GATE_STORE)
            return position if following.wait_for(seen, deadline - time.monotonic()) else None
        except (TidegateError, msgspec.DecodeError):
            return None  # it is written, so it will be applied


Asked = Annotated[Command, Depends(Command)]


@router.post("/gates/{gate}/keys/{key}/pause")
@needs(Scope.OPERATE)
def pause_key(command: Asked, key: Key) -> Answer:
    """Hold the events of a key from now on. Responds when the request is in the log."""
    return command.pause(key)


@router.post("/gates/{gate}/keys/{key}/resume")
@needs(Scope.OPERATE)
def resume_key(command: Asked, key: Key) -> Answer:
    """Release the held events of a key in order, then let new ones pass."""
    return command.resume(key)


@router.post("/gates/{gate}/pause")
@needs(Scope.OPERATE)
def pause_all(command: Asked) -> Answer:
    """Hold the events of all keys, except those that are resumed one by one after this."""
    return command.pause(None)


@router.post("/gates/{gate}/resume")
@needs(Scope.OPERATE)
def resume_all(command: Asked) -> Answer:
    """End the gate-wide pause; a key that was paused on its own stays paused."""
    return command.resume(None)
