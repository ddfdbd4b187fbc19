"""An app whose slots are processes of their own, without Spark: the driver and the slots as they are."""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import closing

from tidegate.app import App
from tidegate.clock import SystemClock
from tidegate.config.config import Config
from tidegate.log.location import LogLocation
from tidegate.log.open import open_log
from tidegate.runtime.driver.coordinator import (
    Coordinator,
    DriverResources,
    DriverState,
    Patience,
    SlotOverview,
)
from tidegate.runtime.driver.prepare import prepare
from tidegate.runtime.driver.takeover import Claim
from tidegate.runtime.slot.stage import Stage
from tidegate.runtime.topics.slot_order import SlotOrder
from tidegate.spark.ship import fingerprint
from tidegate.testing.broker.guard import GuardedProcess

SLOT = "import sys; from tidegate.spark.worker import run_order; [*run_order(bytes.fromhex(sys.argv[1]))]"
"""What a Spark task does with an order, without the task."""


class Processes:
    """A launcher: one process for each start of a slot."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._processes: dict[int, GuardedProcess] = {}

    def launch(self, order: SlotOrder) -> None:
        command = [sys.executable, "-c", SLOT, order.encode().hex()]
        process = GuardedProcess(command, stdout=subprocess.DEVNULL, stderr=sys.stderr.buffer)
        self._processes[order.slot] = process
        code = process.wait()
        if code:
            raise RuntimeError(f"slot {order.slot} ended with {code}")

    def run_stage(self, stage: Stage, number: int, epoch: int, writer: str, stopped: threading.Event) -> None:
        raise NotImplementedError("stages need Spark")

    def cancel(self, number: int) -> None:
        if number in self._processes:
            self._processes[number].signal(9)

    def room(self) -> int:
        return self._slots

    def cores(self) -> int:
        return self._slots


class Plain:
    """An app that runs; as `Running`, without a session."""

    def __init__(self, app: App, name: str, config: Config, slots: int) -> None:
        self._name = name
        self._config = config
        self._log = open_log(LogLocation.of(config))
        run = prepare(
            app.build(), self._log, SystemClock(), partitions=config.partitions, create_sources=False
        )
        resources = DriverResources(run, self._log, Processes(slots), self._order, SystemClock(), Patience())
        self._coordinator = Coordinator(resources, slots)
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    @property
    def state(self) -> DriverState:
        return self._coordinator.state

    @property
    def view(self) -> SlotOverview:
        return self._coordinator.overview

    def stop(self) -> None:
        """Finish, commit, close. Returns at once."""
        self._coordinator.stop()

    def wait(self, seconds: float | None = None) -> bool:
        """Whether it has ended, within so many seconds. Raises what made it fail."""
        self._thread.join(seconds)
        if self._error is not None:
            raise self._error
        return not self._thread.is_alive()

    def _work(self) -> None:
        with closing(self._log):
            try:
                self._coordinator.run()
            except BaseException as error:  # noqa: BLE001 - raised again by wait
                self._error = error

    def _order(self, claim: Claim, slot: int, attempt: int) -> SlotOrder:
        config = self._config
        return SlotOrder(
            app=self._name,
            app_id=claim.app,
            settings=config.settings,
            fingerprint=fingerprint(self._name),
            log=LogLocation.of(config),
            folder=str(config.folder),
            state_dir=config.state_dir,
            epoch=claim.epoch,
            slot=slot,
            attempt=attempt,
            writer=claim.writer_id(slot),
            commit_interval_ms=config.commit_interval_ms,
        )
