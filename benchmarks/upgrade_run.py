"""An upgrade of a running app from outside: the old version runs in a process, the new one starts in another
one, drains and stops the old one, upgrades, and runs.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.environment import of_programs
from benchmarks.upgrade_source import PARTITIONS, SOURCE, Output, append, one_of_each_partition
from tidegate.clock import SystemClock
from tidegate.log.protocol import Log
from tidegate.log.reads import nothing_between
from tidegate.log.topic import TopicSpec
from tidegate.runtime.topics.manifests import find_manifest
from tidegate.runtime.topics.unread import offsets_of, task_positions
from tidegate.testing.broker.program import Program
from tidegate.types import TopicPartition
from tidegate.upgrade.finish import Finished, finish

APP_ID, OUTPUT, SLOTS = "upgraded", "upgraded-counts", 2
LONGEST_SECONDS, POLL_SECONDS = 1_200.0, 0.05
STEPS = (
    ("drain and stop of the old version", "upgrade.2", "upgrade.3"),
    ("recalculation", "upgrade.3", "upgrade.5"),
    ("comparison", "upgrade.5", "upgrade.6"),
    ("decision and publication", "upgrade.6", "upgrade.8"),
    ("removal of the recalculation", "upgrade.8", "started"),
)


@dataclass(frozen=True, slots=True)
class Upgraded:
    """What was measured."""

    seconds: dict[str, float]
    """By step."""
    pause: float
    """From the request to drain the old version until the new one has processed what came meanwhile."""
    published: int
    tombstones: int
    transactions: list[tuple[int, float]]
    """Records and seconds of each transaction of the publication."""
    peak_mib: float
    """Of the process that upgrades, from the drain until the new version runs."""
    compare_mib: float
    """The same, while it compares and publishes."""
    rows: int
    finished: Finished
    leftovers: list[str]
    """Topics and folders of former generations and of the recalculation after `finish`."""


def upgrade(log: Log, url: str, folder: Path, keys: int, say: Callable[[str], None]) -> Upgraded:
    """Let the first version count everything; then start the second one."""
    log.create(TopicSpec(OUTPUT, PARTITIONS, {"cleanup.policy": "compact"}))
    output = Output(log, OUTPUT)
    say("the first version counts")
    with running("first", url, folder) as old:
        old.wait_for(_running, LONGEST_SECONDS)
        wait(lambda: caught_up(log, 1), old)
        output.mark()
        say("the second version starts, and upgrades")
        with running("second", url, folder) as new:
            new.wait_for(lambda event: event.get("point") == "upgrade.3", LONGEST_SECONDS)
            extra = one_of_each_partition(keys)
            append(log, extra)
            new.wait_for(_running, LONGEST_SECONDS)
            wait(lambda: caught_up(log, 2), new)
            ended = time.time() * 1000
            say("the second version has caught up")
            events = new.events()
            written, tombstones = output.records()
            finished = finish(log, APP_ID, SystemClock(), folder / "state")
            new.stop()
    at = {event["point"]: float(event["ms"]) for event in events if event["event"] == "step"}
    seconds = {name: (at[end] - at[start]) / 1000 for name, start, end in STEPS}
    seconds["start until caught up"] = (ended - at["started"]) / 1000
    peaks = {event["point"]: float(event["rss_mib"]) for event in events if event["event"] == "step"}
    sizes = [(one["records"], one["seconds"]) for one in events if one["event"] == "transaction"]
    return Upgraded(
        seconds,
        (ended - at["upgrade.2"]) / 1000,
        written - len(extra),
        tombstones,
        sizes,
        max(peaks[point] for point in peaks if point > "upgrade.2"),
        max(peaks["upgrade.6"], peaks["upgrade.8"]),
        len(output.rows()),
        finished,
        leftovers(log, folder / "state"),
    )


@contextmanager
def running(version: str, url: str, folder: Path) -> Iterator[Program]:
    """A version at work; at the end it is gone."""
    command = [sys.executable, "-m", "benchmarks.upgrade_program", f"benchmarks.apps.upgraded_apps:{version}"]
    arguments = [url, APP_ID, OUTPUT, str(folder), str(SLOTS)]
    program = Program(version, [*command, *arguments], folder / "programs", env=of_programs())
    try:
        yield program
    finally:
        program.kill()


def wait(holds: Callable[[], bool], program: Program) -> None:
    """Until it is so, while the program runs."""
    deadline = time.monotonic() + LONGEST_SECONDS
    while not holds():
        if not program.running or time.monotonic() > deadline:
            raise program.failed("did not catch up")
        time.sleep(POLL_SECONDS)


def caught_up(log: Log, generation: int) -> bool:
    """Return whether this generation has processed the whole source."""
    manifest = find_manifest(log, APP_ID)
    if manifest is None or manifest.generation != generation:
        return False
    source = [TopicPartition(SOURCE, number) for number in range(PARTITIONS)]
    ends, at = log.ends(source), dict(offsets_of(task_positions(log, manifest)))
    return all(nothing_between(log, one, at.get(one, 0), ends[one]) for one in source)


def leftovers(log: Log, state: Path) -> list[str]:
    """Return what should not be there after `finish`."""
    topics = [
        name
        for name in log.names()
        if ".upgrade." in name or ".preview." in name or name.endswith("-staging")
    ]
    return topics + [path.name for path in state.iterdir() if path.is_dir() and path.name != APP_ID]


def _running(event: dict[str, Any]) -> bool:
    return bool(event["event"] == "state" and event["state"] == "RUNNING")
