"""Previews and upgrades on Spark: their tasks and DataFrame stages run in a session, as those of the app
itself do."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from tidegate.clock import Clock, SystemClock
from tidegate.config.config import Config, load_config
from tidegate.errors import ConfigError
from tidegate.log import names
from tidegate.log.location import LogLocation
from tidegate.log.open import open_log
from tidegate.log.protocol import Log
from tidegate.log.reopening import ReopeningLog
from tidegate.runtime.driver.check_registry import check_registry
from tidegate.runtime.driver.coordinator import Patience
from tidegate.runtime.driver.takeover import Claim
from tidegate.runtime.slot.host import machine_name
from tidegate.runtime.topics.slot_order import SlotOrder
from tidegate.runtime.topics.upgrades import UpgradeEntry
from tidegate.serde.registry_settings import resolved_registry, use_registry
from tidegate.spark.launcher import SparkLauncher
from tidegate.spark.runnable import RunnableApp, name_of
from tidegate.spark.session import check_session
from tidegate.spark.ship import fingerprint, ship
from tidegate.spark.stages import check_stages
from tidegate.topology.code import Code
from tidegate.topology.graph import Topology
from tidegate.upgrade.consent import Consent
from tidegate.upgrade.leftovers import state_folder
from tidegate.upgrade.old_run import stop_old
from tidegate.upgrade.previews import Preview, run_preview
from tidegate.upgrade.recalculate import Report, no_report
from tidegate.upgrade.runners import COMMIT_INTERVAL_MS, OnSlots
from tidegate.upgrade.upgrades import UpgradeResources, Wait, give_up, upgrade


def preview_on_spark(
    app: RunnableApp,
    session: SparkSession,
    *,
    name: str | None = None,
    config: Config | None = None,
    slots: int | None = None,
    patience: Patience | None = None,
    report: Report = no_report,
) -> Preview:
    """Preview an app on a session. Executors import the app by its name."""
    with _on_slots(app, session, names.preview(app.id), name, config, slots, patience) as found:
        return run_preview(
            found.topology,
            found.log,
            found.clock,
            lambda _: found.runner,
            found.state_dir,
            partitions=found.config.partitions,
            report=report,
        )


def upgrade_on_spark(
    app: RunnableApp,
    session: SparkSession,
    *,
    name: str | None = None,
    config: Config | None = None,
    slots: int | None = None,
    patience: Patience | None = None,
    consent: Consent | None = None,
    wait: Wait = give_up,
    report: Report = no_report,
) -> UpgradeEntry | None:
    """Upgrade an app on a session, after a run of the old version has stopped. Executors import the app by
    its name. Returns the upgrade; None if nothing changed, or if the app never ran."""
    with _on_slots(app, session, names.upgrade(app.id), name, config, slots, patience) as found:
        return upgrade(
            UpgradeResources(
                found.topology,
                found.log,
                found.clock,
                lambda _: found.runner,
                found.state_dir,
                partitions=found.config.partitions,
                consent=consent or Consent.of(found.config.upgrade),
                stop_old=stop_old(found.log, found.clock),
                wait=wait,
                report=report,
            )
        )


@dataclass(frozen=True, slots=True)
class _OnSlots:
    """What a recalculation on Spark uses."""

    topology: Topology
    log: Log
    clock: Clock
    runner: OnSlots
    state_dir: Path
    config: Config


@contextmanager
def _on_slots(
    app: RunnableApp,
    session: SparkSession,
    id: str,
    name: str | None,
    config: Config | None,
    slots: int | None,
    patience: Patience | None,
) -> Iterator[_OnSlots]:
    """Open the log, and ship the app to the executors. `id` is that of the throw-away app."""
    check_session(session)
    used, imported = config or load_config(), name or name_of(app)
    location, clock = LogLocation.of(used), SystemClock()
    if location.in_memory:
        raise ConfigError(
            "log-in-memory", "a log in memory is visible to this process only", "use sqlite:///log.db"
        )
    registry = resolved_registry(used.registry)
    use_registry(registry)
    topology = app.build()
    check_stages(topology)
    check_registry(topology)
    shipped, roots = fingerprint(imported), Code(topology.module).roots()

    def order(claim: Claim, slot: int, attempt: int) -> SlotOrder:
        return SlotOrder(
            app=imported,
            app_id=claim.app,
            settings=used.settings,
            registry=registry,
            fingerprint=shipped,
            log=location,
            folder=str(used.folder),
            state_dir=used.state_dir,
            epoch=claim.epoch,
            slot=slot,
            attempt=attempt,
            writer=claim.writer_id(slot),
            commit_interval_ms=COMMIT_INTERVAL_MS,
            paths=[path for path in sys.path if path],
            roots=roots,
        )

    with ExitStack() as stack:
        log = ReopeningLog(lambda: open_log(location, clock=clock, create=False))
        stack.callback(log.close)
        ship(imported, session.sparkContext)
        launcher = SparkLauncher(session, id, log, location, stages=False)  # none runs while slots do
        machine = machine_name() if location.on_one_machine else None
        runner = OnSlots(launcher, order, clock, patience or Patience(), slots, machine)
        yield _OnSlots(topology, log, clock, runner, state_folder(used.folder, used.state_dir), used)
