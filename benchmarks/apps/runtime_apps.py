"""The two apps of `benchmarks.runtime`: a count over whole batches, and a processor record by record."""

from __future__ import annotations

import msgspec

from tidegate import App, Context, Record, TableTopic, Topic, stores


class Order(msgspec.Struct, frozen=True):
    id: int
    cents: int
    note: str = ""


ORDERS = Topic("orders", Order)
COUNTS = TableTopic("counts", int)
SUMS = TableTopic("sums", int)
KEPT = stores.key_value("kept", int)


def add(record: Record[str, Order], ctx: Context[str, int]) -> None:
    """Decode, get, put, forward."""
    kept = ctx.store(KEPT)
    total = (kept.get(record.key) or 0) + record.value.cents
    kept.put(record.key, total)
    ctx.forward(record.with_value(total))


counting = App("counting")
counting.stream(ORDERS).count("counted").to(COUNTS)

adding = App("adding")
adding.stream(ORDERS).process("add", add, stores=[KEPT]).to(SUMS)
