"""The log at work, as one story that checks its own sums; `StoryLog` is the log.

1 create the topics; 2 several writers send orders in transactions while a follower keeps totals, which it
writes in one transaction with its position; 3 meanwhile a writer aborts and a zombie is fenced; 4 compare
every sum with a plain fold over the source; 5 compact, and compare again.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from hashlib import sha256
from typing import Protocol

import msgspec

from tidegate.connect.connection import Connection
from tidegate.errors import FencedError
from tidegate.log.ensure import ensure_topic
from tidegate.log.partitioner import partition_for
from tidegate.log.positions import Position, TaskId, position_row, positions_topic, read_positions
from tidegate.log.protocol import Fetched, Log, Writer
from tidegate.log.reads import nothing_between
from tidegate.log.records import Row, rows_of, to_batch
from tidegate.topics import TableTopic, Topic
from tidegate.types import Offset, TopicPartition

APP = "story"
SEED = 7
PARTITIONS = 4
WRITERS = 3
TRANSACTIONS = 52
ORDERS_EACH = 250
CUSTOMERS = 2_000
STRAY = 500
FOLLOWED_EACH = 300
FIRST_TIME = 1_735_689_600_000
SEGMENT_MS = 1_800_000
PATIENCE_SECONDS = 20.0


class Order(msgspec.Struct, frozen=True):
    """One order; its key is the customer."""

    id: int
    cents: int


class Totals(msgspec.Struct, frozen=True):
    """What a customer ordered so far."""

    orders: int = 0
    cents: int = 0
    seal: str = ""
    """A hash over the orders, one after the other: none was lost, doubled, or taken out of turn."""


ORDERS = Topic("orders", Order, partitions=PARTITIONS)
TOTALS = TableTopic("customer-totals", Totals, partitions=PARTITIONS)
Orders = list[tuple[str, Order]]


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What happened, in numbers."""

    orders: int
    transactions: int
    follower_commits: int
    table_records: int
    rows: int
    aborted: int
    fenced: str
    records_after: int


class StoryLog(Protocol):
    """Where the story's log is."""

    def open(self) -> Log:
        """The log, which leaves its tables alone until `compact`."""
        ...

    def compact(self) -> None:
        """Leave the newest record of each key of TOTALS, and return when it is done."""
        ...


def run(ground: StoryLog) -> Figures:
    """Do all of it in a new log; AssertionError if any sum is off."""
    source = [order for writer in range(WRITERS) for order in _source(writer)] + _takeover()
    expected = _sums(_fold(source))
    with closing(ground.open()) as log:
        for topic in (ORDERS, TOTALS):
            table = isinstance(topic, TableTopic)
            config = {"segment.ms": str(SEGMENT_MS)} if table else {}
            ensure_topic(log, topic.name, table=table, partitions=PARTITIONS, default=1, config=config)
        log.create(positions_topic(APP))
        commits, fenced = _at_work(log, len(source))
        totals = _check(log, expected, len(source))
        written = sum(1 for _ in Connection(log, owned=False).read(TOTALS))
    ground.compact()
    with closing(ground.open()) as log:
        connection = Connection(log, owned=False)
        if connection.rows(TOTALS) != totals:
            raise AssertionError("compaction changed a row")
        left = sum(1 for record in connection.read(TOTALS) if record.value is not None)
    return Figures(
        orders=len(source),
        transactions=WRITERS * TRANSACTIONS + 1,
        follower_commits=commits,
        table_records=written,
        rows=len(expected),
        aborted=STRAY,
        fenced=fenced,
        records_after=left,
    )


def _source(writer: int) -> Orders:
    """The orders of one writer, the same each time."""
    chance = random.Random(SEED * 100 + writer)
    return [
        (f"customer-{int(chance.triangular(0, CUSTOMERS, 0)):04}", Order(index, chance.randint(100, 50_000)))
        for index in range(TRANSACTIONS * ORDERS_EACH)
    ]


def _takeover() -> Orders:
    """The orders that a writer was about to send when it was replaced."""
    return [("customer-0042", Order(index, 1_000)) for index in range(STRAY)]


def _fold(orders: Iterable[tuple[str, Order]]) -> dict[str, Totals]:
    totals: dict[str, Totals] = {}
    for customer, order in orders:
        totals[customer] = _add(totals.get(customer, Totals()), order)
    return totals


def _add(total: Totals, order: Order) -> Totals:
    seal = sha256(f"{total.seal} {order.id} {order.cents}".encode()).hexdigest()
    return Totals(total.orders + 1, total.cents + order.cents, seal)


def _sums(totals: dict[str, Totals]) -> dict[str, tuple[int, int]]:
    return {customer: (total.orders, total.cents) for customer, total in totals.items()}


def _at_work(log: Log, expected: int) -> tuple[int, str]:
    """Steps 2 and 3, in threads. The follower's commits, and how the zombie was refused."""
    given_up = threading.Event()
    with ThreadPoolExecutor(WRITERS + 3) as pool:
        try:
            follower = pool.submit(_follow, log, expected, given_up)
            writers = [pool.submit(_write, log, writer, given_up) for writer in range(WRITERS)]
            aborted = pool.submit(_abort, log)
            zombie = pool.submit(_zombie, log)
            for job in (*writers, aborted):
                job.result()
            return follower.result(), zombie.result()
        finally:
            given_up.set()  # Ctrl-C comes to this thread alone


