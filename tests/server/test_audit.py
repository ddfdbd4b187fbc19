"""The audit records of all gates."""

from __future__ import annotations

from pathlib import Path

from tests.gate.app import gated
from tests.gate.working import Working
from tests.server.conftest import Client
from tests.server.test_gates import APPLIED, got, posted

from tidegate import App, Topic
from tidegate.clock import SystemClock
from tidegate.log.records import Row, to_batch
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.driver.prepare import prepare
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


def test_an_audit_of_nothing_is_empty(client: Client) -> None:
    assert got(client, "/summary/audit") == {"records": [], "previous": None, "scanned": 0}


def test_an_audit_of_no_gate_is_an_error(client: Client, log: SqliteLog) -> None:
    prepare(gated().build(), log, SystemClock(), partitions=2)
    answer = got(client, "/summary/audit", gate="door", before="events:0=1", code=400)
    assert answer["error"]["code"] == "bad-position"
    assert got(client, "/summary/audit", gate="none", code=404)["error"]["code"] == "no-such-gate"
