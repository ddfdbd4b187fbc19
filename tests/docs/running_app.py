"""An app of a page that runs on real slots, as threads of this process, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tests.runtime.fleet import Fleet
from tests.waiting import wait_for

from tidegate.config.config import load_config
from tidegate.load import load_app
from tidegate.log.location import LogLocation
from tidegate.log.open import open_log
from tidegate.runtime.driver.coordinator import DriverState


@contextmanager
def running_app(name: str, folder: Path) -> Iterator[None]:
    """The app `module:name` of the folder, on the log and the state folder of its tidegate.toml."""
    config = load_config(environ={}, folder=folder)
    with closing(open_log(LogLocation.of(config))) as log:
        fleet = Fleet(log, config.folder, lambda: load_app(name, config.settings))
        fleet.state_dir, fleet.partitions = config.state_dir, config.partitions
        with fleet.running() as (coordinator, _):
            wait_for(lambda: coordinator.state is DriverState.RUNNING or coordinator.error is not None)
            assert coordinator.error is None, coordinator.error
            yield
