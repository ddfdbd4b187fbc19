"""Restore: an engine that has counted everything is started again, with its state and without.

Measured is the time from the start until new output has come in every partition, so all state is there: the
median of several starts of each kind, in turns. Much of it may be the start of a JVM, so the difference of
the two is reported as well; where starts differ by more than a restore takes, there is none. Quix, which
takes minutes, is started once each way.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass

from benchmarks.peers.bench import SOURCE, Bench, Counted
from benchmarks.peers.engines import OURS
from benchmarks.peers.quix import Quix
from benchmarks.peers.records import KEYS, append, first_of_each_partition
from benchmarks.peers.watch import partitions
from benchmarks.report import median

ENGINES = (*OURS, "streams", "streams-tuned", "quix")
TARGET = 1.5


@dataclass(frozen=True, slots=True)
class Starts:
    """Seconds to new output in every partition."""

    with_state: float
    without: float

    @property
    def restore(self) -> float | None:
        """What the missing state cost; None if it does not show."""
        return self.without - self.with_state if self.without > self.with_state else None


def measure(bench: Bench) -> None:
    """Each engine in turn. What one engine adds to the source is more for those that come after."""
    engines = bench.of(*ENGINES)
    counted = {name: bench.counted(name) for name in engines}
    found: dict[str, Starts] = {}
    for name, one in counted.items():
        records = bench.changelog_records(one.app_id)
        bench.report.progress(f"{one.peer.name}: restore of {records:,} records")
        found[name] = starts = _starts(bench, one)
        what = f"{one.peer.name}: start"
        bench.report.measured(f"{one.peer.name}: changelog to restore", records, "records")
        bench.report.measured(f"{what} with its state", starts.with_state, "s")
        bench.report.measured(f"{what} with its state to restore", starts.without, "s")
        if starts.restore is not None:
            bench.report.measured(f"{what}, difference: restore", starts.restore, "s")
    for ours in bench.of(*OURS):
        for theirs in bench.of("streams", "streams-tuned"):
            _compare(bench, ours, theirs, found[ours], found[theirs])


def _compare(bench: Bench, ours: str, theirs: str, mine: Starts, other: Starts) -> None:
    """Both ways of looking at it have the same target."""
    names = f"{bench.chosen[theirs].name} to {bench.chosen[ours].name}"
    bench.report.at_least(f"start with a restore, {names}", other.without / mine.without, "x", TARGET)
    name = f"restore alone, {names}"
    if mine.restore is None or other.restore is None:
        bench.report.missing(name, "x", f">= {TARGET:g}", "starts differ by more than a restore takes")
    else:
        bench.report.at_least(name, other.restore / mine.restore, "x", TARGET)


def _starts(bench: Bench, one: Counted) -> Starts:
    with_state, without = [], []
    for _ in range(1 if bench.quick or isinstance(one.peer, Quix) else 3):
        with_state.append(_start(bench, one))
        shutil.rmtree(one.folder)
        without.append(_start(bench, one))
    bench.check(one.peer, one.output, bench.records + bench.extra, min(KEYS, bench.records))
    return Starts(median(with_state), median(without))


def _start(bench: Bench, one: Counted) -> float:
    """Seconds from the start of the engine to new output in every partition."""
    output, keys = partitions(one.output), list(first_of_each_partition())
    append(bench.log, SOURCE, keys)
    bench.extra += len(keys)
    before = bench.log.ends(output)
    begun = time.monotonic()
    with bench.running(one.peer, SOURCE, one.output, one.app_id, one.folder) as run:

        def moved() -> bool:
            now = bench.log.ends(output)
            return all(now[partition] > before[partition] for partition in output)

        bench.wait(moved, run, f"{one.peer.name}: new output in all partitions")
        took = time.monotonic() - begun
        bench.wait_done(run, one.app_id, SOURCE)
        run.stop()
    return took
