"""An upgrade without slots on Spark: the tasks of the recalculation run in this process."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from tidegate.app import App
from tidegate.clock import Clock
from tidegate.log.protocol import Log
from tidegate.runtime.topics.unread import task_positions, unread
from tidegate.runtime.topics.upgrades import UpgradeEntry
from tidegate.state.manager import Limits
from tidegate.testing.laws import with_checked_reducers
from tidegate.topology.manifest import Manifest
from tidegate.upgrade.consent import Consent
from tidegate.upgrade.old_run import undrained
from tidegate.upgrade.plan import UpgradePlan
from tidegate.upgrade.runners import InProcess, OpenStages, no_session
from tidegate.upgrade.upgrades import Stopped, UpgradeResources, upgrade


def upgrade_here(
    app: App,
    log: Log,
    clock: Clock,
    state_dir: Path,
    consent: Consent,
    *,
    partitions: int,
    on_error: str,
    batches: bool,
    open_stages: OpenStages = no_session,
) -> UpgradeEntry | None:
    """Upgrade an app whose old version has stopped."""
    runner = InProcess(state_dir, limits=Limits(sync=False), open_stages=open_stages)
    return upgrade(
        UpgradeResources(
            with_checked_reducers(app.build()),
            log,
            clock,
            lambda _: runner,
            state_dir,
            partitions=partitions,
            on_error=on_error,
            batches=batches,
            consent=consent,
            stop_old=partial(_left_behind, log),
        )
    )


def _left_behind(log: Log, known: Manifest, plan: UpgradePlan) -> Stopped:
    """Return what must be decided because the old version, which has stopped, was not drained."""
    left = unread(log, known, task_positions(log, known), known.internal.values())
    changed = {one.id for one in plan.components if one.action != "keep"}
    return Stopped(list(undrained(log, known, changed, left)))
