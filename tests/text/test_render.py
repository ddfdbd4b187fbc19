"""Whatever bytes are in a record, what is shown of them is printable and names their kind."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidegate.cli.records import Display, line, record
from tidegate.errors import SerdeError
from tidegate.log.records import ReadRow
from tidegate.serde.plain import PLAIN
from tidegate.text.render import ValueKind, as_json, printable, printable_json, shown, when
from tidegate.types import TopicPartition

PARTITION = TopicPartition("t", 2)
NASTY = b"\x1b]0;owned\x07\x1b[31m \xc2\x9b31m \xe2\x80\xae \x7f \x00 \r\n"

some_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
any_bytes = (
    st.binary()
    | st.binary(min_size=8, max_size=8)
    | st.text().map(lambda text: text.encode("utf-8", "replace"))
    | some_json.map(lambda value: json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
)


@given(any_bytes)
@example(NASTY)
@example(b'{"a": "' + NASTY.replace(b"\x1b", b"").replace(b"\x00", b"") + b'"}')
@example(b"")
@example(b"x" * 10_000)
def test_the_view_of_any_bytes_is_one_printable_line(data: bytes) -> None:
    text = shown(data)
    assert text
    assert text.isprintable()
    assert len(text) < 3_000


@given(any_bytes, st.sampled_from(ValueKind))
def test_a_named_type_shows_a_printable_line_or_an_error_by_name(data: bytes, kind: ValueKind) -> None:
    try:
        assert shown(data, kind).isprintable()
        as_json(data, kind)
    except SerdeError as error:
        refused = error.code
    else:
        refused = ""
    assert refused in ("", "undecodable")
    if kind is ValueKind.BYTES or (kind is ValueKind.STR and not _is_binary(data)):
        assert not refused


@given(any_bytes | st.none(), any_bytes | st.none(), st.text() | st.just("\x1b[0m"), any_bytes | st.none())
def test_lines_and_objects_of_any_record_are_printable(
    key: bytes | None, value: bytes | None, name: str, header: bytes | None
) -> None:
    row = ReadRow(7, 1_700_000_000_000, key, value, ((name, header),))
    assert line(PARTITION, row, Display()).plain.isprintable()
    text = printable_json(msgspec.json.encode(record(PARTITION, row, Display())).decode())
    assert text.isprintable()
    parsed = json.loads(text)
    assert parsed["headers"][0][0] == name
    assert (parsed["value"] is None) == (value is None)


@given(st.text())
def test_escaped_json_is_the_same_json(text: str) -> None:
    escaped = printable_json(json.dumps({"a": text}, ensure_ascii=False))
    assert escaped.isprintable()
    assert json.loads(escaped) == {"a": text}


@given(any_bytes)
def test_bytes_named_as_bytes_come_whole(data: bytes) -> None:
    assert base64.b64decode(as_json(data, ValueKind.BYTES)["base64"]) == data


def _is_binary(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return True
    return False


@pytest.mark.parametrize(
    ("data", "text", "value"),
    [
        (b"ada", "ada", "ada"),
        ("Zoë 漢字 🙂".encode(), "Zoë 漢字 🙂", "Zoë 漢字 🙂"),
        (b"", '""', ""),
        (b"two\nlines\t", "two\\nlines\\t", "two\nlines\t"),
        (b"\x1b[31mred text", "\\x1b[31mred text", "\x1b[31mred text"),
        (b"[bold]markup[/bold]", "[bold]markup[/bold]", "[bold]markup[/bold]"),
        (b'{"a" : [1, 2.50, null] }', '{"a":[1,2.50,null]}', {"a": [1, 2.5, None]}),
        (b'{"a": "\xc2\x9b"}', '{"a":"\\u009b"}', {"a": "\x9b"}),
        (b"{not json}", "{not json}", "{not json}"),
        (b"[" * 50_000, None, None),
        (PLAIN[int].encode(42), "42", 42),
        (PLAIN[int].encode(-1), "-1", -1),
        (PLAIN[int].encode(1_700_000_000_000), "1700000000000", 1_700_000_000_000),
        (PLAIN[float].encode(19.99), "19.99", 19.99),
        (PLAIN[float].encode(-0.5), "-0.5", -0.5),
        (b"ABCDEFGH", "ABCDEFGH", "ABCDEFGH"),
        (b"\xde\xad\xbe\xef\x01\x02\x03\x04", "0xdeadbeef01020304 (8 bytes)", {"base64": "3q2+7wECAwQ="}),
        (b"\x01", "0x01 (1 byte)", {"base64": "AQ=="}),
        (b"\xff" * 2048, f"0x{'ff' * 16}… (2,048 bytes)", None),
        (b"\x00\x00\x00\x00text", "0x0000000074657874 (8 bytes)", None),
    ],
)
def test_bytes_are_shown_as_what_they_most_likely_are(data: bytes, text: str | None, value: Any) -> None:
    if text is not None:
        assert shown(data) == text
    found = json.loads(msgspec.json.encode(as_json(data)))
    assert value is None or found == value


@pytest.mark.parametrize(
    ("kind", "data", "text", "value"),
    [
        (ValueKind.STR, b'{"a": 1}', '{"a": 1}', '{"a": 1}'),
        (ValueKind.INT, PLAIN[int].encode(2**62), str(2**62), 2**62),
        (ValueKind.FLOAT, PLAIN[float].encode(1 / 3), "0.3333333333333333", 1 / 3),
        (ValueKind.FLOAT, PLAIN[float].encode(float("nan")), "nan", "NaN"),
        (ValueKind.FLOAT, PLAIN[float].encode(float("-inf")), "-inf", "-Infinity"),
        (ValueKind.BOOL, b"\x01", "true", True),
        (ValueKind.BYTES, b"ada", "0x616461 (3 bytes)", {"base64": "YWRh"}),
        (ValueKind.JSON, b'"ada"', '"ada"', "ada"),
        (ValueKind.JSON, b" 5 ", "5", 5),
    ],
)
def test_a_named_type_is_shown_as_that(kind: ValueKind, data: bytes, text: str, value: Any) -> None:
    assert shown(data, kind) == text
    assert json.loads(msgspec.json.encode(as_json(data, kind))) == value


def test_a_long_value_is_cut_for_people_and_whole_for_programs() -> None:
    assert shown(b"x" * 5_000).endswith("x… (5,000 bytes)")
    assert as_json(b"x" * 5_000) == "x" * 5_000


@pytest.mark.parametrize(
    ("millis", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_738_317_600_123, "2025-01-31T10:00:00.123Z"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        (253_402_300_800_000, "253402300800000 ms"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (-(2**63), f"{-(2**63)} ms"),
    ],
)
def test_times_are_shown_in_utc_and_absurd_ones_as_numbers(millis: int, text: str) -> None:
    assert when(millis) == text


def test_what_is_missing_is_reported_as_missing() -> None:
    reported = line(PARTITION, ReadRow(7, 0, None, None, (("h", None),)), Display()).plain
    assert re.fullmatch(r"2:7  1970-\S+  -  \(tombstone\)  h=-", reported)


def test_a_wrong_type_is_reported_with_the_place_and_the_option() -> None:
    row = ReadRow(7, 0, b"key", b"value", ())
    for look, option in (
        (Display(ValueKind.INT, None), "--key-type"),
        (Display(None, ValueKind.INT), "--type"),
    ):
        for view in (line, record):
            with pytest.raises(SerdeError) as error:
                view(PARTITION, row, look)
            assert error.value.position == ("t", 2, 7)
            assert option in error.value.hint


def test_a_surrogate_in_a_message_does_not_reach_the_terminal() -> None:
    assert printable("a\ud800b\U000e0001") == "a\\ud800b\\U000e0001"
