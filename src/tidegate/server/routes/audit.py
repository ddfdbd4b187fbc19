"""The audit records of all gates in one list."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Query, Request

from tidegate.gate.formats import Audit
from tidegate.log.ensure import find_topic
from tidegate.log.merged import LocatedRow
from tidegate.log.records import ReadRow
from tidegate.log.route import partitions_of
from tidegate.server.errors import RequestError
from tidegate.server.guard import needs
from tidegate.server.json_response import JsonResponse
from tidegate.server.parameters import (
    App,
    KeyType,
    Limit,
    OnlyKey,
    Server,
    queried_key,
    quoted,
    shown_key,
)
from tidegate.server.position import from_text, to_text
from tidegate.server.record_pages import page_before
from tidegate.server.serving import Serving
from tidegate.server.tokens import Scope
from tidegate.text.render import ValueKind
from tidegate.types import TopicPartition

router = APIRouter(tags=["gates"])
_audit = msgspec.json.Decoder(Audit)


@router.get("/summary/audit")
@needs(Scope.READ)
def show_audit(
    request: Request,
    server: Server,
    app: App = None,
    gate: Annotated[str | None, Query(description="Only this gate.")] = None,
    key: OnlyKey = None,
    text: Annotated[
        str | None, Query(max_length=1000, description="Only those whose actor, reason or cause contains it.")
    ] = None,
    status: Annotated[
        Literal["paused", "active"] | None, Query(description="Only those that paused, or that resumed.")
    ] = None,
    before: Annotated[str | None, Query(description="`previous` of a response: what was before it.")] = None,
    limit: Limit = 100,
    key_type: KeyType = None,
) -> JsonResponse:
    """What gates applied: who paused or resumed what, when and why. The newest are last. `scanned` is how
    many records were looked at, `oldest` the time of the oldest of them: with filters a page may be short or
    empty, and there are more while `previous` is not null."""
    gates = _gates(server, app, gate)
    infos = [info for topic in gates if (info := find_topic(server.log, topic)) is not None]
    starts = {one: info.starts[one.partition] for info in infos for one in partitions_of(info)}
    if not starts:
        return JsonResponse({"records": [], "previous": None, "scanned": 0, "oldest": None})
    ends = {one: int(end) for one, end in server.log.ends(starts).items()}
    if before is not None:
        given = from_text(before)
        if not given.keys() <= starts.keys():
            raise RequestError("bad-position", "this position belongs to another request", "leave it out")
        ends |= {one: min(max(int(at), starts[one]), ends[one]) for one, at in given.items()}
    own = queried_key(request, "key", key, key_type)
    page = page_before(server.log, starts, ends, limit, own, _filter(text, status))
    return JsonResponse(
        {
            "records": list(_shown(page.records, gates, key_type)),
            "previous": None if page.previous is None else to_text(page.previous),
            "scanned": page.scanned,
            "oldest": page.oldest,
        }
    )


def _filter(text: str | None, status: str | None) -> Callable[[ReadRow], bool] | None:
    """Return which records are shown; None for all."""
    if not text and status is None:
        return None
    wanted = (text or "").casefold()

    def fits(row: ReadRow) -> bool:
        try:
            found = _audit.decode(row.value or b"")
        except msgspec.DecodeError:
            return False
        if status is not None and found.state.lower() != status:
            return False
        return wanted in f"{found.actor} {found.reason} {found.cause}".casefold()

    return fits


def _gates(server: Serving, app: str | None, gate: str | None) -> dict[str, tuple[str, str]]:
    """The app and the gate of each audit topic."""
    manifests = server.apps.of(app) if gate is None else [server.apps.gate(gate, app)]
    return {
        entry.audit: (manifest.app, name)
        for manifest in manifests
        for name, entry in manifest.gates.items()
        if gate in (None, name)
    }


def _shown(
    records: list[LocatedRow], gates: dict[str, tuple[str, str]], kind: ValueKind | None
) -> Iterator[dict[str, Any]]:
    """Audit records for JSON. Those of another version or another program are left out."""
    for partition, row in records:
        with suppress(msgspec.DecodeError):
            found = _audit.decode(row.value or b"")
            app, gate = gates[partition.topic]
            own = None if found.gate_wide else row.key
            yield {
                "id": _id(partition, row.offset),
                "app": app,
                "gate": gate,
                "key": None if own is None else shown_key(own, kind),
                "path": None if own is None else f"/gates/{gate}/keys/{quoted(own)}",
                "state": found.state,
                "epoch": found.epoch,
                "at": found.at,
                "cause": found.cause,
                "actor": found.actor,
                "reason": found.reason,
                "expires_at": found.expires_at,
                "gate_wide": found.gate_wide,
                "held": found.held,
            }


def _id(partition: TopicPartition, offset: int) -> str:
    return f"{partition.topic}/{partition.partition}/{offset}"
