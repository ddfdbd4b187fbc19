"""Counts records per key on Quix Streams, with a changelog, exactly once; ends cleanly on SIGTERM.

Arguments: bootstrap, source, output, app id, state folder, commit interval in ms. Everything that is not an
argument or asked for by the task stays at Quix's defaults. Values are never looked at, so they stay bytes;
counts are written as 32-bit integers, the serializer that Quix has. Runs in an environment of its own.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

from quixstreams import Application  # type: ignore[import-not-found]


class Events:
    """JSON lines for the benchmark: RUNNING with the first record, then every second how many came."""

    def __init__(self) -> None:
        self.records = 0

    def emit(self, event: str, **fields: Any) -> None:
        line = {"event": event, "ms": time.time_ns() // 1_000_000, **fields}
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()

    def every_second(self) -> None:
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while not self.records:
            time.sleep(0.01)
        self.emit("state", state="RUNNING")
        while True:
            self.emit("processed", records=self.records)
            time.sleep(1)


def main(bootstrap: str, source: str, output: str, app_id: str, state_dir: str, commit_ms: str) -> None:
    """Count until SIGTERM."""
    events = Events()
    app = Application(
        broker_address=bootstrap,
        consumer_group=app_id,
        auto_offset_reset="earliest",
        commit_interval=int(commit_ms) / 1000,
        processing_guarantee="exactly-once",
        state_dir=state_dir,
    )

    def count(_value: bytes, state: Any) -> int:
        events.records += 1
        total = int(state.get("count", 0)) + 1
        state.set("count", total)
        return total

    records = app.dataframe(app.topic(source, value_deserializer="bytes"))
    counts = records.apply(count, stateful=True)
    counts.to_topic(app.topic(output, value_serializer="int"))
    events.emit("state", state="STARTING")
    events.every_second()
    app.run()
    events.emit("processed", records=events.records)
    events.emit("state", state="NOT_RUNNING")


if __name__ == "__main__":
    main(*sys.argv[1:])
