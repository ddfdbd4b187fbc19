"""`tidegate topics send`: from arguments and from stdin, in batches, and what happens at a bad line."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run
from tests.log.anatomy import stored

from tidegate import Topic, connect
from tidegate.log.partitioner import partition_for
from tidegate.log.sqlite.log import SqliteLog
from tidegate.serde.plain import PLAIN

NOW = 1_750_000_000_000


@pytest.fixture
def topic(run: Run) -> str:
    run("topics", "create", "orders", "--partitions", "2")
    return "orders"


def records(run: Run, *extra: str) -> list[dict[str, Any]]:
    return run("topics", "tail", "orders", "--from-start", "--timeout", "0", "--json", *extra).lines


def raw(folder: Path) -> list[tuple[bytes | None, bytes | None]]:
    with connect(folder=folder) as connection:
        found = connection.read(Topic("orders", bytes, key=bytes))
        return [(record.key, record.value) for record in found]


def test_arguments_are_one_key_and_its_values_in_one_append(run: Run, topic: str) -> None:
    partition = partition_for(b"ada", 2)
    sent = run("topics", "send", topic, "ada", "a", "b", "--json").json
    assert sent == {"topic": topic, "sent": 2, "offsets": {str(partition): 1}}
    text = run("topics", "send", topic, "ada", "c").out
    assert text == f"sent 1 to orders (up to partition {partition} offset 2)\n"
    assert [record["value"] for record in records(run)] == ["a", "b", "c"]


def test_stdin_is_one_value_per_line(run: Run, topic: str, tmp_path: Path) -> None:
    run("topics", "send", topic, stdin=b"a\r\n\n b \nlast")
    run("topics", "send", topic, "ada", stdin="c\n")
    assert sorted(raw(tmp_path), key=str) == sorted(
        [(None, b"a"), (None, b""), (None, b" b "), (None, b"last"), (b"ada", b"c")], key=str
    )


def test_a_dash_in_the_last_place_is_stdin(run: Run, topic: str, tmp_path: Path) -> None:
    run("topics", "send", topic, "-", stdin="hello world\nhello\n")
    run("topics", "send", topic, "ada", "-", stdin="c\n")
    run("topics", "send", topic, "-", "--key-separator", ":", stdin="bob:d\n")
    run("topics", "send", topic, "-", "a dash as key")
    assert sorted(raw(tmp_path), key=str) == sorted(
        [(None, b"hello world"), (None, b"hello"), (b"ada", b"c"), (b"bob", b"d"), (b"-", b"a dash as key")],
        key=str,
    )
    run("topics", "create", "rows", "--table")
    run("topics", "send", "rows", "-", "--tombstone", stdin="not read\n")
    [deleted] = run("topics", "tail", "rows", "--from-start", "--timeout", "0", "--json").lines
    assert (deleted["key"], deleted["value"]) == ("-", None)


def test_lines_without_a_key_take_turns(run: Run, topic: str) -> None:
    run("topics", "send", topic, stdin="1\n2\n3\n4\n")
    assert sorted((record["partition"], record["value"]) for record in records(run)) == [
        (0, "1"),
        (0, "3"),
        (1, "2"),
        (1, "4"),
    ]


def test_stdin_with_a_separator_has_keys(run: Run, topic: str, tmp_path: Path) -> None:
    run("topics", "send", topic, "--key-separator", "\\t", stdin="ada\ta\tb\n\tempty key\n")
    assert set(raw(tmp_path)) == {(b"ada", b"a\tb"), (b"", b"empty key")}


def test_types_define_how_text_becomes_bytes(run: Run, topic: str, tmp_path: Path) -> None:
    for kind, text, data in (
        ("int", "-42", PLAIN[int].encode(-42)),
        ("float", "1e3", PLAIN[float].encode(1000.0)),
        ("bool", "true", b"\x01"),
        ("json", '{"a": 1}', b'{"a": 1}'),
        ("bytes", "a\r", b"a\r"),
        ("str", "42", b"42"),
    ):
        run("topics", "send", topic, "7", "--key-type", "int", "--type", kind, stdin=f"{text}\n")
        assert raw(tmp_path)[-1] == (PLAIN[int].encode(7), data)


@pytest.mark.parametrize(
    ("kind", "text"),
    [("int", "4.5"), ("int", "٤"), ("int", "1_000"), ("int", str(2**63)), ("int", "9" * 5000), ("int", "")]
    + [("float", "x"), ("float", "."), ("float", "1.2.3"), ("bool", "yes"), ("json", "{a}"), ("json", "")],
)
def test_text_that_is_no_value_of_the_type_is_refused(run: Run, topic: str, kind: str, text: str) -> None:
    error = run("topics", "send", topic, "--type", kind, "--json", "--", "k", text, code=1).json["error"]
    assert (error["code"], bool(error["hint"])) == ("unencodable", True)
    assert records(run) == []


def test_bytes_that_are_no_text_need_the_type_bytes(run: Run, topic: str, tmp_path: Path) -> None:
    assert "[unencodable] line 1: " in run("topics", "send", topic, stdin=b"\xff\n", code=1).err
    run("topics", "send", topic, "--type", "bytes", stdin=b"\xff\n")
    assert raw(tmp_path) == [(None, b"\xff")]


def test_json_lines_carry_the_whole_record(run: Run, topic: str) -> None:
    given = {
        "key": "ada",
        "value": {"cents": 5},
        "headers": [["a", "1"], ["a", {"base64": "/w=="}], ["b", None]],
        "timestamp": NOW,
        "partition": 1,
    }
    other = '{"value": "text", "headers": {"x": "y"}, "timestamp": "1970-01-01T00:00:01Z"}'
    stdin = f"{json.dumps(given)}\n\n{other}\n"
    assert run("topics", "send", topic, "--input", "json", "--json", stdin=stdin).json["sent"] == 2
    second, first = records(run)
    assert first == {"topic": topic, "offset": 0, **given}
    assert (second["key"], second["value"], second["timestamp"]) == (None, "text", 1000)
    assert second["headers"] == [["x", "y"]]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("not json", "bad-json-line"),
        ("[]", "bad-json-line"),
        ('{"key": "no value"}', "bad-json-line"),
        ('{"value": 1, "nonsense": 2}', "bad-json-line"),
        ('{"value": "\\ud800"}', "bad-json-line"),
        ('{"value": 1, "timestamp": "later"}', "bad-json-line"),
        ('{"value": ' + "[" * 100_000, "bad-json-line"),
        ('{"value": null}', "null-value"),
        ('{"value": {"base64": "?"}}', "unencodable"),
        ('{"value": 1, "headers": {"tidegate.owner": "me"}}', "reserved-name"),
        ('{"value": 1, "timestamp": -1}', "bad-timestamp"),
        ('{"value": 1, "timestamp": 253402300800000}', "bad-timestamp"),
        ('{"value": 1, "timestamp": 99999999999999999999}', "bad-timestamp"),
        ('{"value": 1, "timestamp": "2025-01-01T00:00:00"}', "bad-timestamp"),
        ('{"value": 1, "partition": 2}', "no-such-partition"),
        ('{"value": 1, "partition": -1}', "no-such-partition"),
        ('{"value": "' + "x" * 2_000_000 + '"}', "record-too-large"),
    ],
)
def test_at_a_bad_line_what_stands_before_it_is_sent_and_nothing_after(
    run: Run, topic: str, line: str, code: str
) -> None:
    good = '{"value": "good"}'
    stdin = f"{good}\n{good}\n{line}\n{good}"
    error = run("topics", "send", topic, "--input", "json", "--json", stdin=stdin, code=1).json["error"]
    assert error["code"] == code
    assert error["message"].startswith("line 3: ")
    assert error["message"].endswith("; 2 records before it were sent")
    assert error["hint"]
    assert [record["value"] for record in records(run)] == ["good", "good"]


def test_what_tail_prints_send_takes_back_to_the_byte(run: Run, topic: str, tmp_path: Path) -> None:
    sent = [(b"\xff\x00", b"text"), (None, b'{"a":1}'), (b"", b"\x80\x00"), (b"\t", b"\x1b")]
    with connect(folder=tmp_path) as connection:
        for key, value in sent:
            connection.send(Topic(topic, bytes, key=bytes), key, value, headers=[("h", b"\xfe"), ("h", None)])
    printed = run("topics", "tail", topic, "--from-start", "--timeout", "0", "--json").out
    before = [{**record, "offset": 0} for record in records(run)]
    run("topics", "send", topic, "--input", "json", stdin=printed)
    after = [{**record, "offset": 0} for record in records(run)]
    assert sorted(after, key=str) == sorted(before * 2, key=str)
    assert sorted(raw(tmp_path), key=str) == sorted(sent * 2, key=str)


def test_types_named_on_both_sides_bring_numbers_back(run: Run, topic: str, tmp_path: Path) -> None:
    types = ("--key-type", "int", "--type", "float")
    run("topics", "send", topic, *types, "--key-separator", "=", stdin="5=1.5\n6=nan\n7=-inf\n")
    before = raw(tmp_path)
    printed = run("topics", "tail", topic, "--from-start", "--timeout", "0", "--json", *types).out
    run("topics", "send", topic, "--input", "json", *types, stdin=printed)
    assert sorted(raw(tmp_path), key=str) == sorted(before * 2, key=str)


def test_a_large_record_and_an_endless_line_are_refused(run: Run, topic: str) -> None:
    error = run("topics", "send", topic, "--json", stdin=b"x" * 50_000_000, code=1).json["error"]
    assert (error["code"], "line 1 " in error["message"]) == ("record-too-large", True)
    error = run("topics", "send", topic, "--json", stdin=b"a\n" + b"x" * 2_000_000 + b"\nb\n", code=1).json[
        "error"
    ]
    assert (error["code"], error["message"][:7]) == ("record-too-large", "line 2:")
    assert [record["value"] for record in records(run)] == ["a"]


def test_many_lines_need_few_commits(run: Run, topic: str, tmp_path: Path) -> None:
    lines = [f"key-{number}:{number}" for number in range(20_000)]
    run("topics", "send", topic, "--key-separator", ":", stdin="\n".join(lines))
    with closing(SqliteLog(tmp_path / ".tidegate" / "log.db", upkeep=False)) as log:
        commits = [span.count for one in stored(log).values() for span in one.spans]
    assert sum(commits) == 20_000
    assert len(commits) <= 4
    found = raw(tmp_path)
    assert {f"{key.decode()}:{value.decode()}" for key, value in found if key and value} == set(lines)
    for partition in (0, 1):
        with connect(folder=tmp_path) as connection:
            mine = [r.value for r in connection.read(Topic(topic, str), partition=partition)]
        assert mine == sorted(mine, key=int)
