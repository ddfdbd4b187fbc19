"""The rows that an upgrade would publish, over HTTP: pages, kinds, exact numbers, cut values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.server.conftest import Client
from tests.server.test_gates import got
from tests.upgrade.test_upgrade import ORDERS, TOTALS, shop

from tidegate import App, TableTopic, Topic, UpgradeError
from tidegate.log.sqlite.log import SqliteLog
from tidegate.server import upgrade_rows
from tidegate.testing import Driver
from tidegate.upgrade import differing_rows
from tidegate.upgrade.comparison import PartitionComparison
from tidegate.upgrade.consent import Consent

WORDS, TEXTS = Topic("words", str), TableTopic("texts", str)
LARGE = 2**62 + 1


def texts(suffix: str = "") -> App:
    """Without a suffix only short words; with one all of them, changed, and none that begins with x."""
    app = App("texts")
    words = app.stream(WORDS)
    if suffix == "":
        words = words.filter(lambda word: len(word) < 2000)
    else:
        words = words.filter(lambda word: not word.startswith("x")).map(lambda word: word + suffix)
    words.to(TEXTS)
    return app


def waits(d: Driver, app: App) -> None:
    with pytest.raises(UpgradeError, match="upgrade-waits"):
        d.upgrade(app, Consent())


@pytest.fixture
def totals(log: SqliteLog) -> Iterator[Driver]:
    with Driver(shop(), partitions=2, log=log) as d:
        for number in range(30):
            d.send(ORDERS, f"k{number:02}", LARGE + number)
        d.send(ORDERS, "small", 1)
        d.run()
        yield d


@pytest.fixture
def changed(log: SqliteLog) -> Iterator[Driver]:
    with Driver(texts(), partitions=1, log=log) as d:
        d.send(WORDS, "a", "one")
        d.send(WORDS, "b", "x two")
        d.send(WORDS, "c", "long" * 1000)
        d.run()
        yield d


def rows(client: Client, app: str, sink: str, **query: Any) -> Any:
    return got(client, f"/upgrades/{app}/rows/{sink}", **query)


def test_every_row_is_on_one_page_with_all_its_digits(client: Client, totals: Driver) -> None:
    waits(totals, shop(300))
    found, after = [], None
    while True:
        page = rows(client, "shop", "totals", limit=7, **({} if after is None else {"after": after}))
        assert len(page["rows"]) <= 7
        found += page["rows"]
        after = page["next"]
        if after is None:
            break
    assert {row["key"]: row["before"]["value"] for row in found} == {
        f"k{number:02}": LARGE + number for number in range(30)
    }
    assert [(row["partition"], row["key"]) for row in found] == sorted(
        (row["partition"], row["key"]) for row in found
    )
    assert {(row["kind"], row["after"]) for row in found} == {("removed", None)}
    record = got(client, found[0]["before"]["path"])["record"]
    assert (record["key"], record["value"]) == (found[0]["key"], found[0]["before"]["value"])
    assert (page["generation"], page["state"]) == (2, "waiting")


def test_rows_are_new_changed_or_removed_and_long_values_are_cut(client: Client, changed: Driver) -> None:
    waits(changed, texts("!"))
    page = rows(client, "texts", "texts", preview=5)
    assert [(row["key"], row["kind"]) for row in page["rows"]] == [
        ("a", "changed"),
        ("b", "removed"),
        ("c", "new"),
    ]
    one, two, three = page["rows"]
    assert (one["before"]["value"], one["after"]["value"]) == ("one", "one!")
    assert two["before"]["value"] == "x two"
    assert three["after"] == {"cut": {"preview": "longl", "bytes": 4001}}
    for kind, key in (("new", "c"), ("changed", "a"), ("removed", "b")):
        assert [row["key"] for row in rows(client, "texts", "texts", kind=kind)["rows"]] == [key]
    assert len(rows(client, "texts", "texts", kind="new")["rows"][0]["after"]["cut"]["preview"]) == 1000
    whole = rows(client, "texts", "texts", kind="new", preview=10_000)["rows"][0]["after"]["value"]
    assert whole == "long" * 1000 + "!"


def test_further_pages_come_from_one_comparison_until_a_topic_grows(
    client: Client, totals: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits(totals, shop(300))
    compared = []
    make = PartitionComparison

    def counting(*given: Any, **named: Any) -> Any:
        compared.append(named)
        return make(*given, **named)

    monkeypatch.setattr(differing_rows, "PartitionComparison", counting)
    first = rows(client, "shop", "totals", limit=7)
    rows(client, "shop", "totals", limit=7, after=first["next"])
    assert len(compared) == 2, "one for each partition"
    assert {one["memory"] for one in compared} == {differing_rows.MEMORY}
    other = App("other")
    other.stream(WORDS).map(len).to(TOTALS)
    with Driver(other, partitions=2, log=totals.log) as d:
        d.send(WORDS, "k07", "another writer")
        d.run()
    found = rows(client, "shop", "totals", limit=100)["rows"]
    assert len(compared) == 4
    assert len(found) == 29
    assert "k07" not in {row["key"] for row in found}


def test_a_window_that_is_short_leads_on_to_the_next(
    client: Client, totals: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upgrade_rows, "KEPT_ROWS", 5)
    test_every_row_is_on_one_page_with_all_its_digits(client, totals)


def test_without_an_upgrade_that_compared_there_are_no_rows(client: Client, changed: Driver) -> None:
    def code(path: str) -> tuple[int, str]:
        answer = client.get(path)
        return answer.status_code, answer.json()["error"]["code"]

    assert code("/upgrades/texts/rows/texts") == (404, "no-upgrade")
    waits(changed, texts("!"))
    assert code("/upgrades/texts/rows/else") == (404, "no-such-table")
    assert code("/upgrades/texts/rows/texts?after=eHg=") == (400, "bad-cursor")
    assert code("/upgrades/texts/rows/texts?kind=odd")[0] == 400
    assert code("/upgrades/none/rows/texts")[1] == "never-started"
    changed.upgrade(texts("!"), Consent(yes=True, removals=frozenset({"texts"})))
    assert code("/upgrades/texts/rows/texts") == (404, "no-upgrade")
