"""Queue records in the compiled loop of the optional module `tidegate_bulk`.

Its producer is a client of librdkafka with the same settings as one of confluent-kafka, and reports the same
errors. All callbacks of librdkafka run inside of the calls below.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException

from tidegate.log.kafka.bulk import PLUGINS
from tidegate.log.kafka.send import FULL_QUEUE_SECONDS
from tidegate.log.kafka.sender import Misreport, Refusal
from tidegate.log.kafka.zero_time import MARK
from tidegate.types import TopicPartition

_LEVELS = [logging.CRITICAL] * 3 + [logging.ERROR, logging.WARNING, logging.INFO, logging.INFO, logging.DEBUG]
"""Python's level for each of syslog's levels 0 to 7."""
_FIRST = ("debug", PLUGINS)
"""Set before all others, as confluent-kafka does: a plugin may add settings."""


class BulkSender:
    """Queues whole columns of records."""

    def __init__(self, module: Any, settings: Mapping[str, Any], *, logger: logging.Logger) -> None:
        """`settings` as for a client of confluent-kafka, with an `error_cb`."""
        given = {
            name: str(value) for name, value in settings.items() if name != "error_cb" and value is not None
        }
        first = [(name, given.pop(name)) for name in _FIRST if name in given]
        failed = settings["error_cb"]

        def log(level: int, facility: str, client: str, text: str) -> None:
            logger.log(_LEVELS[level], "%s [%s] %s", facility, client, text)

        try:
            self._producer = module.Producer(
                [*first, *given.items()], log, lambda code, text: failed(KafkaError(code, text))
            )
        except ValueError as error:
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG, str(error))) from None

    def cluster_id(self, seconds: float) -> str | None:
        """Return the cluster's id, or None if no broker has answered after so many seconds."""
        found: str | None = self._producer.cluster_id(_milliseconds(seconds))
        return found

    def queue(self, partition: TopicPartition, batch: pa.RecordBatch) -> None:
        begin, count, columns = 0, batch.num_rows, _buffers(batch)
        while begin < count:
            queued, error = self._producer.append(*partition, begin, count, *columns, *MARK)
            _raise(error)
            begin += queued
            self._producer.poll(0 if begin == count else _milliseconds(FULL_QUEUE_SECONDS))

    def flush(self, seconds: float) -> int:
        left: int
        left, fatal = self._producer.flush(_milliseconds(seconds))
        _raise(fatal)
        return left

    def next_offset(self, partition: TopicPartition) -> int:
        offset: int = self._producer.next_offset(*partition)
        return offset

    def refusal(self) -> Refusal | None:
        if (found := self._producer.refused()) is None:
            return None
        topic, code = found
        return Refusal(topic, KafkaError(code))

    def misreport(self) -> Misreport | None:
        if (found := self._producer.misreported()) is None:
            return None
        topic, number, offset, lowest = found
        return Misreport(TopicPartition(topic, number), None if offset < 0 else offset, lowest)

    def reset(self) -> None:
        self._producer.reset()

    def init_transactions(self, seconds: float) -> None:
        _raise(self._producer.init_transactions(_milliseconds(seconds)))

    def begin_transaction(self) -> None:
        _raise(self._producer.begin_transaction())

    def commit_transaction(self, seconds: float) -> None:
        _raise(self._producer.commit_transaction(_milliseconds(seconds)))

    def abort_transaction(self, seconds: float) -> None:
        _raise(self._producer.abort_transaction(_milliseconds(seconds)))


def _milliseconds(seconds: float) -> int:
    return int(1000 * seconds)


def _raise(error: tuple[int, str, bool, bool, bool] | None) -> None:
    if error is not None:
        raise KafkaException(KafkaError(*error))


def _buffers(batch: pa.RecordBatch) -> tuple[Any, ...]:
    """Return the columns' buffers, each with the number of the row that is the first."""
    times, keys, values, headers = (batch.column(index) for index in range(4))
    if times.null_count:
        raise ValueError("a record has no timestamp")
    return (times.offset, times.buffers()[1]), _binary(keys), _binary(values), _headers(headers)


def _binary(column: Any) -> tuple[Any, ...]:
    return column.offset, *column.buffers()


def _headers(column: Any) -> tuple[Any, ...] | None:
    if column.null_count == len(column):
        return None
    names, contents = (column.values.field(number) for number in (0, 1))
    return (column.offset, *column.buffers()[:2]), _binary(names), _binary(contents)
