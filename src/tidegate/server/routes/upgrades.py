"""Upgrades over HTTP: how far they are, consent, and cancelling.

Consent is an entry of the control topic: the process that runs the upgrade reads it within a second. Nothing
is decided here.
"""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Request

from tidegate.errors import UpgradeError
from tidegate.log import names
from tidegate.log.protocol import Log
from tidegate.runtime.topics.control import ROLE, read_control, write_control
from tidegate.runtime.topics.decisions import DecidedBy, check_texts, decision_entry, decisions_of
from tidegate.runtime.topics.manifests import visible_control
from tidegate.runtime.topics.upgrades import CONSENT, ConsentEntry, consent_of, shown_upgrade, upgrade_of
from tidegate.server.bodies import parsed, read_body
from tidegate.server.guard import CALLER, Caller, needs
from tidegate.server.json_response import JsonResponse
from tidegate.server.parameters import App, AppName, Server
from tidegate.server.serving import Serving
from tidegate.server.tokens import Scope
from tidegate.topology.manifest import Manifest
from tidegate.upgrade.abandon import OPEN, cancel
from tidegate.upgrade.consent import Consent
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
