"""The audit records of all gates."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.gate.app import gated
from tests.gate.working import Working
from tests.server.conftest import Client
from tests.server.test_gates import APPLIED, got, posted

from tidegate import App, Topic
from tidegate.clock import SystemClock
from tidegate.gate.formats import Audit
from tidegate.log.records import Row, to_batch
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.driver.prepare import prepare
from tidegate.server import record_pages
from tidegate.types import TopicPartition


def test_what_all_gates_applied_is_one_list(client: Client, log: SqliteLog, tmp_path: Path) -> None:
    other = App("other")
    other.stream(Topic("more", int)).gate("hatch").to(Topic("out", int))
    prepare(other.build(), log, SystemClock(), partitions=1)
    working = Working(log, tmp_path)
    try:
        posted(client, "/gates/door/keys/ada/pause", {"reason": "one", "actor": "eve"}, **APPLIED)
        posted(client, "/gates/door/keys/b%2Fb/pause", {"reason": "two"}, **APPLIED)
        posted(client, "/gates/door/keys/ada/resume", {"reason": "three"}, **APPLIED)
    finally:
        working.close()
    log.append(TopicPartition("other-hatch-audit", 0), to_batch([Row(b"x", b"of another program", 1)]))
    found = got(client, "/summary/audit")["records"]
    assert [(one["key"], one["state"], one["reason"]) for one in found] == [
        ("ada", "PAUSED", "one"),
        ("b/b", "PAUSED", "two"),
        ("ada", "ACTIVE", "three"),
    ]
    assert (found[0]["app"], found[0]["gate"], found[0]["actor"]) == ("gated", "door", "eve")
    assert found[1]["path"] == "/gates/door/keys/b%2Fb"
    newest = got(client, "/summary/audit", limit=2)
    assert [one["reason"] for one in newest["records"]] == ["two", "three"]
    older = got(client, "/summary/audit", limit=2, before=newest["previous"])
    assert [one["reason"] for one in older["records"]] == ["one"]
    of_key = got(client, "/summary/audit", key="ada", gate="door")["records"]
    assert [one["reason"] for one in of_key] == ["one", "three"]
    assert got(client, "/summary/audit", app="other")["records"] == []


def test_filters_look_beyond_the_first_page_and_report_how_far(
    client: Client, log: SqliteLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(gated().build(), log, SystemClock(), partitions=2)
    rows = [
        Row(
            b"k%d" % number,
            msgspec.json.encode(
                Audit(
                    gate="door",
                    state="PAUSED" if number % 2 else "ACTIVE",
                    epoch=number,
                    at=number,
                    cause="status",
                    actor="Eve" if number == 3 else "bob",
                    reason=f"number {number}",
                    expires_at=None,
                    gate_wide=False,
                    held=0,
                )
            ),
            number,
        )
        for number in range(500)
    ]
    log.append(TopicPartition("gated-door-audit", 0), to_batch(rows))
    found = got(client, "/summary/audit", text="eve", limit=5)
    assert [one["key"] for one in found["records"]] == ["k3"]
    assert (found["scanned"], found["oldest"], found["previous"]) == (500, 0, None)
    paused = got(client, "/summary/audit", status="paused", limit=3)
    assert [one["epoch"] for one in paused["records"]] == [495, 497, 499]
    before = got(client, "/summary/audit", status="paused", limit=3, before=paused["previous"])
    assert [one["epoch"] for one in before["records"]] == [489, 491, 493]
    both = got(client, "/summary/audit", text="NUMBER 47", status="active")["records"]
    assert [one["epoch"] for one in both] == [470, 472, 474, 476, 478]
    monkeypatch.setattr(record_pages, "MOST_READ", 100)
    page = got(client, "/summary/audit", text="eve")
    assert (page["records"], page["oldest"]) == ([], 450)
    for _ in range(20):
        page = got(client, "/summary/audit", text="eve", before=page["previous"])
        if page["records"]:
            break
    assert [one["key"] for one in page["records"]] == ["k3"]
    assert got(client, "/summary/audit", status="odd", code=400)["error"]["code"] == "bad-request"


def test_an_audit_of_nothing_is_empty(client: Client) -> None:
    assert got(client, "/summary/audit") == {
        "records": [],
        "previous": None,
        "scanned": 0,
        "oldest": None,
    }


def test_an_audit_of_no_gate_is_an_error(client: Client, log: SqliteLog) -> None:
    prepare(gated().build(), log, SystemClock(), partitions=2)
    answer = got(client, "/summary/audit", gate="door", before="events:0=1", code=400)
    assert answer["error"]["code"] == "bad-position"
    assert got(client, "/summary/audit", gate="none", code=404)["error"]["code"] == "no-such-gate"
