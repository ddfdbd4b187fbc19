"""Recalculate an app: R(new, F), its rows from empty state over what the log holds below a cut.

One subtopology runs after the other, in the order of the topology. Each is pinned: sources at the cut,
internal topics at their ends after the subtopologies that write to them have finished. Tasks merge strictly,
so the rows depend on the records alone.

1 write the cut and the round to the control topic; then for each subtopology that has not finished the round:
2 fence the writers of the subtopology before, and take the ends of the internal topics that it reads; 3 run
its tasks until each has recorded that it has finished.

Killed anywhere, `run` with the same cut goes on: what has finished is skipped, and a task continues from its
committed position. A later round with a higher cut reads the rest of each topic only. In an internal topic it
sorts what was written since the round before, so its rows can differ from those of one round over everything
where the order of records from several tasks counts.

A DataFrame stage is a subtopology like any other: its batches run on Spark when its turn comes, up to its
pins. It gets the records as they lie in its topic; the tasks behind it sort what it returns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from typing import Protocol

import msgspec

from tidegate.clock import Clock
from tidegate.log.faultpoints import reach
from tidegate.log.positions import Position, TaskId, read_positions
from tidegate.log.protocol import Log
from tidegate.runtime.driver.run import Run
from tidegate.runtime.driver.takeover import fence, take_over
from tidegate.runtime.replay import FAILED, REPLAYED, Cut, Replay, sent_of
from tidegate.runtime.topics.control import ROLE, bad_control, read_control, write_control
from tidegate.topology.graph import Subtopology
from tidegate.types import TopicPartition
from tidegate.upgrade.cut import by_topic
from tidegate.upgrade.progress import Meter, Progress, StepProgress

ROUND = "replay"
"""The key of the round in the control topic."""
Pins = Mapping[TopicPartition, int]


class Round(msgspec.Struct, frozen=True):
    """The newest round of a recalculation."""

    number: int
    cut: Cut
    wall_before: int = 0
    sorted_from: dict[str, dict[int, int]] = {}
    sent_before: dict[str, dict[int, int]] = {}
    """How many records of each internal partition the rounds before have written, and read."""


_round = msgspec.json.Decoder(Round)


Report = Callable[[Progress], None]
"""Called with how far a recalculation is: about once a second while it runs, and after each step."""


def no_report(progress: Progress) -> None:
    """Report nothing."""


class Runner(Protocol):
    """Runs the tasks of one step until they have finished. It calls `step.reached()` or `step.report()` about
    once a second or more often."""

    def run(self, run: Run, pinned: Pins, step: Step) -> None: ...


class Step:
    """One subtopology in one current."""

    def __init__(
        self, run: Run, pinned: Pins, number: int, watch: Callable[[Mapping[TaskId, Position] | None], None]
    ) -> None:
        """`watch` is called with positions that were read, or None if it must read them itself."""
        self._run = run
        self._pinned = pinned
        self._number = str(number)
        self._watch = watch

    def reached(self) -> bool:
        """Return whether all its tasks have recorded that they finished the current, and report how far they
        are if that is due."""
        positions = read_positions(self._run.log, self._run.manifest.app)
        self._watch(positions)
        return self.finished(positions)

    def report(self) -> None:
        """Report how far the recalculation is, if that is due."""
        self._watch(None)

    def finished(self, positions: Mapping[TaskId, Position]) -> bool:
        return all(self._finished(positions.get(task)) for task, _ in self._run.positioned())

    def _finished(self, position: Position | None) -> bool:
        return (
            position is not None
            and position.progress.get(REPLAYED) == self._number
            and all(
                offset >= self._pinned[TopicPartition(topic, number)]
                for topic, offsets in position.sources.items()
                for number, offset in offsets.items()
            )
        )


class Recalculation:
    """One recalculation, in one round or more."""

    def __init__(self, run: Run, runner: Runner, report: Report = no_report) -> None:
        """`run` is what `prepare_recalculation` returned."""
        self._run = run
        self._runner = runner
        self._report = report
        self._meter = Meter()
        self._round = self._found_round()
        self._pins: dict[TopicPartition, int] = {}

    @property
    def cut(self) -> Cut | None:
        """The cut of the newest round; None before the first."""
        return None if self._round is None else self._round.cut

    def run(self, cut: Cut) -> None:
        """Recalculate up to the cut. It must not be below that of an earlier current."""
        if self._round is not None and self._round.cut != cut:
            self._run_round(self._round)  # a task goes on only from the pins of the round before
        self._run_round(self._begin(cut))

    def _run_round(self, current: Round) -> None:
        self._meter.start(self.progress())
        for sub in self._run.context.topology.subtopologies():
            self._run_step(sub, current)

    def failures(self) -> int:
        """Return how many records failed under the policies `skip` and `dead-letter`."""
        positions = read_positions(self._log, self._app)
        return sum(int(position.progress.get(FAILED, "0")) for position in positions.values())

    def progress(self, positions: Mapping[TaskId, Position] | None = None) -> list[StepProgress]:
        """Return how far each subtopology is, by these positions or those of now."""
        if positions is None:
            positions = read_positions(self._log, self._app)
        known = {**({} if self._round is None else self._round.cut.offsets()), **self._pins}
        sent = _sent(positions)
        subtopologies = self._run.context.topology.subtopologies()
        return [self._progress_of(sub, positions, known, sent) for sub in subtopologies]

    def _progress_of(
        self, sub: Subtopology, positions: Mapping[TaskId, Position], known: Pins, sent: Pins
    ) -> StepProgress:
        done, to_do = 0, 0 if all(topic in self._topics(known) for topic in self._inputs(sub)) else None
        for task, partitions in replace(self._run, step=(sub.component, sub.number)).positioned():
            position = positions.get(task)
            for partition in partitions:
                start = self._run.context.topics[partition.topic].starts[partition.partition]
                records = known.get(partition, start) - start
                at = start
                if position is not None:
                    at = position.sources.get(partition.topic, {}).get(partition.partition, start)
                taken = at - start
                if partition in sent and self._round is not None:
                    records = sent[partition]
                    taken = self._taken_of_blocks(self._round, partition, position, at, records)
                done += max(0, taken)
                if to_do is not None:
                    to_do += max(0, records)
        return StepProgress(sub.component, sub.number, done, to_do)

    def _taken_of_blocks(
        self, current: Round, partition: TopicPartition, position: Position | None, at: int, records: int
    ) -> int:
        """Return how many records of an internal partition a task has taken: until it has finished, its
        offsets are numbers of records in the sorted order."""
        if position is not None and position.progress.get(REPLAYED) == str(current.number):
            return records
        topic, number = partition
        start = self._run.context.topics[topic].starts[number]
        begun = current.sorted_from.get(topic, {}).get(number, start)
        return min(records, current.sent_before.get(topic, {}).get(number, 0) + max(0, at - begun))

    # --- steps ----------------------------------------------------------------------------------------

    @property
    def _log(self) -> Log:
        return self._run.log

    @property
    def _app(self) -> str:
        return self._run.manifest.app

    @property
    def _clock(self) -> Clock:
        return self._run.context.clock

    def _begin(self, cut: Cut) -> Round:
        """Write the round: step 1. A round that was interrupted goes on."""
        reach("recalculate.1")
        before = self._round
        if before is not None and before.cut == cut:
            return before
        current = (
            Round(1, cut)
            if before is None
            else Round(
                before.number + 1,
                cut,
                before.cut.wall,
                by_topic(self._internal_ends(self._own_internal())),
                by_topic(_sent(read_positions(self._log, self._app))),
            )
        )
        with closing(take_over(self._log, self._app, self._run.manifest.generation, self._clock)) as claim:
            write_control(claim.writer, self._app, {ROUND: current}, self._clock.now())
            claim.writer.commit()
        self._round = current
        return current

    def _run_step(self, sub: Subtopology, current: Round) -> None:
        reach("recalculate.2")
        cut = current.cut.offsets_of(sub.component, sub.number)
        fence(self._log, read_control(self._log, self._app).plan(ROLE).writers)
        inputs = [
            TopicPartition(topic, number)
            for topic in self._inputs(sub)
            for number in range(self._run.counts[sub.component, sub.number])
        ]
        written = [partition for partition in inputs if partition not in cut]
        pinned = {
            **{partition: cut[partition] for partition in inputs if partition in cut},
            **self._internal_ends(written),
        }
        self._pins.update(pinned)
        replay = Replay(current.cut.wall, current.number, current.wall_before, current.sorted_from)
        context = replace(self._run.context, replay=replay)
        run = replace(self._run, context=context, step=(sub.component, sub.number), pinned=pinned)
        step = Step(run, pinned, current.number, self._report_if_due)
        if not step.reached():
            reach("recalculate.3")
            self._runner.run(run, pinned, step)
            self._report(self._meter.measured(current.number, self.progress()))

    def _report_if_due(self, positions: Mapping[TaskId, Position] | None) -> None:
        if self._round is not None and self._meter.due():
            self._report(self._meter.measured(self._round.number, self.progress(positions)))

    def _inputs(self, sub: Subtopology) -> list[str]:
        nodes = self._run.context.topology.nodes
        return [self._run.context.topic_of(nodes[number]) for number in sub.inputs]

    def _own_internal(self) -> list[TopicPartition]:
        manifest = self._run.manifest
        return [
            TopicPartition(topic, number)
            for name, topic in manifest.internal.items()
            if topic in manifest.purged()
            for number in range(manifest.internal_partitions[name])
        ]

    def _internal_ends(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the ends of topics that nobody writes to any more."""
        found = self._log.ends(partitions, committed=False)
        return {partition: int(end) for partition, end in found.items()}

    def _found_round(self) -> Round | None:
        raw = read_control(self._log, self._app).entries.get(ROUND)
        try:
            return None if raw is None else _round.decode(raw)
        except msgspec.DecodeError as error:
            raise bad_control(f"an invalid {ROUND}: {error}") from error

    def _topics(self, known: Pins) -> set[str]:
        return {partition.topic for partition in known}


def _sent(positions: Mapping[TaskId, Position]) -> dict[TopicPartition, int]:
    """Return how many records all tasks have written to each internal partition."""
    found: dict[TopicPartition, int] = {}
    for position in positions.values():
        for partition, count in sent_of(position.progress).items():
            found[partition] = found.get(partition, 0) + count
    return found
