"""`tidegate reset`: start an app over."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from tidegate.cli.apps import loaded, unknown_app
from tidegate.cli.options import AsJson, LogUrl, opened
from tidegate.cli.output import print_json, print_line
from tidegate.clock import SystemClock
from tidegate.config.config import load_config
from tidegate.errors import ConfigError
from tidegate.log.protocol import Log
from tidegate.runtime.driver.reset import (
    Reset,
    carry_out,
    end_run,
    find_holder,
    held_error,
    last_epoch,
    planned_reset,
)
from tidegate.runtime.topics.manifests import find_manifest
from tidegate.topology.belongings import Belongings, of_manifest, of_topology

WAIT_SECONDS = 30.0


def reset(
    app: Annotated[
        str,
        typer.Argument(
            metavar="APP",
            help="The app's id, or MODULE:NAME: finds what is left also where the control topic is lost.",
        ),
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be deleted.")] = False,
    force: Annotated[bool, typer.Option("--force", help="First stop and fence a running app.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    log: LogUrl = None,
    json: AsJson = False,
) -> None:
    """Delete everything that belongs to an app, in the log and on this host, so that its next run reads its
    sources from the start.

    Source topics and outputs stay, and so do admitted events in a topic that was named for it; held events
    are read again from the sources. Refused while the app runs.
    """
    with opened(log) as (found, config):
        mine = _belongings(found, app)
        clock = SystemClock()
        plan = planned_reset(found, mine)
        folder = Path(config.folder) / config.state_dir / mine.app
        if not json:
            _show(plan, folder)
        if not dry_run:
            expected_epoch = None if force else last_epoch(found, mine.app)
            run = find_holder(found, mine.app, clock)
            if run is not None and not force:
                raise held_error(mine.app, run)
            _confirm(mine.app, yes=yes, json=json)
            if run is not None:
                end_run(found, mine.app, f"reset-{os.getpid()}", clock, WAIT_SECONDS)
            carry_out(found, plan, clock, expected_epoch)
            shutil.rmtree(folder, ignore_errors=True)
    if json:
        shown = {"topics": plan.topics, "shared": plan.shared, "folder": str(folder)}
        print_json({"app": mine.app, "dry_run": dry_run, **shown})
    elif not dry_run:
        print_line(f"{mine.app}: deleted")


def _belongings(log: Log, app: str) -> Belongings:
    """What belongs to the app, by its manifest, or by its code if it has none."""
    topology = loaded(load_config({"app": app})).build() if ":" in app else None
    manifest = find_manifest(log, app if topology is None else topology.app)
    if manifest is not None:
        return of_manifest(manifest)
    if topology is None:
        raise unknown_app(app)
    return of_topology(topology)


def _show(plan: Reset, folder: Path) -> None:
    print_line(f"{plan.app}: what a reset deletes")
    for topic in plan.topics:
        print_line(f"  topic   {topic}")
    print_line(f"  folder  {folder}")
    for topic, other in plan.shared.items():
        print_line(f"  stays   {topic}  (app {other} owns it too)")


def _confirm(app: str, *, yes: bool, json: bool) -> None:
    if yes:
        return
    if json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigError("not-confirmed", f"deleting app {app!r} was not confirmed", "run it with --yes")
    if not typer.confirm("Delete it?"):
        raise ConfigError("not-confirmed", f"app {app!r} is unchanged", "answer y to delete it")
