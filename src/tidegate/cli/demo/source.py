"""An endless source of orders, with the same customers and amounts in each run.

Each customer's orders are numbered 1, 2, 3, ..., so that their order can be checked.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from types import TracebackType

import msgspec

from tidegate.connect.connection import Connection
from tidegate.topics import TableTopic, Topic

SEED = 7
PER_SECOND = 200
LARGEST_BURST = 3
BEHIND_SECONDS = 0.5
"""A source that is delayed for longer does not catch up."""

# fmt: off
CUSTOMERS = (
    "ada", "bob", "cleo", "dan", "eva", "finn", "gus", "hana", "ivy", "jon",
    "kim", "leo", "mia", "ned", "olga", "pia", "quin", "rosa", "sam", "tess",
)
# fmt: on


class Order(msgspec.Struct, frozen=True):
    """An order, as in the example."""

    id: int
    cents: int


class Totals(msgspec.Struct, frozen=True):
    """The totals of a customer, as in the example."""

    orders: int = 0
    cents: int = 0

    def plus(self, order: Order) -> Totals:
        return Totals(self.orders + 1, self.cents + order.cents)


ORDERS = Topic("orders", Order)
ADMITTED = Topic("orders-orders-gate-admitted", Order)
TOTALS = TableTopic("customer-totals", Totals)


def bursts(seed: int = SEED) -> Iterator[tuple[str, list[Order]]]:
    """Yield customers with the orders of one burst, endlessly. Customers early in the alphabet buy more."""
    chance = random.Random(seed)
    numbers = dict.fromkeys(CUSTOMERS, 0)
    weights = range(2 * len(CUSTOMERS), len(CUSTOMERS), -1)
    while True:
        [customer] = chance.choices(CUSTOMERS, weights)
        first = numbers[customer] + 1
        numbers[customer] += chance.randint(1, LARGEST_BURST)
        yield (
            customer,
            [Order(number, chance.randint(100, 50_000)) for number in range(first, numbers[customer] + 1)],
        )


class Source:
    """Sends orders in a thread of its own, from `with` to `stop`."""

    def __init__(self, connection: Connection, per_second: int = PER_SECOND) -> None:
        self._connection = connection
        self._per_second = per_second
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tidegate-demo-source", daemon=True)
        self._sent: dict[str, Totals] = {}
        self._failed: Exception | None = None

    def __enter__(self) -> Source:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def sent(self) -> dict[str, Totals]:
        """The totals of the orders sent so far. Raises the error that ended the source, if there is one."""
        if self._failed is not None:
            raise self._failed
        return dict(self._sent)

    def stop(self) -> None:
        """Stop, and wait until the last order is in the log. May be called again."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        due = time.monotonic()
        try:
            for customer, orders in bursts():
                self._connection.send(ORDERS, customer, *orders)
                total = self._sent.get(customer, Totals())
                for order in orders:
                    total = total.plus(order)
                self._sent[customer] = total
                due = max(due + len(orders) / self._per_second, time.monotonic() - BEHIND_SECONDS)
                if self._stopping.wait(max(0.0, due - time.monotonic())):
                    return
        except Exception as error:  # noqa: BLE001 - raised again by `sent`
            self._failed = error
