"""What a sink writes: columns of models and of table topics, upserts, deletions."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC

import pytest
from tests.models.app import EVENTS, Closed, Started, StepDone
from tests.sinks.app import COUNTS, FULL, NOON, STOCK, TOTALS, Place, Stock, Total, shop
from tests.sinks.conftest import MakeCopies

from tidegate.errors import SerdeError
from tidegate.models import NEVER, answer, apply, from_columns
from tidegate.testing import Driver


@pytest.fixture
def d() -> Iterator[Driver]:
    with Driver(shop(), partitions=2) as made:
        yield made


def test_a_table_has_the_key_and_a_column_for_each_field_of_the_value(
    d: Driver, copies_of: MakeCopies
) -> None:
    d.send(TOTALS, "ada", FULL)
    d.send(TOTALS, "bob", Total(1))
    copies = copies_of(d)
    copies.catch_up(tables=["customer-totals"], models=[])
    ada, bob = copies.rows("customer_totals")
    assert ada.pop("at").replace(tzinfo=UTC) == NOON
    assert ada == {
        "key": "ada",
        "orders": 3,
        "average": 1.25,
        "name": "Ada ✓",
        "paid": True,
        "raw": b"\x00\xff",
        "number": "00000000-0000-0000-0000-000000000007",
        "parts": '{"a":[1,2]}',
    }
    assert (bob["orders"], bob["name"], bob["at"], bob["parts"]) == (1, None, None, "{}")


def test_changed_rows_are_replaced_and_deleted_ones_removed(d: Driver, copies_of: MakeCopies) -> None:
    copies = copies_of(d)
    d.send(TOTALS, "ada", Total(1), Total(2))
    d.send(TOTALS, "bob", Total(1))
    sink = copies.catch_up(models=[])
    assert (sink.counts.records, sink.counts.written) == (3, 2)
    d.send(TOTALS, "ada", Total(3), None)
    d.send(TOTALS, "bob", None, Total(7))
    copies.catch_up(models=[])
    assert [(row["key"], row["orders"]) for row in copies.rows("customer_totals")] == [("bob", 7)]


def test_a_key_of_several_fields_has_several_columns_and_no_two_columns_one_name(
    d: Driver, copies_of: MakeCopies
) -> None:
    d.send(STOCK, Place("north", 1), Stock("x", 5))
    d.send(STOCK, Place("north", 2), Stock("y"))
    copies = copies_of(d)
    copies.catch_up(tables=["stock"], models=[])
    d.send(STOCK, Place("north", 2), None)
    copies.catch_up(tables=["stock"], models=[])
    row = {"key_shop": "north", "key_shelf": 1, "value_key_shop": "x", "value_xmin": 5}
    assert copies.rows("stock") == [row]


def test_a_value_that_is_no_struct_is_one_column(d: Driver, copies_of: MakeCopies) -> None:
    d.send(COUNTS, -7, 12)
    copies = copies_of(d)
    copies.catch_up(tables=["counts"], models=[], prefix="shop_")
    assert copies.rows("shop_counts") == [{"key": -7, "value": 12}]


def test_any_client_of_a_model_can_be_answered_from_its_table(d: Driver, copies_of: MakeCopies) -> None:
    d.send(EVENTS, "w1", Started("Ship"), StepDone("pack", 1.5))
    d.send(EVENTS, "w2", Started("Never mind"), Closed())
    d.run()
    model, copies = d.model("workflows"), copies_of(d)
    copies.catch_up(tables=[])
    first, gone = (from_columns(row) for row in copies.rows("workflows"))
    held, state = first.token("w1"), answer("w1", first, None)
    assert state == model.since("w1")
    assert answer("w2", gone, None) == model.since("w2")
    d.send(EVENTS, "w1", StepDone("send", 2.0))
    d.run()
    copies.catch_up(tables=[])
    newest = from_columns(copies.rows("workflows")[0])
    frame = answer("w1", newest, held)
    assert frame == model.since("w1", held)
    assert frame is not None
    assert state is not None
    assert apply(state.state, frame.patch) == newest.document()  # type: ignore[arg-type]
    assert answer("w3", NEVER, None) == model.since("w3")


def test_a_record_that_cannot_be_a_row_stops_the_sink_and_names_its_position(
    d: Driver, copies_of: MakeCopies
) -> None:
    d.send(TOTALS, "ada", Total(1 << 63))
    copies = copies_of(d)
    with pytest.raises(SerdeError, match=r"customer-totals/\d offset 0") as caught:
        copies.catch_up(models=[])
    assert caught.value.code == "bad-row"
    assert copies.rows("customer_totals") == []


def test_a_record_that_is_skipped_leaves_no_outdated_row(d: Driver, copies_of: MakeCopies) -> None:
    d.send(TOTALS, "ada", Total(1))
    d.send(TOTALS, "bob", Total(2))
    copies = copies_of(d)
    copies.catch_up(models=[])
    d.send(TOTALS, "ada", Total(1 << 63))
    sink = copies.catch_up(models=[], on_error="skip")
    assert [row["key"] for row in copies.rows("customer_totals")] == ["bob"]
    assert sink.counts.skipped == 1
    assert isinstance(copies.noticed[-1], SerdeError)


def test_text_with_nul_is_kept_where_the_database_can_keep_it(d: Driver, copies_of: MakeCopies) -> None:
    d.send(TOTALS, "a\0b", Total(1))
    copies = copies_of(d)
    if copies.place["url"].startswith("sqlite"):
        copies.catch_up(models=[])
        assert copies.rows("customer_totals")[0]["key"] == "a\0b"
    else:
        with pytest.raises(SerdeError, match="NUL"):
            copies.catch_up(models=[])
