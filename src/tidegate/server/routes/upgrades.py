"""Upgrades over HTTP: how far they are, the rows that they would publish, consent, and cancelling.

Consent is an entry of the control topic: the process that runs the upgrade reads it within a second. Nothing
is decided here.
"""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Query, Request

from tidegate.errors import ConfigError, UpgradeError
from tidegate.log import names
from tidegate.log.protocol import Log
from tidegate.runtime.topics.control import ROLE, read_control, write_control
from tidegate.runtime.topics.decisions import DecidedBy, check_texts, decision_entry, decisions_of
from tidegate.runtime.topics.manifests import manifest_of, visible_control
from tidegate.runtime.topics.upgrades import CONSENT, ConsentEntry, consent_of, shown_upgrade, upgrade_of
from tidegate.server.bodies import parsed, read_body
from tidegate.server.guard import CALLER, Caller, needs
from tidegate.server.json_response import JsonResponse
from tidegate.server.parameters import After, App, AppName, Limit, Server, SinkName
from tidegate.server.serving import Serving
from tidegate.server.tokens import Scope
from tidegate.server.upgrade_row_view import cursor_of, place_of, row_view
from tidegate.server.upgrade_rows import RowsQuery
from tidegate.topology.manifest import Manifest
from tidegate.upgrade.abandon import OPEN, cancel
from tidegate.upgrade.consent import Consent
from tidegate.upgrade.differing_rows import RowKind, has_rows
from tidegate.upgrade.listing import generations

router = APIRouter(tags=["upgrades"])


class Consents(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a consent."""

    yes: bool = False
    """Everything that removes no rows."""
    allow_removals: list[str] = []
    """Table topics whose rows may be removed."""
    reason: str = ""
    actor: str = ""


class Cancels(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a cancellation."""

    reason: str = ""
    actor: str = ""


_INSPECTED = msgspec.json.Decoder(Consents), msgspec.json.Decoder(Cancels)
"""Makes msgspec inspect both now, and not in two threads at once."""


@router.get("/upgrades")
@needs(Scope.READ)
def show_upgrades(server: Server, app: App = None) -> JsonResponse:
    """The generations of each app; the state of its newest upgrade, what it would publish and what it waits
    for, and its progress; and who consented to upgrades or cancelled them."""
    return JsonResponse({"apps": [_shown(server, manifest) for manifest in server.apps.of(app)]})


@router.get("/upgrades/{app}/rows/{sink}")
@needs(Scope.READ)
def show_differing_rows(
    server: Server,
    app: AppName,
    sink: SinkName,
    kind: Annotated[RowKind | None, Query(description="Only rows that differ in this way.")] = None,
    after: After = None,
    limit: Limit = 100,
    preview: Annotated[int, Query(ge=0, le=1 << 20, description="Cut values to so many bytes.")] = 1_000,
) -> JsonResponse:
    """The rows of a table topic or model that an upgrade would publish: as they are and as they would be, by
    partition and key. They are there from when it has compared until it has published."""
    [manifest] = server.apps.of(app)
    control = visible_control(server.log, manifest.app)
    entry = upgrade_of(control)
    if entry is None or not has_rows(entry):
        raise UpgradeError(
            "no-upgrade",
            f"no upgrade of app {manifest.app!r} has rows that differ and are not published",
            "see: tidegate generations. To compare changed code with the app: tidegate plan --preview",
        )
    published = next((one for one in entry.publishes if one.name == sink), None)
    if published is None:
        known = ", ".join(one.name for one in entry.publishes)
        raise ConfigError(
            "no-such-table",
            f"the upgrade of app {manifest.app!r} does not write {sink!r}",
            f"there is: {known}",
        )
    query = RowsQuery(manifest.app, entry.generation, published, kind, preview)
    page = server.upgrade_rows.page(query, place_of(after), limit)
    view = row_view(published, manifest, manifest_of(control, entry.generation) or manifest)
    return JsonResponse(
        {
            "app": manifest.app,
            "generation": entry.generation,
            "state": entry.state,
            "sink": sink,
            "rows": [view.row(row) for row in page.rows],
            "next": cursor_of(page.rows[-1].place) if page.more and page.rows else None,
        }
    )


@router.post("/upgrades/{app}/consent")
@needs(Scope.UPGRADE)
def consent(
    request: Request, server: Server, app: AppName, body: Annotated[bytes, Depends(read_body)]
) -> JsonResponse:
    """Allow what an upgrade waits for. Allowances add up."""
    [manifest] = server.apps.of(app)
    asked = parsed(request, body, Consents)
    by = _by(request, asked.actor, asked.reason)
    written = write_consent(
        server.log,
        manifest.app,
        Consent(yes=asked.yes, removals=frozenset(asked.allow_removals), by=by),
        server.clock.now(),
    )
    return JsonResponse({"app": manifest.app, "consent": written})


@router.post("/upgrades/{app}/cancel")
@needs(Scope.UPGRADE)
def cancel_upgrade(
    request: Request, server: Server, app: AppName, body: Annotated[bytes, Depends(read_body)]
) -> JsonResponse:
    """Give up an upgrade that is not decided: the old version stays in force. A process that still runs the
    upgrade ends with `upgrade-cancelled`. Start the old version again."""
    [manifest] = server.apps.of(app)
    asked = parsed(request, body, Cancels)
    by = _by(request, asked.actor, asked.reason)
    ended = cancel(server.log, manifest.app, None, server.clock, by)
    return JsonResponse({"app": manifest.app, "generation": ended.generation, "state": ended.state})


def _by(request: Request, actor: str, reason: str) -> DecidedBy:
    """Return who decides: always with the name of the token, as for commands of gates."""
    caller: Caller = request.scope["state"][CALLER]
    if caller.name and actor:
        actor = f"{actor} (by {caller.name})"
    return check_texts(DecidedBy(actor or caller.name, reason, "http"))


def write_consent(log: Log, app: str, allowed: Consent, now: int) -> ConsentEntry:
    """Add to what is allowed for the upgrade that is under way, and record who allowed it. Raises
    UpgradeError `no-upgrade`."""
    with closing(log.writer(f"{names.driver_id(app, ROLE)}.consent")) as writer:
        control = read_control(log, app)
        entry = upgrade_of(control)
        if entry is None or entry.state not in OPEN:
            raise UpgradeError(
                "no-upgrade", f"no upgrade of app {app!r} waits for consent", "see: tidegate generations"
            )
        before = consent_of(control)
        merged = ConsentEntry(
            generation=entry.generation,
            yes=allowed.yes or (before is not None and before.yes),
            removals=sorted({*allowed.removals, *(before.removals if before is not None else ())}),
            by=allowed.by.actor,
        )
        decision = allowed.decision(entry.generation, entry.questions, now)
        write_control(writer, app, {CONSENT: merged, **decision_entry(control, decision)}, now)
        writer.commit()
    return merged


def _shown(server: Serving, manifest: Manifest) -> dict[str, object]:
    control = visible_control(server.log, manifest.app)
    entry = upgrade_of(control)
    report = server.reports.of(manifest)
    return {
        "app": manifest.app,
        "generation": manifest.generation,
        "upgrade": None if entry is None else shown_upgrade(entry),
        "consent": consent_of(control),
        "decisions": decisions_of(control),
        "progress": report.recalculating,
        "generations": generations(server.log, manifest.app),
    }
