"""`tidegate plan`: what a start of this version of an app means. Changes nothing. Removes what a preview that
was killed left.

0    nothing to do
2    changes, and nothing has to be decided
3    something has to be decided
"""

from __future__ import annotations

from contextlib import closing

import msgspec
import typer

from tidegate.cli.apps import Name, loaded
from tidegate.cli.options import AsJson, LogUrl
from tidegate.cli.output import print_json, print_line, print_note
from tidegate.cli.plan_preview import (
    Parquet,
    Rows,
    WithPreview,
    as_plain,
    check_writable,
    previewed,
    print_preview,
    write_parquet,
)
from tidegate.clock import SystemClock
from tidegate.config.config import Config, load_config
from tidegate.errors import LogError
from tidegate.log.location import LogLocation
from tidegate.log.open import open_log
from tidegate.serde.registry_settings import use_registry
from tidegate.topology.graph import Topology
from tidegate.upgrade.leftovers import remove_killed_preview, state_folder
from tidegate.upgrade.make_plan import make_plan
from tidegate.upgrade.plan import UpgradePlan
from tidegate.upgrade.plan_text import plan_lines

COLOURS = {"+": "green", "-": "red", "~": "yellow", "?": "bold yellow", "!": "dim"}

HOW = "tidegate run carries this out by itself where nothing has to be decided; or: tidegate upgrade"


def plan(
    name: Name = None,
    preview: WithPreview = False,
    rows: Rows = 20,
    parquet: Parquet = None,
    log: LogUrl = None,
    json: AsJson = False,
) -> None:
    """Show what a start of an app as it is now means: what changed, what is recalculated and published, and
    what has to be decided first. Exit code 0: nothing to do, 2: changes, 3: something has to be decided."""
    config = load_config({"app": name, "log": log})
    check_writable(parquet)
    app = loaded(config)
    use_registry(config.registry)
    made = _made(config, app.build())
    if not json:
        for line in plan_lines(made):
            print_line((line, COLOURS.get(line.strip()[:1], "")))
    found = previewed(app, config) if preview or parquet is not None else None
    if json:
        shown = {} if found is None else {"preview": as_plain(found, rows)}
        print_json(msgspec.to_builtins(made) | shown)
    elif found is not None:
        print_preview(found, rows)
    if found is not None and parquet is not None:
        write_parquet(found, parquet)
    if made.before and made.before != made.after:
        print_note(HOW)
    if made.exit_code:
        raise typer.Exit(made.exit_code)


def _made(config: Config, topology: Topology) -> UpgradePlan:
    try:
        opened = open_log(LogLocation.of(config), create=False)
    except LogError as error:
        if error.code != "no-log":
            raise
        return make_plan(None, topology, SystemClock())
    with closing(opened) as found:
        remove_killed_preview(
            found, topology.app, state_folder(config.folder, config.state_dir), SystemClock()
        )
        return make_plan(found, topology, SystemClock())
