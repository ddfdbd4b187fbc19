"""Plain values: round trip, order of bytes, and refusal of everything else."""

from __future__ import annotations

import math
import struct
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from enum import IntEnum
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import repeated

from tidegate.errors import SerdeError
from tidegate.serde import Serde
from tidegate.serde.plain import PLAIN

pytestmark = pytest.mark.soak
law = settings(deadline=None, max_examples=repeated(80, soak=1_000))

INT, FLOAT, STR, BYTES, BOOL = (PLAIN[kind] for kind in (int, float, str, bytes, bool))
DATETIME, UUIDS = PLAIN[datetime], PLAIN[UUID]

int64s = st.integers(-(2**63), 2**63 - 1)
text = st.text(st.characters(exclude_categories=["Cs"]))
moments = st.datetimes(
    min_value=datetime(1, 1, 3),  # noqa: DTZ001 - Hypothesis adds the zone
    max_value=datetime(9999, 12, 29),  # noqa: DTZ001
    timezones=st.timezones() | st.just(UTC),
)
ALL = {
    "bytes": (BYTES, st.binary()),
    "str": (STR, text),
    "int": (INT, int64s),
    "float": (FLOAT, st.floats(allow_nan=False)),
    "bool": (BOOL, st.booleans()),
    "uuid": (UUIDS, st.uuids()),
    "datetime": (DATETIME, moments.map(lambda moment: moment.astimezone(UTC))),
}
ORDERED = [ALL[name] for name in ("str", "int", "float", "datetime", "uuid", "bytes", "bool")]
each = pytest.mark.parametrize(("serde", "values"), ALL.values(), ids=ALL)


class Size(IntEnum):
    LARGE = 3


class Nowhere(tzinfo):
    def utcoffset(self, _moment: datetime | None) -> None:
        return None

    dst = tzname = utcoffset


@each
@law
@given(data=st.data())
def test_every_value_comes_back_as_it_was(
    serde: Serde[Any], values: st.SearchStrategy[Any], data: Any
) -> None:
    value = data.draw(values)
    encoded = serde.encode(value)
    assert type(encoded) is bytes
    back = serde.decode(encoded)
    assert back == value
    assert type(back) is type(value)
    from_view = serde.decode(memoryview(encoded))  # type: ignore[arg-type]
    assert (from_view, type(from_view)) == (value, type(value))


@pytest.mark.parametrize(("serde", "values"), ORDERED, ids=lambda part: getattr(part, "name", ""))
@law
@given(data=st.data())
def test_bytes_sort_as_the_values_do(serde: Serde[Any], values: st.SearchStrategy[Any], data: Any) -> None:
    one, two = data.draw(values), data.draw(values)
    assert (serde.encode(one) < serde.encode(two)) == (one < two)
    assert (serde.encode(one) == serde.encode(two)) == (one == two)


@each
@law
@given(data=st.data())
def test_any_bytes_are_read_and_written_back_unchanged_or_refused(
    serde: Serde[Any], values: st.SearchStrategy[Any], data: Any
) -> None:
    garbage = data.draw(st.binary(max_size=20) | st.binary(min_size=8, max_size=8))
    try:
        value = serde.decode(garbage)
    except SerdeError:
        return
    assert serde.encode(value) == garbage


@pytest.mark.parametrize("kind", PLAIN, ids=str)
def test_a_value_of_another_type_is_refused_with_code_and_hint(kind: type) -> None:
    others: list[Any] = [None, [], object(), b"x", "x", 1, 1.5, True, UUID(int=1), datetime.now(UTC)]
    fitting = {int: (int,), float: (float, int)}.get(kind, (kind,))
    for other in others:
        if type(other) not in fitting:
            with pytest.raises(SerdeError) as caught:
                PLAIN[kind].encode(other)
            assert (caught.value.code, bool(caught.value.hint)) == ("wrong-type", True), other


def test_a_bool_is_no_int_and_no_float() -> None:
    for serde in (INT, FLOAT):
        with pytest.raises(SerdeError, match="wrong-type"):
            serde.encode(True)


def test_bytes_that_could_still_change_are_refused() -> None:
    for value in (bytearray(b"x"), memoryview(b"x")):
        with pytest.raises(SerdeError, match="wrong-type"):
            BYTES.encode(value)


def test_an_int_enum_is_an_int() -> None:
    assert INT.decode(INT.encode(Size.LARGE)) == 3


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**30])
def test_an_int_beyond_64_bits_is_refused(number: int) -> None:
    with pytest.raises(SerdeError, match=r"unencodable.*64 bits"):
        INT.encode(number)


