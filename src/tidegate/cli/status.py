"""`tidegate status`: the status of the apps on a log. Needs no Spark and loads no code of an app."""

from __future__ import annotations

import sys
import time
from contextlib import closing
from typing import Annotated

import typer
from rich.console import Group
from rich.live import Live

from tidegate.cli.apps import unknown_app
from tidegate.cli.options import AsJson, LogUrl, opened
from tidegate.cli.output import print_json, print_line, stdout_console
from tidegate.cli.status_screen import as_group
from tidegate.clock import SystemClock
from tidegate.errors import TidegateError
from tidegate.log.protocol import Log
from tidegate.runtime.topics.manifests import manifests, visible_manifest
from tidegate.server.app_follower import AppFollowers
from tidegate.server.app_report import AppReport, AppReports
from tidegate.topology.manifest import Manifest

REFRESH_SECONDS = 1.0
LISTEN_SECONDS = 2.5
"""How long to wait for slots that look silent: the clock of their host may differ, and slots publish each
second."""
UNSURE = ("silent", "partial", "restarting")


def status(
    app: Annotated[
        str | None, typer.Argument(metavar="[APP]", help="The app's id; default: all apps on the log.")
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Print it once, also on a terminal.", show_default=False)
    ] = False,
    log: LogUrl = None,
    json: AsJson = False,
) -> None:
    """Show the status of an app: live on a terminal until Ctrl-C, else once."""
    with opened(log) as (found, _), closing(AppFollowers(found, SystemClock())) as followers:
        reports = AppReports(found, followers)
        if json:
            settled = _settled(found, reports, app)
            print_json(settled[0] if app is not None else {"apps": settled})
        elif once or not sys.stdout.isatty():
            shown = as_group(_settled(found, reports, app), SystemClock().now(), one=app is not None)
            _print(shown)
        else:
            _follow(found, reports, app)


def _print(shown: Group) -> None:
    """Print the status once; into a pipe without the padding of cells."""
    console = stdout_console()
    if console.is_terminal:
        console.print(shown)
        return
    with console.capture() as captured:
        console.print(shown)
    for line in captured.get().splitlines():
        print_line(line.rstrip())


def _follow(log: Log, reports: AppReports, app: str | None) -> None:
    """Show the status until Ctrl-C, also while the log does not respond."""
    known = _known(log, app)
    with Live(console=stdout_console(), auto_refresh=False) as live:
        while True:
            now = time.monotonic()
            try:
                known = _known(log, app) if app is None else known
                shown = [reports.of(manifest) for manifest in known]
                live.update(as_group(shown, SystemClock().now(), one=app is not None), refresh=True)
            except TidegateError as error:
                if not error.retryable:
                    raise
                live.update(str(error), refresh=True)
            time.sleep(max(0.0, now + REFRESH_SECONDS - time.monotonic()))


def _settled(log: Log, reports: AppReports, app: str | None) -> list[AppReport]:
    """The reports, once it is clear which slots are at work."""
    deadline = time.monotonic() + LISTEN_SECONDS
    known = _known(log, app)
    while True:
        found = [reports.of(manifest) for manifest in known]
        if not any(_unsure(one) for one in found) or time.monotonic() > deadline:
            return found
        time.sleep(0.25)


def _unsure(one: AppReport) -> bool:
    """Whether slots that look silent may still be at work."""
    return one.state in UNSURE and one.last_heard is not None


def _known(log: Log, app: str | None) -> list[Manifest]:
    if app is None:
        return list(manifests(log))
    manifest = visible_manifest(log, app)
    if manifest is None:
        raise unknown_app(app)
    return [manifest]
