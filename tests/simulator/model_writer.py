"""The transactional writer of the model log. Its commit shares some steps with the embedded one's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa
from tests.simulator.model_partition import Outcome, Transaction

from tidegate.errors import FencedError, LogError
from tidegate.log.faultpoints import reach
from tidegate.types import Offset, TopicPartition

if TYPE_CHECKING:
    from tests.simulator.model_log import ModelLog


class ModelWriter:
    """One transaction after the other under one id; records get their offsets when they are appended."""

    def __init__(self, log: ModelLog, writer_id: str) -> None:
        self._log = log
        self._id = writer_id
        self._transaction: Transaction | None = None
        self._behind: dict[TopicPartition, int] = {}
        self._counts: Counter[TopicPartition] = Counter()
        self._spent = False
        self._epoch = log.take_over(writer_id, self)

    def append(self, partition: TopicPartition, batch: pa.RecordBatch) -> None:
        self._check()
        self._transaction = self._transaction or Transaction()
        first = self._log.add(partition, batch, self._transaction)
        if batch.num_rows:
            self._behind[partition] = first + batch.num_rows
            self._counts[partition] += batch.num_rows

    def flush(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Offset]:
        self._check()
        listed = list(partitions)
        ends = self._log.ends(listed, committed=False)
        return {one: Offset(self._behind.get(one, ends[one])) for one in listed}

    def commit(self) -> dict[TopicPartition, Offset]:
        """The first offsets are known where no other writer came in between."""
        self._check_open()
        first = {
            one: Offset(behind - self._counts[one])
            for one, behind in self._behind.items()
            if self._transaction is not None and self._transaction.first[one] == behind - self._counts[one]
        }
        try:
            reach("log.commit.1")
            reach("log.commit.4")
            self._check()
            reach("log.commit.7")
            self._end(Outcome.COMMITTED)
            reach("log.commit.8")
        except BaseException:
            self._spent = True
            raise
        return first

    def abort(self) -> None:
        self._check_open()
        self._end(Outcome.ABORTED)

    def close(self) -> None:
        if not self._spent:
            self._end(Outcome.ABORTED)
            self._spent = True

    def fence(self) -> None:
        """A newer holder came: what is open is aborted by the log."""
        self._end(Outcome.ABORTED)

    def _end(self, outcome: Outcome) -> None:
        transaction, self._transaction = self._transaction, None
        self._behind, self._counts = {}, Counter()
        if transaction is not None and transaction.outcome is Outcome.OPEN:
            self._log.end(transaction, outcome)

    def _check(self) -> None:
        """An expired transaction and a newer holder look the same."""
        self._check_open()
        expired = self._transaction is not None and self._transaction.outcome is not Outcome.OPEN
        current = self._log.epochs[self._id]
        if current != self._epoch or expired:
            self._spent = True
            raise FencedError(self._id, self._epoch, current)

    def _check_open(self) -> None:
        if self._spent:
            raise LogError("writer-spent", f"writer {self._id!r} failed or was closed", "open a new writer")
