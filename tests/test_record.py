"""Records: what they hold and how they are changed."""

from __future__ import annotations

import gc

import msgspec
import pytest

from tidegate.record import Record

HEADERS = (("trace", b"1"), ("other", b"x"), ("trace", b"2"), ("empty", None))
RECORD = Record("ada", 500, 1_700_000_000_000, HEADERS, "orders", 3, 42)


def test_the_order_of_its_parts_is_pinned() -> None:
    names = ("key", "value", "timestamp", "headers", "topic", "partition", "offset")
    assert Record.__struct_fields__ == names
    assert msgspec.structs.astuple(RECORD) == ("ada", 500, 1_700_000_000_000, HEADERS, "orders", 3, 42)


def test_a_record_made_by_hand_stands_nowhere() -> None:
    made = Record("ada", 500, 0)
    assert (made.headers, made.topic, made.partition, made.offset) == ((), "", -1, -1)


def test_a_record_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        RECORD.value = 1  # type: ignore[misc]


def test_the_last_header_of_a_name_counts() -> None:
    assert RECORD.header("trace") == b"2"
    assert RECORD.header("empty") is None
    assert RECORD.header("missing") is None
    assert RECORD.headers == HEADERS


def test_another_value_changes_nothing_else() -> None:
    changed: object = RECORD.with_value([1])
    assert changed == msgspec.structs.replace(RECORD, value=[1])
    assert RECORD.value == 500


def test_another_key_changes_nothing_else() -> None:
    changed: object = RECORD.with_key(7)
    assert changed == msgspec.structs.replace(RECORD, key=7)
    assert RECORD.key == "ada"


def test_the_garbage_collector_does_not_look_at_records() -> None:
    assert not gc.is_tracked(Record("ada", [1], 0))


def test_a_record_can_be_annotated_with_its_types() -> None:
    assert Record[str, int]("ada", 500, 0) == Record("ada", 500, 0)
