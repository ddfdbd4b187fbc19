"""Restore: an engine that has counted everything is started again, with its state and without.

Measured is the time from the start until new output has come in every partition, so all state is there. Much
of it may be the start of a JVM, so what a start without state takes longer than the median of those with it
is reported as well. Engines are started in turns, in several rounds; Quix, which takes minutes, once each
way.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, field

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
    """Seconds to new output in every partition, of each round."""

    with_state: list[float] = field(default_factory=list)
    without: list[float] = field(default_factory=list)

    def restores(self) -> list[float]:
        """What the missing state cost in each round."""
        usual = median(self.with_state)
        return [one - usual for one in self.without]


def measure(bench: Bench) -> None:
    """Each engine in turn. What one engine adds to the source is more for those that come after."""
    counted = {name: bench.counted(name) for name in bench.of(*ENGINES)}
    records = {name: bench.changelog_records(one.app_id) for name, one in counted.items()}
    found = {name: Starts() for name in counted}
    for number in range(bench.rounds):
        for name, one in counted.items():
            if number and isinstance(one.peer, Quix):
                continue
            bench.report.progress(f"{one.peer.name}: restore of {records[name]:,} records")
            found[name].with_state.append(_start(bench, one))
            shutil.rmtree(one.folder)
            found[name].without.append(_start(bench, one))
            if number == bench.rounds - 1 or isinstance(one.peer, Quix):
                bench.check(one.peer, one.output, bench.records + bench.extra, min(KEYS, bench.records))
    for name, one in counted.items():
        _show(bench, one.peer.name, records[name], found[name])
    for ours in bench.of(*OURS):
        for theirs in bench.of("streams", "streams-tuned"):
            _compare(bench, ours, theirs, found[ours], found[theirs])


def _show(bench: Bench, name: str, records: int, starts: Starts) -> None:
    bench.report.measured(f"{name}: changelog to restore", records, "records")
    bench.report.measured(f"{name}: start with its state", starts.with_state, "s")
    bench.report.measured(f"{name}: start with its state to restore", starts.without, "s")
    bench.report.measured(f"{name}: start, difference: restore", starts.restores(), "s")


def _compare(bench: Bench, ours: str, theirs: str, mine: Starts, other: Starts) -> None:
    """Both ways of looking at it have the same target."""
    names = f"{bench.chosen[theirs].name} to {bench.chosen[ours].name}"
    for what, slow, fast in (
        ("start with a restore", other.without, mine.without),
        ("restore alone", other.restores(), mine.restores()),
    ):
        if median(fast) <= 0:
            why = "starts differ by more than it takes"
            bench.report.missing(f"{what}, {names}", "x", f">= {TARGET:g}", why)
        else:
            # A round in which nothing of it shows counts as missed.
            ratios = [one / beside if beside > 0 else 0.0 for one, beside in zip(slow, fast, strict=True)]
            bench.report.at_least(f"{what}, {names}", ratios, "x", TARGET)


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
