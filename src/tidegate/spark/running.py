"""`app.start(spark)` and `tidegate run`: an app on a session, until it is stopped."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from tidegate.clock import Clock, SystemClock
from tidegate.config.config import Config, load_config
from tidegate.errors import ConfigError, TidegateError, UpgradeError
from tidegate.log.location import LogLocation
from tidegate.log.open import open_log
from tidegate.log.protocol import Log
from tidegate.log.reopening import ReopeningLog
from tidegate.runtime.driver.caught_up import CaughtUp
from tidegate.runtime.driver.check_registry import check_registry
from tidegate.runtime.driver.coordinator import (
    Coordinator,
    DriverResources,
    DriverState,
    Patience,
    SlotOverview,
)
from tidegate.runtime.driver.partition_watch import DRIVER
from tidegate.runtime.driver.prepare import prepare
from tidegate.runtime.driver.run import Run
from tidegate.runtime.driver.takeover import Claim
from tidegate.runtime.slot.host import machine_name
from tidegate.runtime.topics.slot_order import SlotOrder
from tidegate.runtime.topics.status import Warned, publish_status
from tidegate.serde.registry_settings import resolved_registry, use_registry
from tidegate.sinks.settings import SinkSettings, sink_settings
from tidegate.spark.launcher import SparkLauncher
from tidegate.spark.recalculating import upgrade_on_spark
from tidegate.spark.runnable import RunnableApp, name_of
from tidegate.spark.session import check_session
from tidegate.spark.ship import fingerprint, ship
from tidegate.spark.stages import check_stages
from tidegate.topology.code import Code
from tidegate.topology.graph import Topology
from tidegate.upgrade.consent import Consent
from tidegate.upgrade.publication import complete
from tidegate.upgrade.recalculate import Report, no_report
from tidegate.upgrade.upgrades import Wait, give_up

if TYPE_CHECKING:
    from tidegate.sinks.threads import SinkThread

logger = logging.getLogger("tidegate")


@dataclass(frozen=True, slots=True)
class Upgrading:
    """What is allowed in an upgrade at a start, who waits for consent, and where its progress goes."""

    consent: Consent | None = None
    """By default what the settings allow."""
    wait: Wait = give_up
    report: Report = no_report


class Running:
    """A running app. `stop()` commits and closes everything; `wait()` returns when that is done.

    The constructor raises if the app cannot start; nothing is written then."""

    def __init__(
        self,
        app: RunnableApp,
        name: str,
        session: SparkSession,
        config: Config,
        *,
        slots: int | None = None,
        until_caught_up: bool = False,
        patience: Patience | None = None,
        sinks: Sequence[str] = (),
        upgrading: Upgrading | None = None,
    ) -> None:
        """`sinks` are names of sections [sinks.NAME], which threads of this process fill. `upgrading` is what
        an upgrade of the app uses, if it changed."""
        check_session(session)
        self._name = name
        self._config = config
        given = {name: sink_settings(config, name) for name in sinks}
        self._registry = resolved_registry(config.registry)
        use_registry(self._registry)
        self._stack = ExitStack()
        self._error: BaseException | None = None
        with self._stack:
            clock = SystemClock()
            location = LogLocation.of(config)
            if location.in_memory:
                raise ConfigError(
                    "log-in-memory", "a log in memory is visible to this process only", "use sqlite:///log.db"
                )
            topology = app.build()
            check_stages(topology)
            check_registry(topology)
            log = ReopeningLog(lambda: open_log(location, clock=clock))
            self._stack.callback(log.close)
            run = self._prepared(app, topology, session, log, clock, upgrading)
            threads = self._sinks(given, topology, log, clock, catch_up=until_caught_up) if given else []
            self._fingerprint = fingerprint(name)
            self._roots = Code(topology.module).roots()
            ship(name, session.sparkContext)
            caught_up = CaughtUp(run, log) if until_caught_up else None
            self._pinned = caught_up.as_plain() if caught_up is not None else None
            launcher = SparkLauncher(session, app.id, log, location, stages=bool(run.stages()))
            self._coordinator = Coordinator(
                DriverResources(run, log, launcher, self._order, clock, patience or Patience()),
                slots,
                until_caught_up=caught_up,
                machine=machine_name() if location.on_one_machine else None,
            )
            for thread in threads:
                thread.start()
            self._open_resources = self._stack.pop_all()
        self._thread = threading.Thread(target=self._run_coordinator, name=f"tidegate-{app.id}", daemon=True)
        self._thread.start()

    def _prepared(
        self,
        app: RunnableApp,
        topology: Topology,
        session: SparkSession,
        log: Log,
        clock: Clock,
        upgrading: Upgrading | None,
    ) -> Run:
        """Prepare the app, after an upgrade if it changed and settings allow it."""
        start = partial(prepare, partitions=self._config.partitions, create_sources=False)
        complete(log, app.id, clock)
        try:
            return start(topology, log, clock)
        except UpgradeError as error:
            if error.code != "changed-app" or self._config.upgrade.mode != "auto":
                raise
        used = upgrading or Upgrading()
        upgrade_on_spark(
            app,
            session,
            name=self._name,
            config=self._config,
            consent=used.consent or Consent.of(self._config.upgrade),
            wait=used.wait,
            report=used.report,
        )
        return start(topology, log, clock)

    @property
    def state(self) -> DriverState:
        return self._coordinator.state

    @property
    def view(self) -> SlotOverview:
        """The overview of the slots: where they run, their numbers, their failures."""
        return self._coordinator.overview

    def stop(self) -> None:
        """Request the app to finish, commit and close. Returns at once."""
        self._coordinator.stop()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait at most this long. Returns whether the app has ended; raises the error that ended it."""
        self._thread.join(seconds)
        if self._thread.is_alive():
            return False
        if self._error is not None:
            raise self._error
        return True

    await_termination = wait

    def _run_coordinator(self) -> None:
        try:
            self._coordinator.run()
        except BaseException as error:  # noqa: BLE001 - raised again by wait
            self._error = error
        finally:
            self._open_resources.close()

    def _sinks(
        self, given: Mapping[str, SinkSettings], topology: Topology, log: Log, clock: Clock, *, catch_up: bool
    ) -> list[SinkThread]:
        """Create the threads of the sinks. They are started behind the coordinator, to which they report."""
        try:
            from tidegate.sinks.threads import SinkThread, sink_maker
        except ImportError as error:
            message = f"SQLAlchemy is not installed: {error}"
            raise ConfigError("no-database-client", message, "pip install tidegate[postgres]") from None

        def report(error: TidegateError) -> bool:
            """Publish it for the overview of this run, and for servers that follow it."""
            epoch = self._coordinator.epoch
            if epoch:  # 0: the overview does not follow the status topic yet
                logger.warning("%s", error)
                warned = Warned(epoch, DRIVER, 0, error.code, error.message, error.hint)
                publish_status(log, topology.app, warned, clock.now())
            return bool(epoch)

        threads = []
        for name, settings in given.items():
            make = sink_maker(log, settings, self._config.folder, topology, clock)
            threads.append(SinkThread(name, make, report))
            self._stack.callback(threads[-1].close, catch_up=catch_up)
        return threads

    def _order(self, claim: Claim, slot: int, attempt: int) -> SlotOrder:
        config = self._config
        return SlotOrder(
            app=self._name,
            app_id=claim.app,
            settings=config.settings,
            registry=self._registry,
            fingerprint=self._fingerprint,
            log=LogLocation.of(config),
            folder=str(config.folder),
            state_dir=config.state_dir,
            state_budget_bytes=config.state_budget_bytes,
            generation=claim.generation,
            epoch=claim.epoch,
            slot=slot,
            attempt=attempt,
            writer=claim.writer_id(slot),
            commit_interval_ms=config.commit_interval_ms,
            origin_headers=config.origin_headers,
            pinned=self._pinned,
            paths=[path for path in sys.path if path],
            roots=self._roots,
        )


def start(app: RunnableApp, session: Any, *, name: str | None = None, **options: Any) -> Running:
    """Run an app on the user's session."""
    config = options.pop("config", None) or load_config()
    return Running(app, name or name_of(app), session, config, **options)
