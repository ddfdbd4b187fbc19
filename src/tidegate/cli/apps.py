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
from tidegate.cli.output import print_json, print_line, print_table
from tidegate.clock import SystemClock
from tidegate.config.config import Config, load_config
from tidegate.errors import ConfigError
from tidegate.load import load_app
from tidegate.runtime.driver.takeover import request_stop
from tidegate.runtime.topics.control import ROLE, read_control
from tidegate.runtime.topics.lag import lag_of
from tidegate.runtime.topics.manifests import find_manifest
from tidegate.runtime.topics.status import Ended, StatusFollower
from tidegate.topology.describe import as_dict, as_mermaid, as_text

Name = Annotated[
    str | None, typer.Argument(metavar="[MODULE:NAME]", help="The app; default: `app` of tidegate.toml.")
]
AppId = Annotated[str, typer.Argument(metavar="APP", help="The app's id.")]


def stop(
    app: AppId,
    wait: Annotated[float, seconds("--wait", "How long to wait for its slots to end; default 10.")] = 10.0,
    log: LogUrl = None,
    json: AsJson = False,
) -> None:
    """Stop an app: it commits, closes and ends."""
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


def describe(
    name: Name = None,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="As a Mermaid picture.")] = False,
    json: AsJson = False,
) -> None:
    """Print the topology of an app."""
    topology = loaded(load_config({"app": name})).build()
    if json:
        print_json(as_dict(topology))
    else:
        typer.echo(as_mermaid(topology) if mermaid else as_text(topology))


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
