"""An app of a page that runs on real slots, as threads of this process, without Spark."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tests.runtime.fleet import Fleet, Threads
from tests.waiting import wait_for

from tidegate.config.config import load_config
from tidegate.load import load_app
from tidegate.log.location import LogLocation
from tidegate.log.open import open_log
from tidegate.runtime.driver.coordinator import DriverState
from tidegate.runtime.slot.stage import Stage


class _WithoutStages(Threads):
    """Stages, which need Spark, do nothing."""

    def run_stage(
        self,
        stage: Stage,  # noqa: ARG002 - as the launcher is called
        number: int,  # noqa: ARG002
        epoch: int,  # noqa: ARG002
        writer: str,  # noqa: ARG002
        stopped: threading.Event,
    ) -> None:
        stopped.wait()


@contextmanager
def running_app(name: str, folder: Path) -> Iterator[None]:
    """The app `module:name` of the folder, on the log and the state folder of its tidegate.toml."""
    config = load_config(environ={}, folder=folder)
    with closing(open_log(LogLocation.of(config))) as log:
        fleet = Fleet(log, config.folder, lambda: load_app(name, config.settings))
        fleet.state_dir, fleet.partitions = config.state_dir, config.partitions
        coordinator, _ = fleet.driver(threads=_WithoutStages)
        with fleet.during(coordinator):
            wait_for(lambda: coordinator.state is DriverState.RUNNING or coordinator.error is not None)
            assert coordinator.error is None, coordinator.error
            yield
