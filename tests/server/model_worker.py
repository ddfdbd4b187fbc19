"""An app with a model, at work in a process of its own: `python -m tests.server.model_worker URL FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.models.app import workflows

from tidegate.clock import SystemClock
from tidegate.config.config import load_config
from tidegate.log.location import LogLocation
from tidegate.log.open import open_log
from tidegate.runtime.driver.prepare import prepare

COMMIT_EVERY_SECONDS = 0.05


def main(url: str, folder: str) -> None:
    """Run until the process is killed."""
    log = open_log(LogLocation.of(load_config({"log": url}, environ={}, folder=Path(folder))))
    run = prepare(workflows().build(), log, SystemClock(), partitions=2)
    [slot] = run.slots(Path(folder) / "state", 1)
    print("started", flush=True)  # noqa: T201 - the test waits for it
    while True:
        slot.step(COMMIT_EVERY_SECONDS)
        slot.commit()


if __name__ == "__main__":
    main(*sys.argv[1:])
