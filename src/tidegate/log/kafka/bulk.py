"""The optional module `tidegate_bulk`, if it is installed and fits, and how records are read with it.

`native/` has its source and explains how it works: it is a plugin of librdkafka too, which is how it gets at
the consumer that confluent-kafka created. Of a consumer's work, all but fetching records stays with
confluent-kafka: settings, assignments, errors, logs, closing. Without the module `pages.py` does the same in
Python. `bulk_sender.py` writes with the module.
"""

from __future__ import annotations

import math
import time
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, cimpl

from tidegate.log.kafka.pages import Failure, Page, Part, page_of
from tidegate.log.kafka.zero_time import MARK
from tidegate.log.records import HEADERS_TYPE, NO_RECORDS, READ_SCHEMA, no_headers
from tidegate.types import TopicPartition

MODULE = "tidegate_bulk"
API = 2
PLUGINS = "plugin.library.paths"
LONGEST_MS = 1 << 30


class Bulk(NamedTuple):
    """The module, or why it is not used."""

    module: Any | None
    reason: str


@cache
def bulk() -> Bulk:
    """Return the compiled module; decided once for each process."""
    try:
        module: Any = import_module(MODULE)
    except ModuleNotFoundError:
        return Bulk(None, f"{MODULE} is not installed")
    except ImportError as error:
        return Bulk(None, f"{MODULE} cannot be loaded: {error}")
    return checked(module, cimpl.__file__)


def checked(module: Any, client: str | None) -> Bulk:
    """Return the module if it fits this tidegate and librdkafka, which the library `client` brought."""
    if getattr(module, "API", None) != API:
        return Bulk(None, f"{MODULE} is for another version of tidegate: install it again")
    reason = module.load(client or "", module.__file__)
    return Bulk(module, "") if reason is None else Bulk(None, reason)


def with_plugin(settings: dict[str, Any], module: Any) -> dict[str, Any]:
    """Return a client's settings with the module as a plugin, after those that the user named."""
    named = settings.get(PLUGINS)
    return settings | {PLUGINS: f"{named};{module.__file__}" if named else module.__file__}


class BulkPages:
    """Fetches pages of records as columns."""

    def __init__(self, module: Any, number: int, consumer: Consumer) -> None:
        """`number` is the module's for this consumer, to which nothing was assigned yet."""
        self._module = module
        self._number = number
        self._consumer = consumer
        self._module.detach(number)
        self._by_client = 1
        """How many events to poll with the client before the next fetch: callbacks may wait among them, and
        run only inside of the client's calls. After `detach` they come before any record: one is enough."""

    def poll(self, room: int, timeout: float) -> Page:
        deadline = time.monotonic() + timeout
        while True:
            if self._by_client > 0:
                messages = self._consumer.consume(room, 0.0)
                self._by_client = self._by_client - room if len(messages) == room else 0
                if messages:
                    return page_of(messages)
            left = math.ceil(1000 * max(0.0, deadline - time.monotonic()))
            found = self._module.fetch(self._number, room, min(left, LONGEST_MS), *MARK)
            if not isinstance(found, int):
                return _page(*found)
            self._by_client = found

    def close(self) -> None:
        self._module.attach(self._number)


def _page(partitions: list[Any], failure: Any) -> Page:
    if failure is None:
        return Page([_part(*one) for one in partitions])
    topic, number, code, text = failure
    partition = None if topic is None else TopicPartition(topic, number)
    return Page([], Failure(partition, KafkaError(code, text)))


def _part(
    topic: str,
    number: int,
    ended: bool,
    offset: int,
    count: int,
    offsets: Any,
    timestamps: Any,
    keys: Any,
    values: Any,
    headers: Any,
) -> Part:
    partition = TopicPartition(topic, number)
    if not count:
        return Part(partition, ended, offset, NO_RECORDS)
    columns = [
        *(_column(pa.int64(), count, None, numbers) for numbers in (offsets, timestamps)),
        *(_column(pa.binary(), count, *buffers) for buffers in (keys, values)),
        no_headers(count) if headers is None else _headers(count, *headers),
    ]
    return Part(partition, ended, offset, pa.RecordBatch.from_arrays(columns, schema=READ_SCHEMA))


def _headers(count: int, pairs: int, validity: Any, ends: Any, names: Any, contents: Any) -> pa.Array[Any]:
    parts = [_text(_column(pa.binary(), pairs, *names)), _column(pa.binary(), pairs, *contents)]
    structs = pa.StructArray.from_arrays(parts, fields=list(HEADERS_TYPE.value_type))
    buffers = [None if validity is None else pa.py_buffer(validity), pa.py_buffer(ends)]
    listed: pa.Array[Any] = pa.Array.from_buffers(HEADERS_TYPE, count, buffers, children=[structs])
    return listed


def _text(names: pa.Array[Any]) -> pa.Array[Any]:
    """Return names of headers as text. What is not UTF-8 is replaced, as Kafka's client for Java does."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([name.decode(errors="replace") for name in names.to_pylist()], pa.string())


def _column(kind: Any, count: int, *buffers: Any) -> pa.Array[Any]:
    made: pa.Array[Any] = pa.Array.from_buffers(
        kind, count, [None if one is None else pa.py_buffer(one) for one in buffers]
    )
    return made
