"""A preview without slots on Spark: the tasks of the new code run in this process."""

from __future__ import annotations

from pathlib import Path

from tidegate.app import App
from tidegate.clock import Clock
from tidegate.log.protocol import Log
from tidegate.state.manager import Limits
from tidegate.upgrade.previews import Preview, run_preview
from tidegate.upgrade.runners import InProcess, OpenStages, no_session


def preview_here(
    app: App,
    log: Log,
    clock: Clock,
    state_dir: Path,
    partitions: int,
    on_error: str,
    open_stages: OpenStages = no_session,
) -> Preview:
    """Return what this version of an app would change."""
    runner = InProcess(state_dir, limits=Limits(sync=False), open_stages=open_stages)
    return run_preview(
        app.build(), log, clock, lambda _: runner, state_dir, partitions=partitions, on_error=on_error
    )
