"""`tidegate upgrade` and `tidegate rollback`: recalculate a changed app, publish what differs, and switch.
The app is not started."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Annotated, Any

import typer

from tidegate.app import App
from tidegate.cli.apps import Name, loaded
from tidegate.cli.generations import counted
from tidegate.cli.on_spark import on_spark
from tidegate.cli.options import AsJson, LogUrl, user_name
from tidegate.cli.output import print_error, print_json, print_line
from tidegate.clock import SystemClock
from tidegate.config.config import Config, load_config
from tidegate.errors import UpgradeError
from tidegate.log.location import LogLocation
from tidegate.log.open import open_log
from tidegate.runtime.topics.decisions import DecidedBy, check_texts
from tidegate.runtime.topics.upgrades import UpgradeEntry
from tidegate.serde.registry_settings import use_registry
from tidegate.upgrade.abandon import cancel as cancel_upgrade
from tidegate.upgrade.consent import Consent, not_allowed
from tidegate.upgrade.leftovers import state_folder
from tidegate.upgrade.make_plan import make_plan
from tidegate.upgrade.plan import UpgradePlan

WAITS = 3
"""The exit code if something has to be decided."""
Yes = Annotated[
    bool, typer.Option("--yes", help="Consent to everything that has to be decided, except removed rows.")
]
Removals = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-removals",
        metavar="TOPIC",
        help="Consent to removed rows of this table topic.",
    ),
]
Cancel = Annotated[bool, typer.Option("--cancel", help="Give up the upgrade that is under way.")]
Reason = Annotated[str, typer.Option("--reason", help="Why; kept in the list of decisions.")]
Actor = Annotated[str | None, typer.Option("--actor", help="Who decides; default: you.", show_default=False)]


def upgrade(
    name: Name = None,
    yes: Yes = False,
    allow_removals: Removals = None,
    cancel: Cancel = False,
    reason: Reason = "",
    actor: Actor = None,
    log: LogUrl = None,
    json: AsJson = False,
) -> None:
    """Upgrade an app whose code changed: recalculate it, switch to its new generation, and publish the rows
    that differ. A run of the old version is drained and stopped; the new version is not started.

    Exit code 3: something has to be decided first. Exit code 4: someone cancelled the upgrade.
    """
    config = load_config({"app": name, "log": log})
    app, by = loaded(config), _by(actor, reason)
    if cancel:
        with closing(open_log(LogLocation.of(config), create=False)) as opened:
            folder = state_folder(config.folder, config.state_dir)
            ended = cancel_upgrade(opened, app.id, folder, SystemClock(), by)
        _print(app, ended, json=json)
        return
    consent = Consent.of(config.upgrade, yes=yes, removals=allow_removals or (), by=by)
    with _decisions(json):
        _plan(app, config, consent)
        _print(app, _upgraded(app, config, consent), json=json)


def rollback(
    name: Name = None,
    yes: Yes = False,
    allow_removals: Removals = None,
    reason: Reason = "",
    actor: Actor = None,
    log: LogUrl = None,
    json: AsJson = False,
) -> None:
    """Go back to the code of a former generation of an app. Check that code out first: other code is refused.

    A rollback is an upgrade to former code, with the same options and exit codes.
    """
    config = load_config({"app": name, "log": log})
    app, by = loaded(config), _by(actor, reason)
    consent = Consent.of(config.upgrade, yes=yes, removals=allow_removals or (), former=True, by=by)
    with _decisions(json):
        found = _plan(app, config, consent)
        if not any(question.code == "former-generation" for question in found.questions):
            raise UpgradeError(
                "not-former",
                f"the code of app {app.id!r} is not that of a former generation",
                "check out the former code; to go on to changed code: tidegate upgrade",
            )
        _print(app, _upgraded(app, config, consent), json=json)


def _by(actor: str | None, reason: str) -> DecidedBy:
    return check_texts(DecidedBy(actor or user_name(), reason, "cli"))


@contextmanager
def _decisions(json: bool) -> Iterator[None]:
    """End with exit code 3 if something has to be decided."""
    try:
        yield
    except UpgradeError as error:
        if error.code != "upgrade-waits":
            raise
        print_error(error, json=json)
        raise typer.Exit(WAITS) from None


def _plan(app: App, config: Config, consent: Consent) -> UpgradePlan:
    """Find what has to be decided before Spark is started."""
    use_registry(config.registry)
    with closing(open_log(LogLocation.of(config), create=False)) as log:
        found = make_plan(log, app.build(), SystemClock())
    left = consent.open(found.questions)
    if found.before and left and not found.changes.nothing:
        raise not_allowed(app.id, left)
    return found


def _upgraded(app: App, config: Config, consent: Consent) -> UpgradeEntry | None:
    with on_spark(app, config) as (session, slots, line):
        from tidegate.spark.recalculating import upgrade_on_spark  # Spark may not be installed

        return upgrade_on_spark(
            app, session, name=config.app, config=config, slots=slots, consent=consent, report=line
        )


def _print(app: App, entry: UpgradeEntry | None, *, json: bool) -> None:
    if json:
        plain: dict[str, Any] = {"app": app.id, "upgrade": entry}
        print_json(plain)
    elif entry is None:
        print_line(f"{app.id}: nothing to do")
    else:
        print_line(f"{app.id}: generation {entry.before} -> {entry.generation}, {entry.state}")
        for line in counted(entry.differences if entry.state == "done" else {}):
            print_line(f"  {line}")
