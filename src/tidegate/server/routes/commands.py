"""Pausing and resuming.

1 read and check the requested status; 2 append it to the status topic: once it is there it will be applied;
3 with `wait=applied`, wait until the replica of the gate's status has it; 4 respond. A call whose response
was lost can be repeated: with the same Idempotency-Key it is executed once.
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
from tidegate.server.bodies import parsed, read_body
from tidegate.server.errors import RequestError
from tidegate.server.guard import CALLER, Caller, needs
from tidegate.server.json_response import JsonResponse
from tidegate.server.parameters import App, GateName, IdempotencyKey, Key, KeyType, Server, shown_key
from tidegate.server.position import to_text
from tidegate.server.serving import GATE_STORE
from tidegate.server.tokens import Scope
from tidegate.state.replica import ReplicaSnapshot
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


_INSPECTED = msgspec.json.Decoder(Pause), msgspec.json.Decoder(Resume)
"""Makes msgspec inspect both Structs now: it must not do so for the first time in two threads at once."""


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
        self._idempotency_key = idempotency_key
        self._gate = gate
        self._app = app

    def pause(self, key: bytes | None) -> JsonResponse:
        """Pause a key, or the whole gate if it is None."""
        body = parsed(self._request, self._body, Pause)
        details = {**self._details(body.reason, body.actor), "expires_at": self._expires_at(body)}
        return self._execute(
            key,
            "PAUSED",
            lambda gate: gate.pause_all(**details) if key is None else gate.pause(key, **details),
        )

    def resume(self, key: bytes | None) -> JsonResponse:
        """Resume a key, or the whole gate if it is None."""
        body = parsed(self._request, self._body, Resume)
        details = self._details(body.reason, body.actor)
        return self._execute(
            key,
            "ACTIVE",
            lambda gate: gate.resume_all(**details) if key is None else gate.resume(key, **details),
        )

    def _details(self, reason: str, actor: str) -> dict[str, Any]:
        """The reason and the actor, who is always named with the name of the token."""
        caller: Caller = self._request.scope["state"][CALLER]
        if caller.name and actor:
            actor = f"{actor} (by {caller.name})"
        return {"reason": reason, "actor": actor or caller.name}

    def _expires_at(self, body: Pause) -> int | None:
        if body.expires_in is None:
            return body.expires_at
        if body.expires_at is not None:
            raise RequestError("bad-body", "expires_at and expires_in exclude each other", "send one")
        return self._server.clock.now() + round(body.expires_in * 1000)

    def _execute(
        self, key: bytes | None, state: str, write: Callable[[Commander], Commanded]
    ) -> JsonResponse:
        manifest = self._server.apps.gate(self._gate, self._app)
        key_kind(manifest.gates[self._gate], self._key_type)
        commander = Commander(self._server.log, manifest.gates[self._gate], self._server.clock)

        def append() -> Commanded:
            reach("server.accepted")
            return write(commander)

        caller: Caller = self._request.scope["state"][CALLER]
        request = msgspec.msgpack.encode((manifest.app, self._gate, key, state, self._body))
        done: Commanded = self._server.idempotent_calls.do(
            caller.token, self._idempotency_key, request, append
        )
        reach("server.reply")
        response: dict[str, Any] = {
            "app": manifest.app,
            "gate": self._gate,
            **self._target(key, done),
            "state": state,
            "epochs": {str(number): epoch for number, epoch in done.epochs.items()},
            "applied": False,
        }
        if self._wait is None:
            return JsonResponse(response)
        topic = Changelogs.of(manifest, self._gate).status
        position = self._applied(topic, GATE_WIDE if key is None else key, done)
        if position is None:
            return JsonResponse(response, 202)
        return JsonResponse({**response, "applied": True, "position": to_text(position)})

    def _target(self, key: bytes | None, done: Commanded) -> dict[str, Any]:
        if key is None:
            return {"gate_wide": True}
        return {"key": shown_key(key, self._key_type), "epoch": done.epoch}

    def _applied(self, topic: str, key: bytes, done: Commanded) -> dict[TopicPartition, int] | None:
        """Wait until the gate has applied the request. Returns the position of its status then, or None if
        that takes too long."""
        position: dict[TopicPartition, int] = {}
        deadline = time.monotonic() + self._seconds

        def applied(snapshot: ReplicaSnapshot) -> bool:
            for number, epoch in done.epochs.items():
                row = snapshot.get(number, key)
                if row is None or _in_force.decode(row).epoch < epoch:
                    return False
                position[TopicPartition(topic, number)] = snapshot.positions[number]
            return True

        try:
            replica = self._server.replicas.replica_of(topic, GATE_STORE)
            return position if replica.wait_for(applied, deadline - time.monotonic()) else None
        except (TidegateError, msgspec.DecodeError):
            return None  # it is written, so it will be applied


GateCommand = Annotated[Command, Depends(Command)]


@router.post("/gates/{gate}/keys/{key}/pause")
@needs(Scope.OPERATE)
def pause_key(command: GateCommand, key: Key) -> JsonResponse:
    """Hold the events of a key from now on. Responds when the request is in the log."""
    return command.pause(key)


@router.post("/gates/{gate}/keys/{key}/resume")
@needs(Scope.OPERATE)
def resume_key(command: GateCommand, key: Key) -> JsonResponse:
    """Release the held events of a key in order, then let new ones pass."""
    return command.resume(key)


@router.post("/gates/{gate}/pause")
@needs(Scope.OPERATE)
def pause_all(command: GateCommand) -> JsonResponse:
    """Hold the events of all keys, except those that are resumed one by one after this."""
    return command.pause(None)


@router.post("/gates/{gate}/resume")
@needs(Scope.OPERATE)
def resume_all(command: GateCommand) -> JsonResponse:
    """End the gate-wide pause; a key that was paused on its own stays paused."""
    return command.resume(None)
