"""A process that runs a version of the count on Spark, after an upgrade if another version ran before; as
`tidegate run` does. It reports in JSON lines and ends cleanly on SIGTERM.

Arguments: the app, the URL of the log, the id of the app, the output topic, the folder, slots.

Events: `state`, `processed` as those of peers; `step` (`point`: a step of the upgrade, `rss_mib`: the peak of
this process since the step before), `transaction` (`records`, `seconds`) of the publication.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from benchmarks.peers.tidegate.program import LOOK_SECONDS, Events
from benchmarks.upgrade_source import PARTITIONS, SOURCE
from tidegate.config.config import load_config
from tidegate.load import load_app
from tidegate.log import faultpoints
from tidegate.spark.running import Running
from tidegate.spark.session import start_session
from tidegate.upgrade import publication
from tidegate.upgrade.table_publication import transactions

PEAK = "VmHWM:"


def peak_mib() -> float:
    """Return the peak of this process's memory, and begin a new one."""
    status = Path("/proc/self/status").read_text()
    found = next(line for line in status.splitlines() if line.startswith(PEAK))
    Path("/proc/self/clear_refs").write_text("5")
    return int(found.split()[1]) / 1024


def main(name: str, log: str, app_id: str, output: str, folder: str, slots: str) -> None:
    """Run until SIGTERM."""
    events = Events(tasks=PARTITIONS)
    events.state("STARTING")

    def step(point: str) -> None:
        if point.startswith("upgrade.") and point != "upgrade.7":
            events.emit("step", point=point, rss_mib=peak_mib())

    def timed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The publisher appends and commits a part before it takes the next one."""
        for part in transactions(batches):
            began = time.monotonic()
            yield part
            events.emit("transaction", records=part.num_rows, seconds=time.monotonic() - began)

    publication.transactions = timed  # type: ignore[attr-defined]
    settings = {"app_id": app_id, "source": SOURCE, "output": output}
    config = load_config(
        {"log": log, "state_dir": "state", "partitions": PARTITIONS, "settings": settings},
        environ={},
        folder=Path(folder),
    )
    app = load_app(name, config.settings)
    session, _ = start_session(app.id, {"master": f"local[{slots}]"}, int(slots))
    events.state("READY")
    with faultpoints.installed(step):
        running = Running(app, name, session, config, slots=int(slots))
    events.emit("step", point="started", rss_mib=peak_mib())
    for number in (signal.SIGINT, signal.SIGTERM):  # after Spark's own handler
        signal.signal(number, lambda *_: running.stop())
    while not running.wait(LOOK_SECONDS):
        events.look(running)
    session.stop()
    events.state("NOT_RUNNING")


if __name__ == "__main__":
    main(*sys.argv[1:])
