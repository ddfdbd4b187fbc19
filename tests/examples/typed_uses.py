"""Right and wrong uses of the API, for the type checker. Nothing here runs.

A wrong use carries an ignore with its code: an ignore that is not needed is an error of its own, so each must
stay wrong.
"""

from __future__ import annotations

from typing import assert_type

from examples.orders.orders import ORDERS, TOTALS, Config, Order, Totals, add
from examples.orders.orders import app as orders
from examples.wordcount.wordcount import COUNTS, LINES, words

from tidegate import App, Context, Record, Secret, TableTopic, Topic, stores
from tidegate.dsl.stream import Stream
from tidegate.dsl.table import GroupedTable, Table
from tidegate.stores import KeyValueStore
from tidegate.testing import Driver

SIZES = Topic("sizes", int)
BY_NUMBER = TableTopic("by-number", str, key=int)
REGIONS = TableTopic("regions", str)
SEEN = stores.key_value("seen", bool, key=int)


def cents(order: Order) -> int:
    return order.cents


def with_region(order: Order, region: str) -> str:
    return f"{order.id} {region}"


def with_perhaps(order: Order, region: str | None) -> str:
    return f"{order.id} {region or '?'}"


def first_only(record: Record[str, Order], ctx: Context[str, Order]) -> None:
    seen = assert_type(ctx.store(SEEN), KeyValueStore[int, bool])
    if seen.get(record.value.id) is None:
        seen.put(record.value.id, True)
        ctx.forward(record)


def streams_and_tables_know_their_types(app: App) -> None:
    lines = assert_type(app.stream(LINES), Stream[str, str])
    assert_type(lines.flat_map(words), Stream[str, str])
    assert_type(lines.map(len), Stream[str, int])
    counts = assert_type(lines.group_by("by-word", lambda word: word).count("counts"), Table[str, int])
    counts.to(COUNTS)
    placed = app.stream(ORDERS)
    assert_type(placed.aggregate("totals", Totals, add), Table[str, Totals])
    assert_type(placed.sum("cents", cents), Table[str, int])
    assert_type(placed.group_by("by-id", lambda order: order.id, key=int), Stream[int, Order])
    assert_type(placed.process("first-only", first_only, stores=[SEEN]), Stream[str, Order])
    parts = assert_type(placed.branch(big=lambda order: order.cents > 100), dict[str, Stream[str, Order]])
    parts["rest"].merge(parts["big"])
    assert_type(app.table(REGIONS).group_by("by-text", lambda text: text), GroupedTable[str, str])
    rows = assert_type(app.stream(TOTALS), Stream[str, Totals | None])
    rows.gate("door").to(TOTALS)
    regions = assert_type(app.table(REGIONS), Table[str, str])
    assert_type(placed.join(regions, with_region), Stream[str, str])
    assert_type(placed.left_join(regions, with_perhaps), Stream[str, str])
    assert_type(app.table(BY_NUMBER), Table[int, str])


def a_driver_reads_what_the_topic_holds(d: Driver) -> None:
    assert_type(d.rows(TOTALS), dict[str, Totals])
    assert_type(d.values(ORDERS), list[Order])
    assert_type(d.by_key(TOTALS), dict[str, list[Totals | None]])
    d.send(ORDERS, "ada", Order(1, 500))
    d.send(ORDERS, "ada", "an order")  # type: ignore[misc]


def settings_are_typed() -> None:
    config = Config(min_cents=5, pager_key=Secret("k"))
    assert_type(config.min_cents, int)
    assert_type(config.pager_key, Secret | None)
    assert_type(orders(Config.load()), App)
    Config(min_cents="5")  # type: ignore[arg-type]
    Config(max_cents=5)  # type: ignore[call-arg]
    config.min_cents = 6  # type: ignore[misc]


def a_wrong_sink_is_an_error(app: App) -> None:
    app.stream(LINES).to(SIZES)  # type: ignore[arg-type]


def a_table_over_events_is_an_error(app: App) -> None:
    app.table(LINES)  # type: ignore[arg-type]


def another_key_than_that_of_the_sink_is_an_error(app: App) -> None:
    named = app.stream(LINES).group_by("by-size", len, key=int)
    named.count("sizes").to(COUNTS)  # type: ignore[arg-type]


def a_key_that_is_no_str_needs_its_type(app: App) -> None:
    app.stream(ORDERS).group_by("by-id", lambda order: order.id)  # type: ignore[type-var]
    app.table(TOTALS).group_by("by-cents", lambda total: total.cents)  # type: ignore[arg-type]


def a_function_of_another_input_is_an_error(app: App) -> None:
    app.stream(LINES).map(cents)  # type: ignore[arg-type]
    app.stream(ORDERS).aggregate("totals", int, add)  # type: ignore[misc]


def a_join_with_a_table_of_another_key_is_an_error(app: App) -> None:
    app.stream(ORDERS).join(app.table(BY_NUMBER), with_region)  # type: ignore[arg-type]
