"""`tidegate stop`, `describe` and `lag`."""

from __future__ import annotations

import os
import sys
import time
from contextlib import closing
from typing import Annotated

import typer

from tidegate.app import App
from tidegate.cli.durations import seconds
from tidegate.cli.options import AsJson, LogUrl, opened
from tidegate.cli.output import print_json, print_line, print_note, print_table
from tidegate.clock import SystemClock
from tidegate.config.config import Config, load_config
from tidegate.errors import ConfigError, LogError
from tidegate.load import load_app
from tidegate.log.location import LogLocation
from tidegate.log.open import open_log
from tidegate.runtime.driver.drain import drain_run, undrained_error
from tidegate.runtime.driver.reset import last_epoch
from tidegate.runtime.driver.takeover import request_stop
from tidegate.runtime.topics.control import ROLE, read_control
from tidegate.runtime.topics.lag import lag_of
from tidegate.runtime.topics.manifests import find_manifest, visible_control
from tidegate.runtime.topics.status import Ended, StatusFollower
from tidegate.runtime.topics.upgrades import UpgradeEntry, shown_upgrade, upgrade_lines, upgrade_of
from tidegate.text.render import printable
from tidegate.topology.describe import as_dict, as_mermaid, as_text

Name = Annotated[
    str | None, typer.Argument(metavar="[MODULE:NAME]", help="The app; default: `app` of tidegate.toml.")
]
STOP_SECONDS, DRAIN_SECONDS = 10.0, 60.0
AppId = Annotated[str, typer.Argument(metavar="APP", help="The app's id.")]


def stop(
    app: AppId,
    drain: Annotated[
        bool, typer.Option("--drain", help="First process everything in its internal topics.")
    ] = False,
    wait: Annotated[
        float | None, seconds("--wait", "How long to wait for its slots to end; default 10, with --drain 60.")
    ] = None,
    log: LogUrl = None,
    json: AsJson = False,
) -> None:
    """Stop an app: it commits, closes and ends."""
    if drain:
        _stop_drained(app, DRAIN_SECONDS if wait is None else wait, log, json=json)
    else:
        _stop(app, STOP_SECONDS if wait is None else wait, log, json=json)


def _stop(app: str, wait: float, log: str | None, *, json: bool) -> None:
    with opened(log) as (found, _):
        if find_manifest(found, app) is None:
            raise unknown_app(app)
        with closing(StatusFollower(found, app)) as follower:
            epoch = request_stop(found, app, f"cli-{os.getpid()}", SystemClock().now())
            planned = len(read_control(found, app).plan(ROLE).slots)
            ended: set[int] = set()
            deadline = time.monotonic() + wait
            while len(ended) < planned and time.monotonic() < deadline:
                reports = (one for one in follower.poll(0.1) if isinstance(one, Ended))
                ended |= {one.slot for one in reports if one.epoch == epoch}
    if json:
        print_json({"app": app, "epoch": epoch, "slots_ended": len(ended)})
    else:
        print_line(f"{app}: stop requested; {len(ended)} of {planned} slots ended")


def _stop_drained(app: str, wait: float, log: str | None, *, json: bool) -> None:
    with opened(log) as (found, _):
        manifest = find_manifest(found, app)
        if manifest is None:
            raise unknown_app(app)
        result = drain_run(found, manifest, f"cli-{os.getpid()}", SystemClock(), wait)
        epoch = last_epoch(found, app)
    if not result.drained:
        raise undrained_error(app, result)
    if json:
        print_json({"app": app, "epoch": epoch, "slots_ended": result.slots, "drained": True})
    else:
        print_line(f"{app}: drained; {result.slots} slots ended" if result.ran else f"{app}: is not running")


def describe(
    name: Name = None,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="As a Mermaid picture.")] = False,
    log: LogUrl = None,
    json: AsJson = False,
) -> None:
    """Print the topology of an app, and its upgrade if one is under way."""
    config = load_config({"app": name, "log": log})
    topology = loaded(config).build()
    entry = _upgrade_under_way(config, topology.app)
    if json:
        print_json({**as_dict(topology), "upgrade": None if entry is None else shown_upgrade(entry)})
        return
    typer.echo(as_mermaid(topology) if mermaid else as_text(topology))
    for line in [] if entry is None else upgrade_lines(entry):
        (print_note if mermaid else print_line)(printable(line))


def _upgrade_under_way(config: Config, app: str) -> UpgradeEntry | None:
    """Return the upgrade of the app that has not ended; None also if there is no log, or if it does not
    respond: the topology can be printed without it."""
    try:
        with closing(open_log(LogLocation.of(config), create=False)) as log:
            entry = upgrade_of(visible_control(log, app))
    except LogError as error:
        if error.code != "no-log":
            print_note(f"whether an upgrade is under way is unknown: {error}")
        return None
    return entry if entry is not None and entry.state not in ("done", "cancelled") else None


def lag(app: AppId, log: LogUrl = None, json: AsJson = False) -> None:
    """Print the lag of each stream task in records."""
    with opened(log) as (found, _):
        if find_manifest(found, app) is None:
            raise unknown_app(app)
        rows = lag_of(found, app)
    if json:
        print_json({"app": app, "lag": sum(row.lag for row in rows), "tasks": rows})
    else:
        cells = [(r.task, r.topic, f"{r.partition}", f"{r.position:,}", f"{r.lag:,}") for r in rows]
        print_table(cells, ("task", "topic", "partition", "position", "lag"))


def loaded(config: Config) -> App:
    """Load the app that is configured."""
    if config.app is None:
        raise ConfigError(
            "no-app", "no app is named", 'add MODULE:NAME, or write app = "..." in tidegate.toml'
        )
    sys.path.insert(0, str(config.folder))
    return load_app(config.app, config.settings)


def unknown_app(app: str) -> ConfigError:
    """The error for an app without a control topic on this log."""
    return ConfigError("never-started", f"app {app!r} never ran on this log", "check its id and --log")
