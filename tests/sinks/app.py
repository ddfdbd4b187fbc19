"""The app of these tests: two table topics and a model."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from msgspec import Struct
from tests.models.app import EVENTS, Workflow, reducer

from tidegate import App, TableTopic


class Total(Struct, frozen=True):
    """One field of each kind."""

    orders: int
    average: float = 0.5
    name: str | None = None
    paid: bool = False
    raw: bytes = b""
    at: datetime | None = None
    number: UUID | None = None
    parts: dict[str, list[int]] = {}


@dataclass(frozen=True)
class Place:
    shop: str
    shelf: int


class Stock(Struct, frozen=True):
    """Its field has the name of a column of the key."""

    key_shop: str
    xmin: int = 0


TOTALS = TableTopic("customer-totals", Total)
STOCK = TableTopic("stock", Stock, key=Place)
COUNTS = TableTopic("counts", int, key=int)
NOON = datetime(2026, 3, 4, 12, 0, 0, 250_000, tzinfo=UTC)
FULL = Total(3, 1.25, "Ada ✓", True, b"\x00\xff", NOON, UUID(int=7), {"a": [1, 2]})


def shop() -> App:
    app = App("shop")
    app.table(TOTALS)
    app.table(STOCK)
    app.table(COUNTS)
    app.model("workflows", source=EVENTS, initial=Workflow)(reducer)
    return app
