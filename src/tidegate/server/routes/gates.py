"""Gates: statuses in force, and held events."""

from __future__ import annotations

import time
from collections import deque
from itertools import islice
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request

from tidegate.errors import LogError
from tidegate.gate.formats import Buffered, Held
from tidegate.gate.key_kinds import value_kind
from tidegate.gate.query import GateQuery, KeyState
from tidegate.server.guard import needs
from tidegate.server.json_response import JsonResponse
from tidegate.server.key_view import key_as_json
from tidegate.server.parameters import (
    After,
    App,
    AtLeast,
    GateName,
    Key,
    KeyType,
    Limit,
    Server,
    ValueType,
    from_cursor,
    queried_key,
    shown,
    shown_as_declared,
    shown_headers,
    shown_key,
    to_cursor,
    within_bytes,
)
from tidegate.server.position import to_text
from tidegate.server.tokens import Scope
from tidegate.text.render import ValueKind

router = APIRouter(tags=["gates"])
HISTORY_SHOWN = 100
TRIES = 5
RETRY_SECONDS = 0.05


@router.get("/gates")
@needs(Scope.READ)
def list_gates(server: Server, app: App = None) -> JsonResponse:
    """The gates, with the number of paused keys and held events."""
    gates = []
    for manifest in server.apps.of(app):
        for name in manifest.gates:
            with server.gate(manifest, name, {}) as (gate, snapshots):
                gates.append({**_summary(gate), "position": to_text(snapshots.position())})
    return JsonResponse({"gates": gates})


@router.get("/gates/{gate}")
@needs(Scope.READ)
def show_gate(server: Server, gate: GateName, at_least: AtLeast, app: App = None) -> JsonResponse:
    """One gate, with the gate-wide status in force by partition."""
    with server.gate(server.apps.gate(gate, app), gate, at_least) as (found, snapshots):
        in_force = {str(number): status.shown() for number, status in found.gate_wide().items()}
        return JsonResponse(
            {**_summary(found), "in_force": in_force, "position": to_text(snapshots.position())}
        )


@router.get("/gates/{gate}/keys")
@needs(Scope.READ)
def list_keys(
    request: Request,
    server: Server,
    gate: GateName,
    at_least: AtLeast,
    app: App = None,
    status: Annotated[Literal["paused", "active", "held"] | None, Query(description="Only these.")] = None,
    prefix: Annotated[str | None, Query(description="Only keys that begin with these bytes.")] = None,
    order: Annotated[
        Literal["key", "oldest"], Query(description="`oldest`: what waits longest, without further pages.")
    ] = "key",
    limit: Limit = 100,
    after: After = None,
    key_type: KeyType = None,
) -> JsonResponse:
    """Keys that were ever paused or have held events, in the order of their bytes or of their waiting."""
    last_key, begins = from_cursor(after), queried_key(request, "prefix", prefix, None) or b""
    with server.gate(server.apps.gate(gate, app), gate, at_least) as (found, snapshots):
        if order == "oldest":
            fitting = (one for one in found.waiting_longest(begins) if _fits(one, status))
            states = list(islice(fitting, limit))
        else:
            fitting = (one for one in found.states(last_key, begins) if _fits(one, status))
            states = list(islice(fitting, limit + 1))
        position = to_text(snapshots.position())
    page = states[:limit]
    cursor = to_cursor(page[-1].key) if len(states) > limit else None
    keys = [key_as_json(gate, one, key_type) for one in page]
    return JsonResponse({"gate": gate, "keys": keys, "next": cursor, "position": position})


@router.get("/gates/{gate}/keys/{key}")
@needs(Scope.READ)
def show_key(
    server: Server, gate: GateName, key: Key, at_least: AtLeast, app: App = None, key_type: KeyType = None
) -> JsonResponse:
    """One key: its status, its held events, and its audit records."""
    with server.gate(server.apps.gate(gate, app), gate, at_least, history=True) as (found, snapshots):
        history = list(deque(found.history(key), maxlen=HISTORY_SHOWN + 1))
        shown_state = key_as_json(gate, found.key(key), key_type)
        position = to_text(snapshots.position(found.commander.partition_of(key)))
    more = len(history) > HISTORY_SHOWN
    shown_history = history[-HISTORY_SHOWN:]
    return JsonResponse(
        {"gate": gate, **shown_state, "history": shown_history, "older": more, "position": position}
    )


@router.get("/gates/{gate}/keys/{key}/buffer")
@needs(Scope.READ)
def show_buffer(
    server: Server,
    gate: GateName,
    key: Key,
    at_least: AtLeast,
    app: App = None,
    limit: Limit = 100,
    after: Annotated[int | None, Query(ge=0, le=2**62, description="`next` of the previous page.")] = None,
    key_type: KeyType = None,
    value_type: ValueType = None,
) -> JsonResponse:
    """The held events of a key, oldest first."""
    manifest, last = server.apps.gate(gate, app), -1 if after is None else after
    for attempt in range(TRIES):
        with server.gate(manifest, gate, at_least, held=True) as (found, snapshots):
            waiting = found.key(key).buffered
            wanted = 0 if waiting is None else min(limit, waiting.next - max(waiting.first, last + 1))
            events = found.events(key, limit, last)
            position = to_text(snapshots.position(found.commander.partition_of(key)))
        if len(events) >= wanted:
            kinds = value_type, value_kind(found.entry)
            return _buffer(gate, shown_key(key, key_type), waiting, events, kinds, position)
        time.sleep(RETRY_SECONDS * (attempt + 1))  # the replicas of its two topics are at different positions
    raise LogError(
        "replica-behind", "this server has not read all held events yet", "try again soon", retryable=True
    )


def _buffer(
    gate: str,
    key: Any,
    waiting: Buffered | None,
    events: list[tuple[int, Held]],
    kinds: tuple[ValueKind | None, ValueKind | None],
    position: str,
) -> JsonResponse:
    page = within_bytes(events, lambda one: one[1].size)
    more = waiting is not None and bool(page) and page[-1][0] + 1 < waiting.next
    return JsonResponse(
        {
            "gate": gate,
            "key": key,
            "count": 0 if waiting is None else waiting.count,
            "bytes": 0 if waiting is None else waiting.bytes,
            "events": [_event(number, event, kinds) for number, event in page],
            "next": page[-1][0] if more else None,
            "position": position,
        }
    )


def _fits(one: KeyState, status: str | None) -> bool:
    if status is None:
        return True
    if status == "held":
        return one.buffered is not None
    paused = one.status is not None and one.status.state == "PAUSED"
    return paused == (status == "paused")


def _summary(gate: GateQuery) -> dict[str, Any]:
    return {
        "app": gate.app,
        "gate": gate.name,
        **gate.totals().shown(),
        "partitions": gate.entry.partitions,
        "topics": {what: getattr(gate.entry, what) for what in ("status", "trigger", "admitted", "audit")},
    }


def _event(number: int, event: Held, kinds: tuple[ValueKind | None, ValueKind | None]) -> dict[str, Any]:
    """An event, with its value decoded as requested, else as the app declared it, else by its look."""
    named, declared = kinds
    return {
        "sequence": number,
        "from": event.origin,
        "timestamp": event.timestamp,
        "value": shown(event.value, named) if named else shown_as_declared(event.value, declared),
        "headers": shown_headers(event.headers),
        "bytes": event.size,
    }
