"""Dead letters by error and line, and sent back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.server.conftest import Client, Serve
from tests.server.test_gates import got

from tidegate import App, Topic
from tidegate.config.config import Config
from tidegate.log.records import Row, to_batch
from tidegate.log.sqlite.log import SqliteLog
from tidegate.server import dead_letters
from tidegate.server.tokens import Scope, add_token
from tidegate.testing import Driver
from tidegate.types import TopicPartition

LINES = Topic("lines", str)
NUMBERS = Topic("numbers", int)
LETTERS = TopicPartition("shop-dead-letters", 0)


def parsed(line: str) -> int:
    if line == "late":
        raise KeyError(line)
    return int(line)


def doubled(number: int) -> int:
    if number > 1000:
        raise ValueError("too large")
    return 2 * number


def shop() -> App:
    app = App("shop")
    numbers = app.stream(LINES, on_error="dead-letter").map(parsed)
    numbers.repartition("by").map(doubled).to(NUMBERS)
    return app


@pytest.fixture
def d(log: SqliteLog) -> Iterator[Driver]:
    with Driver(shop(), partitions=2, log=log) as made:
        made.send(LINES, "ada", "1", "two", "three", "late")
        made.run()
        yield made


def test_dead_letters_are_grouped_by_error_and_line(client: Client, d: Driver) -> None:
    assert len(d.dead_letters()) == 3
    found = got(client, "/apps/shop/dead-letters")
    assert (found["records"], found["at_least"], found["topic"]) == (3, False, "shop-dead-letters")
    first, second = found["groups"]
    assert (first["code"], first["count"], first["offsets"]) == ("user-code", 2, [0, 1])
    assert first["place"].partition(":")[0].endswith("test_dead_letters.py")
    assert "three" in first["message"]
    assert got(client, "/apps/shop/dead-letters", offsets=1)["groups"][0]["offsets"] == [1]
    assert first["sources"] == ["lines"]
    assert (second["count"], second["place"] != first["place"]) == (1, True)
    assert got(client, "/apps/none/dead-letters", code=404)["error"]["code"] == "never-started"


def test_only_the_newest_are_read(client: Client, d: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    assert d
    monkeypatch.setattr(dead_letters, "MOST_READ", 2)
    found = got(client, "/apps/shop/dead-letters")
    assert (found["records"], found["at_least"]) == (2, True)


def redriven(client: Client, *offsets: int, **headers: str) -> Any:
    answer = client.post(
        "/apps/shop/dead-letters/redrive",
        json={"offsets": list(offsets), "reason": "fixed"},
        headers=headers,
    )
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_dead_letter_goes_back_to_where_it_came_from(
    serve: Serve, d: Driver, log: SqliteLog, config: Config
) -> None:
    token = add_token(config.folder / "tokens.json", "olga", Scope.OPERATE)
    client = serve(token, tokens="tokens.json")
    letters = got(client, "/topics/shop-dead-letters/records")["records"]
    [done] = redriven(client, 1)["redriven"]
    assert (done["offset"], done["topic"]) == (1, "lines")
    path = f"/topics/lines/records/{done['partition']}/{done['to_offset']}"
    sent = got(client, path, internal_headers="true")["record"]
    assert (sent["key"], sent["value"]) == ("ada", "three")
    assert sent["timestamp"] == letters[1]["timestamp"]
    assert sent["headers"] == [
        ["tidegate.redrive.from", "shop-dead-letters/0/1"],
        ["tidegate.redrive.by", "olga"],
        ["tidegate.redrive.reason", "fixed"],
    ]
    d.run()
    assert len(d.dead_letters()) == 4, "it was processed again, and failed again"


def test_a_repeated_call_sends_once(client: Client, d: Driver, log: SqliteLog) -> None:
    assert d
    first = redriven(client, 0, **{"Idempotency-Key": "k"})
    assert redriven(client, 0, **{"Idempotency-Key": "k"}) == first
    ends = log.ends([TopicPartition("lines", 0), TopicPartition("lines", 1)])
    assert sum(ends.values()) == 5


def test_what_cannot_be_sent_back_is_refused_one_by_one(client: Client, d: Driver, log: SqliteLog) -> None:
    d.send(LINES, "ada", "5000")
    d.run()
    foreign = [(b"tidegate.error.position", b"elsewhere/0/1")]
    rows = [Row(b"k", b"v", 1), Row(b"k", b"v", 1, [(name.decode(), value) for name, value in foreign])]
    log.append(LETTERS, to_batch(rows))
    log.append(LETTERS, to_batch([Row(b"k", b"v", 1, [("tidegate.error.position", b"lines/7/1")])]))
    found = redriven(client, 3, 4, 5, 6, 0, 99)
    assert [one["offset"] for one in found["redriven"]] == [0]
    assert [(one["offset"], one["code"]) for one in found["refused"]] == [
        (3, "not-redrivable"),
        (4, "not-redrivable"),
        (5, "not-redrivable"),
        (6, "not-redrivable"),
        (99, "no-such-record"),
    ]
    assert "internal topic" in found["refused"][0]["message"], "it failed behind a repartition"


@pytest.mark.parametrize("body", [{}, {"offsets": []}, {"offsets": [-1]}, {"offsets": list(range(1001))}])
def test_bodies_that_name_no_dead_letters(client: Client, d: Driver, body: dict[str, Any]) -> None:
    assert d
    answer = client.post("/apps/shop/dead-letters/redrive", json=body)
    assert answer.json()["error"]["code"] == "bad-body"
