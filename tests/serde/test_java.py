"""Numbers as Java's serializers write them: the same bytes, so the same partitions."""

from __future__ import annotations

import struct
from enum import IntEnum

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate import App, JavaInteger, JavaLong, TableTopic, Topic
from tidegate.errors import SerdeError
from tidegate.serde import Serde
from tidegate.serde.plain import PLAIN
from tidegate.spark.store_source import serde_of
from tidegate.testing import Driver
from tidegate.text.parse import from_text
from tidegate.text.render import ValueKind, shown

law = settings(deadline=None, max_examples=200)
KINDS = {"java-long": (JavaLong(), 63, ">q"), "java-int": (JavaInteger(), 31, ">i")}
each = pytest.mark.parametrize(("serde", "bits", "form"), KINDS.values(), ids=KINDS)


class Size(IntEnum):
    LARGE = 3


@each
@law
@given(data=st.data())
def test_the_bytes_are_those_of_a_java_data_output(
    serde: Serde[int], bits: int, form: str, data: st.DataObject
) -> None:
    number = data.draw(st.integers(-(2**bits), 2**bits - 1))
    encoded = serde.encode(number)
    assert encoded == struct.pack(form, number)
    assert serde.decode(encoded) == number
    assert serde.encode_many([number, 0]) == [encoded, struct.pack(form, 0)]
    assert serde.decode_many([encoded]) == [number]


@each
def test_what_is_no_such_number_is_refused(serde: Serde[int], bits: int, form: str) -> None:
    assert serde.encode(Size.LARGE) == struct.pack(form, 3)
    for value, code in ((2**bits, "unencodable"), (-(2**bits) - 1, "unencodable"), (True, "wrong-type")):
        with pytest.raises(SerdeError) as error:
            serde.encode(value)
        assert error.value.code == code
    for data in (b"", b"\x00" * 3, b"\x00" * 9):
        with pytest.raises(SerdeError) as error:
            serde.decode(data)
        assert error.value.code == "undecodable"


@each
def test_their_schema_is_not_that_of_int_and_leads_back_to_them(
    serde: Serde[int], bits: int, form: str
) -> None:
    assert bits
    assert serde.schema() != PLAIN[int].schema()
    assert serde_of(serde.schema()).encode(-5) == struct.pack(form, -5)


def test_java_numbers_can_be_given_on_the_command_line() -> None:
    assert from_text(b"-5", ValueKind("java-long")) == struct.pack(">q", -5)
    assert from_text(b"7", ValueKind("java-int")) == struct.pack(">i", 7)
    assert shown(struct.pack(">i", -7), ValueKind.JAVA_INT) == "-7"
    with pytest.raises(SerdeError):
        from_text(b"5.5", ValueKind.JAVA_LONG)


@pytest.mark.parametrize("batches", [True, False])
def test_a_topic_keyed_by_java_longs_is_counted_where_its_keys_lie(batches: bool) -> None:
    events = Topic("events", str, key=JavaLong())
    counts = TableTopic("counts", JavaLong(), key=JavaLong())
    app = App("java")
    app.stream(events).count("counts-by-id").to(counts)
    with Driver(app, partitions=3, batches=batches) as d:
        for number in range(-6, 7):
            d.send(events, number, "one", "two")
        d.run()
        assert d.rows(counts) == dict.fromkeys(range(-6, 7), 2)
        sides = [{key for key, _ in part} for part in d.by_partition(counts)]
        assert sides == [{key for key, _ in part} for part in d.by_partition(events)]


@each
def test_spark_has_them_as_whole_numbers(serde: Serde[int], bits: int, form: str) -> None:
    from pyspark.sql.types import LongType

    from tidegate.spark.spark_types import part_of

    assert bits
    assert form
    assert part_of(serde).type == LongType()