def test_the_form_of_an_int_is_pinned() -> None:
    assert INT.encode(0).hex() == "8000000000000000"
    assert INT.encode(-1).hex() == "7fffffffffffffff"
    assert INT.encode(2**63 - 1).hex() == "ffffffffffffffff"


def test_the_form_of_a_float_is_pinned() -> None:
    assert FLOAT.encode(1.0).hex() == "bff0000000000000"
    assert FLOAT.encode(-1.0).hex() == "400fffffffffffff"


def test_minus_zero_is_written_as_zero() -> None:
    assert FLOAT.encode(-0.0) == FLOAT.encode(0.0)
    assert math.copysign(1, FLOAT.decode(FLOAT.encode(-0.0))) == 1


@law
@given(st.integers(0, 2**64 - 1).map(lambda bits: struct.unpack(">d", bits.to_bytes(8, "big"))[0]))
def test_nan_of_any_bits_is_one_nan_that_sorts_last(number: float) -> None:
    nan = FLOAT.encode(math.nan)
    assert math.isnan(FLOAT.decode(nan))
    if math.isnan(number):
        assert FLOAT.encode(number) == nan
    else:
        assert FLOAT.encode(number) < nan


@pytest.mark.parametrize("bits", ["7fffffffffffffff", "fff8000000000001", "0000000000000000"])
def test_bytes_of_another_nan_or_of_minus_zero_are_refused(bits: str) -> None:
    with pytest.raises(SerdeError, match="undecodable"):
        FLOAT.decode(bytes.fromhex(bits))


def test_an_int_is_taken_for_a_float_only_if_it_is_the_same_number() -> None:
    assert FLOAT.decode(FLOAT.encode(3)) == 3.0
    for number in (2**53 + 1, 10**400):
        with pytest.raises(SerdeError, match="unencodable"):
            FLOAT.encode(number)


@pytest.mark.parametrize("broken", ["\ud800", "a\udfffb"])
def test_a_lone_surrogate_is_refused(broken: str) -> None:
    with pytest.raises(SerdeError, match=r"unencodable.*surrogates"):
        STR.encode(broken)


@pytest.mark.parametrize("garbage", [b"\xff", b"\xed\xa0\x80", b"\xc0\x80", b"a\x80"])
def test_bytes_that_are_no_utf8_are_refused(garbage: bytes) -> None:
    with pytest.raises(SerdeError, match="undecodable"):
        STR.decode(garbage)


@law
@given(moments)
def test_a_datetime_comes_back_as_the_same_time_in_utc(moment: datetime) -> None:
    back = DATETIME.decode(DATETIME.encode(moment))
    assert back.tzinfo is UTC
    assert back == moment.astimezone(UTC)


def test_both_sides_of_a_repeated_hour_are_different_times() -> None:
    first = datetime(2024, 10, 27, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    second = first.replace(fold=1)
    assert DATETIME.decode(DATETIME.encode(second)) - DATETIME.decode(DATETIME.encode(first)) == timedelta(
        hours=1
    )


@pytest.mark.parametrize("zone", [None, Nowhere()])
def test_a_datetime_without_a_time_zone_is_refused(zone: tzinfo | None) -> None:
    with pytest.raises(SerdeError, match="no time zone"):
        DATETIME.encode(datetime(2024, 1, 1, tzinfo=zone))


def test_a_datetime_that_is_outside_the_calendar_in_utc_is_refused() -> None:
    early = datetime.min.replace(tzinfo=timezone(timedelta(hours=14)))
    late = datetime.max.replace(tzinfo=timezone(timedelta(hours=-12)))
    for moment in (early, late):
        with pytest.raises(SerdeError, match="unencodable"):
            DATETIME.encode(moment)


def test_the_first_and_the_last_datetime_come_back() -> None:
    for moment in (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)):
        assert DATETIME.decode(DATETIME.encode(moment)) == moment


def test_an_error_never_shows_the_value() -> None:
    with pytest.raises(SerdeError) as caught:
        INT.encode("s3cret")
    assert "s3cret" not in str(caught.value)


def test_schemas_differ_by_format() -> None:
    schemas = [serde.schema() for serde in PLAIN.values()]
    assert all(list(schema) == sorted(schema) for schema in schemas)
    assert len({tuple(schema.items()) for schema in schemas}) == len(PLAIN)
