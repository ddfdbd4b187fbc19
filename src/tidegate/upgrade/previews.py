"""What a change would do: the rows of the new code beside those of the live app.

The new code runs as a throw-away app of its own, from empty state up to where the live app is, and its rows
are compared with those of the live app. Nothing of the live app is written: not its outputs, its positions or
its stores. One preview of an app exists at a time; a newer one ends an older one.

1 remove what an earlier preview left; 2 create the topics of this one; then in rounds: 3 take the cut where
the live app is now; 4 recalculate up to it; 5 compare. A row that differs and that the live app wrote around
the cut may only be newer than it, so another round follows, at most `ROUNDS` in all. 6 remove everything,
also after an error. A preview that was killed is removed by the next `tidegate plan` of the app.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from tidegate.clock import Clock
from tidegate.log import names
from tidegate.log.ensure import find_topic
from tidegate.log.faultpoints import reach
from tidegate.log.protocol import Log
from tidegate.runtime.driver.run import Run
from tidegate.runtime.topics.control import control_topic
from tidegate.runtime.topics.manifests import find_manifest
from tidegate.text.render import shown
from tidegate.topology.graph import Topology
from tidegate.topology.growth import check_outputs
from tidegate.topology.manifest import Manifest
from tidegate.topology.node import SINKS
from tidegate.upgrade.compared_rows import Compared
from tidegate.upgrade.cut import Bracket, live_cut
from tidegate.upgrade.difference import Counts, SinkDifference, difference
from tidegate.upgrade.leftovers import remove_preview
from tidegate.upgrade.recalculate import Recalculation, Report, Runner, no_report
from tidegate.upgrade.recalculation import prepare_recalculation
from tidegate.upgrade.sorted_rows import RowDifference

ROUNDS = 4


@dataclass(frozen=True, slots=True)
class Preview:
    """What differs, by table topic and model."""

    app: str
    sinks: Mapping[str, SinkDifference]
    failures: int
    """Records that failed in the new code under the policies `skip` and `dead-letter`."""
    records: int
    """Records that were recalculated."""
    rounds: int
    settled: bool
    """Whether the live app had processed everything up to where the comparison was made. If not, rows may
    differ that are only late."""

    @property
    def counts(self) -> dict[str, Counts]:
        return {topic: sink.counts() for topic, sink in self.sinks.items()}

    def rows(self, sink: str) -> list[RowDifference]:
        """Return the rows of a table topic or model that differ, as bytes. All of them are in memory then;
        `sinks[sink].rows` reads them one after the other."""
        return list(self.sinks[sink].rows)

    def texts(self, limit: int | None = None) -> list[dict[str, str | None]]:
        """Return the rows that differ as text: `sink`, `key`, `before`, `after`; of each sink at most
        `limit`."""
        return list(self.each_text(limit))

    def each_text(self, limit: int | None = None) -> Iterator[dict[str, str | None]]:
        """Yield what `texts` returns, in bounded memory."""
        for topic, sink in self.sinks.items():
            for key, before, after in islice(sink.rows, limit):
                yield {"sink": topic, "key": _text(key), "before": _text(before), "after": _text(after)}

    def frame(self, spark: Any) -> Any:
        """Return the rows that differ as a Spark DataFrame: `sink`, `key`, `before`, `after` as text. They
        are in the memory of the driver."""
        from tidegate.spark.preview_frame import preview_frame  # Spark may not be installed

        return preview_frame(spark, self)


def run_preview(
    topology: Topology,
    log: Log,
    clock: Clock,
    runner: Callable[[Run], Runner],
    state_dir: Path | None,
    *,
    partitions: int = 4,
    on_error: str = "stop",
    batches: bool = True,
    report: Report = no_report,
) -> Preview:
    """Preview the app of this topology. `runner` returns where the tasks run."""
    app = topology.app
    live = find_manifest(log, app)
    if live is not None:
        _check_outputs(log, topology, live)
    reach("preview.1")
    remove_preview(log, app, state_dir, clock)
    reach("preview.2")
    control = log.create(control_topic(names.preview(app)))
    try:
        run = prepare_recalculation(
            topology,
            names.preview(app),
            log,
            clock,
            live=live,
            partitions=partitions,
            on_error=on_error,
            batches=batches,
        )
        return _previewed(app, run, runner(run), live, report, state_dir)
    finally:
        reach("preview.6")
        remove_preview(log, app, state_dir, clock, own=control.uid)


def _check_outputs(log: Log, topology: Topology, live: Manifest) -> None:
    """Raise ConfigError `partitions-changed` for an output whose rows the live app wrote to other
    partitions."""
    written = {node.topic.name for node in topology.nodes.values() if node.topic and node.kind in SINKS}
    before = {topic: count for topic, count in live.sinks.items() if topic in written}
    infos = (find_topic(log, topic) for topic in before)
    check_outputs(live.app, before, {info.name: info.partitions for info in infos if info is not None})


def _previewed(
    app: str, run: Run, runner: Runner, live: Manifest | None, report: Report, folder: Path | None
) -> Preview:
    log, recalculation = run.log, Recalculation(run, runner, report)
    compared = _compared(app, run, live)
    tables = {one.live.name: one.live.partitions for one in compared if one.live is not None}
    rounds = 0
    while True:
        rounds += 1
        reach("preview.3")
        bracket = _cut(run, live, tables)
        reach("preview.4")
        recalculation.run(bracket.cut)
        reach("preview.5")
        found = {one.name: difference(log, one, bracket, folder) for one in compared}
        if rounds == ROUNDS or not any(sink.in_flight for sink in found.values()):
            break
    starts = {topic: info.starts for topic, info in run.context.topics.items()}
    ends = bracket.cut.offsets().items()
    records = sum(max(0, end - starts[at.topic][at.partition]) for at, end in ends)
    return Preview(app, found, recalculation.failures(), records, rounds, bracket.settled)


def _cut(run: Run, live: Manifest | None, tables: Mapping[str, int]) -> Bracket:
    manifest = run.manifest
    admitted = {gate.admitted: gate.partitions for gate in manifest.gates.values()}
    return live_cut(run.log, live, {**manifest.sources, **admitted}, tables, run.context.clock)


def _compared(app: str, run: Run, live: Manifest | None) -> list[Compared]:
    """Return the table topics of the new code, those that only the live app writes, and the models."""
    log, staging = run.log, run.context.staging
    before = [] if live is None else [topic for topic in live.sinks if topic not in run.manifest.sinks]
    gone = [topic for topic in before if (info := find_topic(log, topic)) is not None and info.compacts]
    tables = [
        Compared(topic, find_topic(log, topic), staging.get(topic), f"{app}/{topic}".encode())
        for topic in [*staging, *gone]
    ]
    old, new = ({} if one is None else one.models for one in (live, run.manifest))
    models = [
        Compared(
            name,
            find_topic(log, old[name].changelog) if name in old else None,
            find_topic(log, new[name].changelog) if name in new else None,
            None,
        )
        for name in sorted(old.keys() | new.keys())
    ]
    return tables + models


def _text(data: bytes | None) -> str | None:
    return None if data is None else shown(data, longest=None)
