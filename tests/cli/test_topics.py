"""`tidegate topics`: what it prints, what it refuses, and how."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.cli.conftest import Run

from tidegate import TableTopic, Topic, connect
from tidegate.log.records import Row, to_batch
from tidegate.types import Offset, TopicPartition

LOG = Path(".tidegate") / "log.db"


# create, list, describe


def test_a_topic_is_created_described_and_listed(run: Run) -> None:
    assert run("topics", "create", "orders").out == "created topic of events orders with 4 partitions\n"
    created = run("topics", "create", "totals", "--table", "--partitions", "2", "--json").json
    assert (created["created"], created["kind"], created["partitions"]) == (True, "table", 2)
    described = run("topics", "describe", "totals", "--json").json
    assert {"created": True, **described} == created
    assert described["config"] == {"cleanup.policy": "compact", "delete.retention.ms": "2592000000"}
    assert described["offsets"] == [{"partition": p, "start": 0, "end": 0} for p in (0, 1)]
    listed = run("topics", "list", "--json").json["topics"]
    assert [topic["topic"] for topic in listed] == ["orders", "totals"]
    assert listed[1] == described
    text = run("topics", "list").out.splitlines()
    assert [line.split() for line in text[1:]] == [
        ["orders", "events", "4", "0"],
        ["totals", "table", "2", "0"],
    ]
    shown = run("topics", "describe", "totals").out
    assert all(word in shown for word in ("totals", "table", described["id"], "compact", "history cut   "))


def test_creating_twice_finds_the_topic_unless_it_is_declared_differently(run: Run) -> None:
    run("topics", "create", "orders", "--partitions", "3", "--config", "retention.ms=5")
    assert run("topics", "create", "orders", "--json").json["created"] is False
    assert "already" in run("topics", "create", "orders", "--partitions", "3").out
    assert "[partition-count]" in run("topics", "create", "orders", "--partitions", "4", code=1).err
    assert "[other-policy]" in run("topics", "create", "orders", "--table", code=1).err
    assert "[other-config]" in run("topics", "create", "orders", "--config", "retention.ms=6", code=1).err
    assert run("topics", "describe", "orders", "--json").json["config"]["retention.ms"] == "5"


def test_history_that_was_cut_is_reported(run: Run, tmp_path: Path) -> None:
    run("topics", "create", "orders", "--partitions", "1")
    run("topics", "send", "orders", "k", "a", "b", "c")
    with connect(folder=tmp_path) as connection:
        connection.log.purge(TopicPartition("orders", 0), Offset(2))
    described = run("topics", "describe", "orders", "--json").json
    assert (described["history_cut"], described["offsets"][0]["start"]) == (True, 2)
    assert "yes" in run("topics", "describe", "orders").out


def test_the_log_of_the_file_or_of_the_flag_is_used(run: Run, tmp_path: Path) -> None:
    (tmp_path / "tidegate.toml").write_text('log = "sqlite:///mine.db"\npartitions = 7')
    run("topics", "create", "a")
    assert run("topics", "describe", "a", "--json").json["partitions"] == 7
    run("topics", "create", "b", "--log", "sqlite:///other.db")
    assert [topic["topic"] for topic in run("topics", "list", "--json").json["topics"]] == ["a"]
    assert (tmp_path / "mine.db").exists()
    assert (tmp_path / "other.db").exists()


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("bad name", "illegal-name"),
        ("..", "illegal-name"),
        ("a/b", "illegal-name"),
        ("", "illegal-name"),
        ("\x1b[31m", "illegal-name"),
        ("a" * 201, "illegal-name"),
        ("__consumer_offsets", "reserved-name"),
        ("orders.g2", "reserved-name"),
    ],
)
def test_a_name_that_cannot_be_is_refused_before_a_file_is_made(run: Run, name: str, code: str) -> None:
    ran = run("topics", "create", name, code=1)
    assert ran.err.startswith(f"[{code}] ")
    assert "  Do: " in ran.err
    assert "\x1b" not in ran.err
    assert run("topics", "create", "--json", "--", name, code=1).json["error"]["code"] == code
    assert not LOG.exists()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--config", "nonsense=1"], "bad-topic-config"),
        (["--config", "retention.ms"], "bad-topic-config"),
        (["--config", "retention.ms=soon"], "bad-topic-config"),
        (["--config", "cleanup.policy=compact"], "bad-topic-config"),
        (["--partitions", "0"], "bad-partitions"),
        (["--partitions", "10001"], "bad-partitions"),
    ],
)
def test_settings_that_make_no_sense_are_refused(run: Run, arguments: list[str], code: str) -> None:
    assert f"[{code}]" in run("topics", "create", "orders", *arguments, code=1).err
    if LOG.exists():
        assert run("topics", "list", "--json").json == {"topics": []}


# What is not there, and what is not ours


@pytest.mark.parametrize("verb", ["describe", "tail", "rows", "compact", "send"])
def test_looking_makes_no_log_and_no_topic(run: Run, verb: str) -> None:
    assert run("topics", verb, "orders", "--json", code=1).json["error"]["code"] == "no-log"
    assert not LOG.exists()
    run("topics", "create", "other")
    error = run("topics", verb, "orders", "--json", stdin="v\n", code=1).json["error"]
    assert (error["code"], error["hint"]) == ("no-such-topic", "tidegate topics create orders")
    assert [topic["topic"] for topic in run("topics", "list", "--json").json["topics"]] == ["other"]


def test_a_file_of_another_program_is_left_as_it_is(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "theirs.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE theirs (a)")
    before = file.read_bytes()
    for verb in (["list"], ["create", "a"], ["tail", "a"], ["send", "a", "k", "v"]):
        assert "[not-a-log]" in run("topics", *verb, "--log", "sqlite:///theirs.db", code=1).err
    assert file.read_bytes() == before


def test_urls_and_files_of_config_that_make_no_sense_are_reported(run: Run, tmp_path: Path) -> None:
    assert "[bad-log-url]" in run("topics", "list", "--log", "log.db", code=1).err
    assert "[bad-log-url]" in run("topics", "list", "--log", "kafka://a:1/topic", code=1).err
    (tmp_path / "tidegate.toml").write_text("partitons = 4")
    error = run("topics", "list", "--json", code=1).json["error"]
    assert (error["code"], "partitions" in error["hint"]) == ("unknown-setting", True)


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["topics", "create"],
        ["topics", "tail", "a", "--limit", "0"],
        ["topics", "tail", "a", "--limit", "many"],
        ["topics", "tail", "a", "--timeout", "-1"],
        ["topics", "tail", "a", "--type", "integer"],
        ["topics", "list", "--nonsense"],
        ["topics", "send", "a", "--tombstone"],
        ["topics", "send", "a", "k", "v", "--tombstone"],
        ["topics", "send", "a", "k", "--key-separator", ":"],
        ["topics", "send", "a", "k", "--input", "json"],
        ["topics", "send", "a", "--input", "json", "--key-separator", ":"],
        ["topics", "send", "a", "--key-separator", ""],
    ],
)
def test_wrong_use_ends_with_2(run: Run, arguments: list[str]) -> None:
    assert run(*arguments, code=2).out == ""


def test_help_and_version_are_there(run: Run) -> None:
    assert run("--version").out.startswith("tidegate ")
    for arguments in ([], ["topics"]):
        assert "topics" in run(*arguments, "--help").out


# rows and compact


def test_rows_are_shown_by_key_and_tombstones_are_gone(run: Run) -> None:
    run("topics", "create", "totals", "--table")
    for key, value in (("bob", "1"), ("ada", "2"), ("eve", "3"), ("bob", "4")):
        run("topics", "send", "totals", key, value, "--type", "int")
    run("topics", "send", "totals", "eve", "--tombstone")
    rows = run("topics", "rows", "totals", "--json").lines
    assert [(row["key"], row["value"]) for row in rows] == [("ada", 2), ("bob", 4)]
    assert run("topics", "rows", "totals", "--type", "int").out.split()[2:4] == ["ada", "2"]
    first = run("topics", "rows", "totals", "--limit", "1")
    assert (len(first.out.splitlines()), first.err) == (1, "1 more rows\n")
    assert len(run("topics", "rows", "totals", "--limit", "1", "--json").lines) == 1


def test_rows_are_for_tables_and_so_are_tombstones_and_compaction(run: Run) -> None:
    run("topics", "create", "orders")
    assert "[other-policy]" in run("topics", "rows", "orders", code=1).err
    assert "[other-policy]" in run("topics", "compact", "orders", code=1).err
    assert "[null-value]" in run("topics", "send", "orders", "ada", "--tombstone", code=1).err
    run("topics", "create", "totals", "--table")
    assert "[null-key]" in run("topics", "send", "totals", stdin="v\n", code=1).err


def test_compaction_keeps_the_newest_of_each_key(run: Run, tmp_path: Path) -> None:
    run("topics", "create", "totals", "--table", "--partitions", "1")
    run("topics", "send", "totals", "ada", *map(str, range(50)))
    assert run("topics", "compact", "totals").out == "compacted totals\n"
    assert run("topics", "compact", "totals", "--json").json == {"topic": "totals", "compacted": True}
    kept = run("topics", "tail", "totals", "--from-start", "--timeout", "0", "--json").lines
    assert [(record["offset"], record["value"]) for record in kept] == [(49, "49")]
    with connect(folder=tmp_path) as connection:
        assert connection.rows(TableTopic("totals", str)) == {"ada": "49"}


# tail


def test_tail_shows_text_for_people_and_objects_for_programs(run: Run, tmp_path: Path) -> None:
    with connect(folder=tmp_path) as connection:
        topic = Topic("orders", str, partitions=1)
        connection.send(topic, "ada", "{}", timestamp=0, headers=[("source", b"web"), ("trace", b"\xff")])
        connection.log.append(
            TopicPartition("orders", 0), to_batch([Row(None, None, 1), Row(b"", b"\xff", 2)])
        )
    shown = run("topics", "tail", "orders", "--from-start", "--timeout", "0").out.splitlines()
    assert shown == [
        "0:0  1970-01-01T00:00:00.000Z  ada  {}  source=web  trace=0xff (1 byte)",
        "0:1  1970-01-01T00:00:00.001Z  -  (tombstone)",
        '0:2  1970-01-01T00:00:00.002Z  ""  0xff (1 byte)',
    ]
    records = run("topics", "tail", "orders", "--from-start", "--timeout", "0", "--json").lines
    assert records[0]["headers"] == [["source", "web"], ["trace", {"base64": "/w=="}]]
    assert [record["value"] for record in records] == [{}, None, {"base64": "/w=="}]
    assert [record["key"] for record in records] == ["ada", None, ""]


def test_record_contents_are_neither_markup_nor_escape_codes(run: Run) -> None:
    run("topics", "create", "orders")
    run("topics", "send", "orders", "[red]k[/red]", "\x1b[31m[bold]v[/bold] :smile:\x07\x7f\x9b31m\u202e")
    for extra in ([], ["--json"]):
        out = run("topics", "tail", "orders", "--from-start", "--timeout", "0", *extra).out
        assert "[red]k[/red]" in out
        assert "[bold]v[/bold] :smile:" in out
        assert out.removesuffix("\n").isprintable()


def test_a_terminal_gets_our_styles_and_nothing_of_theirs(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    run("topics", "create", "orders")
    run("topics", "send", "orders", "\x1b[5mk", "[bold]v[/bold] \x1b]0;owned\x07" + "long " * 50)
    out = run("topics", "tail", "orders", "--from-start", "--timeout", "0").out
    assert "\x1b[2m" in out
    plain = re.sub(r"\x1b\[[0-9;]*m", "", out).removesuffix("\n")
    assert plain.isprintable()
    assert "\\x1b[5mk  [bold]v[/bold] \\x1b]0;owned\\x07long long" in plain
    assert "\x1b[31m[no-such-topic]" in run("topics", "rows", "nothing", code=1).err


def test_tail_counts_bounds_and_partitions(run: Run) -> None:
    run("topics", "create", "orders", "--partitions", "2")
    for number in range(6):
        run("topics", "send", "orders", stdin=f"{number}\n")
    tail = ("topics", "tail", "orders", "--json", "--timeout", "0")
    assert run(*tail).lines == []
    assert [record["value"] for record in run(*tail, "--from-start").lines] == list("012345")
    assert [record["value"] for record in run(*tail, "--from-start", "--limit", "2").lines] == ["0", "1"]
    assert [record["value"] for record in run(*tail, "--from-start", "--partition", "1").lines] == list("135")
    for partition in ("2", "-1"):
        assert run(*tail, "--partition", partition, code=1).json["error"]["code"] == "no-such-partition"


def test_a_wrong_type_ends_with_an_error_by_name_and_place(run: Run) -> None:
    run("topics", "create", "orders", "--partitions", "1")
    run("topics", "send", "orders", "ada", "text")
    tail = ("topics", "tail", "orders", "--from-start", "--timeout", "0")
    error = run(*tail, "--type", "int", "--json", code=1).json["error"]
    assert error["code"] == "undecodable"
    assert "orders/0 offset 0: value" in error["message"]
    assert "--key-type" in run(*tail, "--key-type", "json", code=1).err
    assert run(*tail, "--type", "str", "--key-type", "str").out.endswith("ada  text\n")
