"""The batches of a DataFrame stage, one after the other.

The loop reads the position of the stage, takes the records after it, and has them processed: by Spark, which
it does not depend on. A live stage goes on for ever, and purges what it has processed. In a replay it ends at
the pinned ends, which it records; nothing is purged, since a replay may continue in another round.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from tidegate.clock import Clock
from tidegate.log.positions import Position, check_positions, read_positions
from tidegate.log.protocol import Log
from tidegate.runtime.slot.purger import Purger
from tidegate.runtime.slot.stage import Result, Stage, StageOrder, next_spans, write_stage
from tidegate.runtime.topics.control import ROLE
from tidegate.runtime.topics.status import Warned, publish_status
from tidegate.types import Offset, TopicPartition

PURGE_SECONDS = 30.0


class StageLoop:
    """One stage of one epoch of an app."""

    def __init__(
        self,
        log: Log,
        app: str,
        stage: Stage,
        epoch: int,
        writer: str,
        clock: Clock,
        run_batch: Callable[[StageOrder], Result],
    ) -> None:
        """`run_batch` processes the records of an order, and writes the rows with `write_stage`."""
        self._log = log
        self._app = app
        self._stage = stage
        self._epoch = epoch
        self._writer = writer
        self._clock = clock
        self._run_batch = run_batch
        self._position: Position | None = None
        self._purge_due = time.monotonic() + PURGE_SECONDS
        self._purger = Purger(log)

    def step(self) -> bool:
        """Process one batch if there are records; at the end of a replay, record that. Returns whether there
        was something to do."""
        stage = self._stage
        position = self._position = self._position or self._read_position()
        if stage.replay is None and time.monotonic() >= self._purge_due:
            self._purge(position)
        spans = next_spans(self._log, stage, position)
        if spans:
            order = self._order(spans)
            written = self._run_batch(order) is Result.WRITTEN
            self._position = _moved(position, stage.reads, order.end) if written else None
            return True
        if stage.replay is None or stage.finished(position):
            return False
        write_stage(self._log, self._order({}), [])
        self._position = None
        return True

    def _read_position(self) -> Position:
        positions = read_positions(self._log, self._app)
        check_positions(self._app, positions, [self._stage.task])
        return positions[self._stage.task]

    def _order(self, spans: dict[int, tuple[int, int]]) -> StageOrder:
        stage = self._stage
        return StageOrder(
            self._app,
            stage.name,
            stage.task,
            self._epoch,
            ROLE,
            self._writer,
            stage.reads,
            stage.writes,
            self._clock.now(),
            spans,
            0 if stage.replay is None else stage.replay.round,
        )

    def _purge(self, position: Position) -> None:
        """Purge the records that the stage has processed: nothing else reads them."""
        self._purge_due = time.monotonic() + PURGE_SECONDS
        reads = self._stage.reads
        purgeable = {
            TopicPartition(reads, number): Offset(at) for number, at in position.sources[reads].items()
        }
        now = self._clock.now()
        for problem in self._purger.run(purgeable):
            warning = Warned(self._epoch, -1, 0, problem.code, problem.message, problem.hint)
            publish_status(self._log, self._app, warning, now)


def _moved(position: Position, topic: str, ends: dict[int, int]) -> Position:
    return msgspec.structs.replace(position, sources={topic: {**position.sources[topic], **ends}})