def _write(log: Log, writer: int, given_up: threading.Event) -> None:
    orders = _source(writer)
    with closing(log.writer(f"{APP}-source-{writer}")) as opened:
        for first in range(0, len(orders), ORDERS_EACH):
            if given_up.is_set():
                return
            _append(opened, orders[first : first + ORDERS_EACH])
            opened.commit()


def _abort(log: Log) -> None:
    with closing(log.writer(f"{APP}-aborting")) as opened:
        _append(opened, [("ghost", Order(index, 1)) for index in range(STRAY)])
        opened.abort()


def _zombie(log: Log) -> str:
    """A writer stops before its commit; a newer one of the same id does the work; then the old one wakes."""
    with closing(log.writer(f"{APP}-shop")) as zombie:
        _append(zombie, _takeover())
        with closing(log.writer(f"{APP}-shop")) as newer:
            _append(newer, _takeover())
            newer.commit()
        try:
            zombie.commit()
        except FencedError as error:
            return error.message
    raise AssertionError("a fenced writer could commit")


def _append(writer: Writer, orders: Orders) -> None:
    rows: dict[int, list[Row]] = {}
    for customer, order in orders:
        key = ORDERS.encode_key(customer) or b""
        row = Row(key, ORDERS.encode_value(order), FIRST_TIME + order.id)
        rows.setdefault(partition_for(key, PARTITIONS), []).append(row)
    for partition, listed in rows.items():
        writer.append(TopicPartition(ORDERS.name, partition), to_batch(listed))


def _follow(log: Log, expected: int, given_up: threading.Event) -> int:
    """Keep totals of all orders, until so many came. How many commits it took."""
    totals: dict[str, Totals] = {}
    seen = commits = 0
    deadline = time.monotonic() + PATIENCE_SECONDS
    starts = {partition: Offset(0) for partition in _partitions(ORDERS.name)}
    with closing(log.writer(f"{APP}-totals")) as writer, closing(log.reader(starts)) as reader:
        while seen < expected and not given_up.is_set():
            if time.monotonic() > deadline:
                raise AssertionError(f"only {seen:,} of {expected:,} orders came")
            for fetched in _slices(reader.poll(0.1)):
                changed = set()
                for customer, order in _decoded(fetched):
                    totals[customer] = _add(totals.get(customer, Totals()), order)
                    changed.add(customer)
                    seen += 1
                _write_totals(writer, fetched, {customer: totals[customer] for customer in changed})
                writer.commit()
                commits += 1
                deadline = time.monotonic() + PATIENCE_SECONDS
    return commits


def _slices(fetched: list[Fetched]) -> Iterator[Fetched]:
    """The same in portions of one commit each."""
    for part in fetched:
        for first in range(0, part.batch.num_rows, FOLLOWED_EACH):
            batch = part.batch.slice(first, FOLLOWED_EACH)
            yield Fetched(part.partition, batch, Offset(batch.column(0)[-1].as_py() + 1))


def _decoded(fetched: Fetched) -> Iterator[tuple[str, Order]]:
    for row in rows_of(fetched.batch):
        customer, order = ORDERS.decode_key(row.key), ORDERS.decode_value(row.value)
        if customer is None or order is None:
            raise AssertionError(f"{fetched.partition} offset {row.offset} is no order")
        yield customer, order


def _write_totals(writer: Writer, fetched: Fetched, changed: dict[str, Totals]) -> None:
    """The totals, and the position up to which they are the sum: seen together or never."""
    number = fetched.partition.partition
    table = TopicPartition(TOTALS.name, number)
    rows = [
        Row(TOTALS.encode_key(customer), TOTALS.encode_value(total), FIRST_TIME)
        for customer, total in changed.items()
    ]
    writer.append(table, to_batch(rows))
    position = Position(
        sources={ORDERS.name: {number: fetched.next}}, changelogs={TOTALS.name: writer.flush([table])[table]}
    )
    reported = position_row(TaskId(APP, 1, 0, number), position, FIRST_TIME)
    writer.append(TopicPartition(positions_topic(APP).name, 0), to_batch([reported]))


def _check(log: Log, expected: dict[str, tuple[int, int]], orders: int) -> dict[str, Totals]:
    """Step 4: what can be read is what was sent, once each, and the positions say so too. The totals."""
    connection = Connection(log, owned=False)
    read = [(record.key, record.value) for record in connection.read(ORDERS)]
    folded = _fold(read)
    if len(read) != orders or _sums(folded) != expected:
        raise AssertionError(f"{len(read):,} orders can be read, {orders:,} were committed")
    if connection.rows(TOTALS) != folded:
        raise AssertionError("the totals in the table are not the sums of the orders")
    ends = log.ends([*_partitions(ORDERS.name), *_partitions(TOTALS.name)])
    for task, position in read_positions(log, APP).items():
        for name, at in (
            (ORDERS.name, position.sources[ORDERS.name][task.partition]),
            (TOTALS.name, position.changelogs[TOTALS.name]),
        ):
            partition = TopicPartition(name, task.partition)
            end = ends[partition]  # on Kafka a mark of the commit stands before it
            if at > end or not nothing_between(log, partition, at, end):
                raise AssertionError(f"{task} stands at {at} of {partition}, which ends at {end}")
    return folded


def _partitions(topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(PARTITIONS)]
