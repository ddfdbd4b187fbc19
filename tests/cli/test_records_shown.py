"""What `topics tail`, `topics rows` and `gates held` show of records: their own headers and their values."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from msgspec import Struct
from tests.cli.conftest import Run

from tidegate import App, TableTopic, Topic
from tidegate.log.sqlite.log import SqliteLog
from tidegate.serde.plain import PLAIN
from tidegate.testing import Driver


class Order(Struct, frozen=True):
    id: int
    note: str = ""


ORDERS = Topic("orders", Order)
PASSED = Topic("passed", Order)
COUNTS = TableTopic("counts", int)
NUMBERS = Topic("numbers", int, key=int)
TEXTS = Topic("texts", str, key=int)


def shop() -> App:
    app = App("shop")
    admitted = app.stream(ORDERS, on_error="dead-letter").gate("door")
    admitted.to(PASSED)
    admitted.count("counted").to(COUNTS)
    app.stream(NUMBERS).gate("slot").map(str).to(TEXTS)
    return app


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    (tmp_path / ".tidegate").mkdir()
    with (
        closing(SqliteLog(tmp_path / ".tidegate" / "log.db")) as log,
        Driver(shop(), log=log, partitions=1) as made,
    ):
        yield made


def tailed(run: Run, topic: str, *more: str) -> list[list[str]]:
    lines = run("topics", "tail", topic, "--from-start", "--timeout", "0", "--json", *more).lines
    return [[name for name, _ in line["headers"]] for line in lines]


def test_headers_of_tidegate_are_hidden_unless_requested(run: Run, driver: Driver) -> None:
    driver.send(ORDERS, "ada", Order(1), headers=[("source", b"web")])
    driver.run()
    assert tailed(run, "passed") == [["source"]]
    assert tailed(run, "passed", "--internal-headers") == [["source"]]
    [row] = run("topics", "rows", "counts", "--json").lines
    assert row["headers"] == [["source", "web"]]
    [row] = run("topics", "rows", "counts", "--json", "--internal-headers").lines
    assert [name for name, _ in row["headers"]] == ["source", "tidegate.owner"]
    assert "tidegate." not in run("topics", "rows", "counts").out
    assert "tidegate.owner=" in run("topics", "rows", "counts", "--internal-headers").out


def test_why_a_record_is_a_dead_letter_is_always_shown(run: Run, driver: Driver) -> None:
    driver.run()
    run("topics", "send", "orders", "ada", "no order")
    driver.run()
    [names] = tailed(run, "shop-dead-letters")
    assert "tidegate.error.code" in names
    assert "tidegate.origin" not in names


def test_held_events_are_shown_with_their_values(run: Run, driver: Driver) -> None:
    driver.run()
    driver.gate("door").pause("ada")
    driver.send(ORDERS, "ada", Order(1), headers=[("source", b"web")])
    driver.send(ORDERS, "ada", Order(2, "x" * 300))
    driver.run()
    shown = run("gates", "held", "door", "ada", "--json").json["events"]
    assert [one["value"] for one in shown] == [{"id": 1, "note": ""}, {"id": 2, "note": "x" * 300}]
    assert shown[0]["headers"] == [["source", "web"]]
    short = run("gates", "held", "door", "ada").out
    assert '{"id":1,"note":""}' in short
    assert "x" * 300 not in short
    assert "…" in short
    assert "x" * 300 in run("gates", "held", "door", "ada", "--full").out.replace("\n", "")


def test_held_values_are_read_as_the_gate_declares_them(run: Run, driver: Driver) -> None:
    driver.run()
    driver.gate("slot").pause(7)
    driver.send(NUMBERS, 7, 5, 2**60)
    driver.run()
    shown = run("gates", "held", "slot", "7", "--json").json["events"]
    assert [one["value"] for one in shown] == [5, 2**60]
    assert f"{2**60}" in run("gates", "held", "slot", "7").out
    [first, _] = run("gates", "held", "slot", "7", "--type", "bytes", "--json").json["events"]
    assert list(first["value"]) == ["base64"]


def test_a_held_value_that_is_not_what_the_gate_declares_is_shown_as_it_looks(
    run: Run, driver: Driver
) -> None:
    driver.run()
    driver.gate("slot").pause(7)
    key = json.dumps({"base64": "gAAAAAAAAAc="})
    assert PLAIN[int].encode(7).hex() == "8000000000000007"
    run("topics", "send", "numbers", "--input", "json", stdin=f'{{"key":{key},"value":"seven"}}\n')
    driver.run()
    [reported] = run("gates", "held", "slot", "7", "--json").json["events"]
    assert reported["value"] == "seven"
    assert "seven" in run("gates", "held", "slot", "7").out
